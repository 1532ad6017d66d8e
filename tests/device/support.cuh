// Helpers of the device tests: fresh inputs (OGROM_TEST_SEED repeats a run), poisoned device memory, a stream that is
// not the default one, comparison with the CPU implementation in double. Without a GPU each test skips.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "kernels/common/dtype.h"
#include "kernels/common/rng.h"
#include "kernels/common/stream.h"

namespace ogrom::device_test {

// Drawn once a run and printed.
u64 run_seed();

inline void ok(cudaError_t status) {
    ASSERT_EQ(status, cudaSuccess) << cudaGetErrorString(status);
}

// Numbers in (-scale, scale), exact in fp32, new in each run and each call.
std::vector<float> fresh(i64 n, double scale = 1);
// Integers in [low, high).
std::vector<std::int32_t> fresh_integers(i64 n, i64 low, i64 high);

template <class T>
std::vector<T> cast(const std::vector<float>& x) {
    return {x.begin(), x.end()};
}

// The same in a type of 16 bits, and what they stand for: the CPU computes the wanted numbers from these.
template <class S>
std::vector<S> fresh_16(i64 n, double scale = 1) {
    const std::vector<float> x = fresh(n, scale);
    std::vector<S> out;
    for (const float one : x) {
        out.push_back(S(one));
    }
    return out;
}
template <class T, class S>
std::vector<T> values(const std::vector<S>& x) {
    std::vector<T> out;
    for (const S one : x) {
        out.push_back(T{to_float(one)});
    }
    return out;
}
// A result rounded to S once: 2^-8 of it in Bf16, 2^-11 in Fp16, and a little for the arithmetic in float before.
template <class S>
inline constexpr double once = std::is_same_v<S, Fp16> ? 1.01 / 2048 : 1.01 / 256;
// Where that bound ends, given for Bf16: float's errors behind a floor are the same for Fp16, whose bound is an eighth;
// and below 2^-14 its numbers have one distance.
template <class S>
constexpr double floor_of(double of_bf16) {
    return std::is_same_v<S, Fp16> ? std::max(8 * of_bf16, 0x1p-14) : of_bf16;
}

// `n` elements on the device, poisoned (every byte 0xFF: a NaN) or from the host, `shift` elements past an aligned
// address; what surrounds them is poison too.
template <class T>
class Array {
public:
    explicit Array(i64 n, i64 shift = 0) : n_(n), shift_(shift) {
        const std::size_t bytes = static_cast<std::size_t>(n + shift) * sizeof(T);
        ok(cudaMalloc(&memory_, std::max<std::size_t>(bytes, 1)));
        ok(cudaMemset(memory_, 0xFF, bytes));
        ok(cudaDeviceSynchronize());
    }
    explicit Array(const std::vector<T>& values, i64 shift = 0) : Array(static_cast<i64>(values.size()), shift) {
        ok(cudaMemcpy(data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
        ok(cudaDeviceSynchronize());
    }
    ~Array() { static_cast<void>(cudaFree(memory_)); }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;

    T* data() { return static_cast<T*>(memory_) + shift_; }
    // After everything enqueued before.
    std::vector<T> host() {
        std::vector<T> out(static_cast<std::size_t>(n_));
        ok(cudaDeviceSynchronize());
        ok(cudaMemcpy(out.data(), data(), out.size() * sizeof(T), cudaMemcpyDeviceToHost));
        return out;
    }

private:
    i64 n_, shift_;
    void* memory_ = nullptr;
};

// Each |got - want| <= tolerance * max(floor, |want|); a NaN in either fails. The worst share of the bound is kept for
// the table at the end of the run under the test's name and `what`.
void note_share(const std::string& what, double share);
template <class T, class W>
void expect_close(const char* what, const std::vector<T>& got, const std::vector<W>& want, double tolerance,
                  double floor = 1) {
    ASSERT_EQ(got.size(), want.size()) << what;
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double reference = static_cast<double>(want[i]);
        const double bound = tolerance * std::max(floor, std::abs(reference));
        const double error = std::abs(static_cast<double>(got[i]) - reference);
        ASSERT_TRUE(error <= bound) << what << ", element " << i << ": got " << got[i] << ", want " << reference
                                    << ", bound " << bound << ", seed " << run_seed();
        worst = std::max(worst, error / bound);
    }
    note_share(what, worst);
}

template <class T>
void expect_same_bits(const char* what, const std::vector<T>& got, const std::vector<T>& want) {
    ASSERT_EQ(got.size(), want.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(std::memcmp(&got[i], &want[i], sizeof(T)), 0)
            << what << ", element " << i << ": got " << got[i] << ", want " << want[i] << ", seed " << run_seed();
    }
}

// Unit roundoff of T.
template <class T>
constexpr double roundoff() {
    return static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
}

class OnDevice : public ::testing::Test {
protected:
    void SetUp() override;
    void TearDown() override;

    Stream gpu{Backend::cuda, nullptr};
    Stream cpu{};
};

template <class T>
class OnDeviceTyped : public OnDevice {};

using Precisions = ::testing::Types<float, double>;
using Bits16 = ::testing::Types<Bf16, Fp16>;

}  // namespace ogrom::device_test
