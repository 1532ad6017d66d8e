// Helpers of the kernel tests: repeatable inputs, poisoned outputs, comparison with the reference, thread counts.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <omp.h>
#include <vector>

#include "kernels/common/rng.h"

namespace ogrom::test {

// Numbers in (-scale, scale), exact in T; `stream` tells inputs apart.
template <class T>
std::vector<T> random_values(i64 n, u32 stream, double scale = 1) {
    std::vector<T> out(static_cast<std::size_t>(n));
    for (i64 i = 0; i < n; ++i) {
        const double u = uniform(random_word(4711, stream, 0, static_cast<u64>(i)));
        out[i] = static_cast<T>(static_cast<float>((2 * u - 1) * scale));
    }
    return out;
}

// An output before the call: what is not written stays NaN and fails the comparison.
template <class T>
std::vector<T> poisoned(i64 n) {
    return std::vector<T>(static_cast<std::size_t>(n), std::numeric_limits<T>::quiet_NaN());
}

template <class T>
std::vector<double> to_double(const std::vector<T>& x) {
    return {x.begin(), x.end()};
}

// Each |got - want| <= tolerance * max(floor, |want|), and got is finite.
template <class T>
void expect_near(const std::vector<T>& got, const std::vector<double>& want, double tolerance, double floor = 1) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double bound = tolerance * std::max(floor, std::abs(want[i]));
        ASSERT_TRUE(std::abs(static_cast<double>(got[i]) - want[i]) <= bound)
            << "element " << i << ": got " << got[i] << ", want " << want[i] << ", bound " << bound;
    }
}

// Positions [first, last) of every sample of x[B, length, C], packed: the rows of a sequence-parallel rank.
template <class T>
std::vector<T> positions_of(const std::vector<T>& x, i64 length, i64 C, i64 first, i64 last) {
    std::vector<T> out;
    for (i64 start = 0; start < static_cast<i64>(x.size()); start += length * C) {
        out.insert(out.end(), x.begin() + start + first * C, x.begin() + start + last * C);
    }
    return out;
}

// Whether all elements are the same bits.
template <class T>
::testing::AssertionResult same_bits(const std::vector<T>& got, const std::vector<T>& want) {
    if (got.size() != want.size()) {
        return ::testing::AssertionFailure() << got.size() << " elements, want " << want.size();
    }
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::memcmp(&got[i], &want[i], sizeof(T)) != 0) {
            return ::testing::AssertionFailure() << "element " << i << ": got " << got[i] << ", want " << want[i];
        }
    }
    return ::testing::AssertionSuccess();
}

// Unit roundoff of T.
template <class T>
constexpr double roundoff() {
    return static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
}

// Runs with a given number of host threads until the end of the scope.
class Threads {
public:
    explicit Threads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
    ~Threads() { omp_set_num_threads(before_); }
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;

private:
    int before_;
};

using Precisions = ::testing::Types<float, double>;

}  // namespace ogrom::test
