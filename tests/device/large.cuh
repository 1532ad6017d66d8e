// Cases at real size: every kernel whose index can pass 2^31 (B11), with extents past 2^32, so that neither a signed
// nor an unsigned 32-bit index survives. Inputs repeat with a period that no power of two is a multiple of: an index
// that wraps reads or writes another place. What stands past the borders must have the bits of its place in the first
// period (kernels are repeatable), which in turn is finite; outputs are poisoned before. Each case needs the memory it
// names and skips with the figure where that is not free: 90 GB are enough for all.
#pragma once
#include <algorithm>

#include "tests/device/support.cuh"

namespace ogrom::device_test {

// As floats, which can be printed and tell every Bf16 apart.
inline void expect_same_bits(const char* what, const std::vector<Bf16>& got, const std::vector<Bf16>& want) {
    expect_same_bits<float>(what, values<float>(got), values<float>(want));
}

// Rows of `columns` elements, more than 2^32 in all; the inputs repeat every `period` rows.
struct LargeRows {
    i64 columns;
    i64 rows = (i64{1} << 32) / columns + 13;
    static constexpr i64 period = 1000;
    [[nodiscard]] i64 elements() const { return rows * columns; }
    // Rows that hold elements 2^31 and 2^32 and their neighbours, and the last ones.
    [[nodiscard]] std::vector<i64> borders() const {
        const i64 signed_one = (i64{1} << 31) / columns, unsigned_one = (i64{1} << 32) / columns;
        return {signed_one - 1, signed_one, signed_one + 1, unsigned_one - 1, unsigned_one, unsigned_one + 1, rows - 1};
    }
};

class OnLargeDevice : public OnDevice {
protected:
    // Skips the test where `bytes` are not free: `if (lacks(...)) return;`.
    [[nodiscard]] static bool lacks(double bytes) {
        std::size_t free = 0, total = 0;
        ok(cudaMemGetInfo(&free, &total));
        if (static_cast<double>(free) > bytes + 2e9) {
            return false;
        }
        [bytes, free] {
            GTEST_SKIP() << "needs " << bytes / 1e9 << " GB of free GPU memory, there are "
                         << static_cast<double>(free) / 1e9;
        }();
        return true;
    }

    // x[i] = values[i mod period].
    template <class T>
    static void repeat(T* x, const std::vector<T>& values, i64 n) {
        const i64 period = std::min<i64>(n, static_cast<i64>(values.size()));
        const auto bytes = [](i64 count) { return static_cast<std::size_t>(count) * sizeof(T); };
        ok(cudaMemcpy(x, values.data(), bytes(period), cudaMemcpyHostToDevice));
        for (i64 have = period; have < n; have *= 2) {
            ok(cudaMemcpy(x + have, x, bytes(std::min(have, n - have)), cudaMemcpyDeviceToDevice));
        }
        ok(cudaDeviceSynchronize());
    }

    template <class T>
    static std::vector<T> part(const T* x, i64 first, i64 n) {
        std::vector<T> out(static_cast<std::size_t>(n));
        ok(cudaDeviceSynchronize());
        ok(cudaMemcpy(out.data(), x + first, out.size() * sizeof(T), cudaMemcpyDeviceToHost));
        return out;
    }

    static bool finite(double x) { return std::isfinite(x); }
    static bool finite(Bf16 x) { return std::isfinite(to_float(x)); }

    // Row r of x has the bits of row r mod period, for the rows at the borders.
    template <class T>
    static void expect_repeats(const char* what, const T* x, const LargeRows& shape) {
        for (const i64 row : shape.borders()) {
            const std::vector<T> first = part(x, row % shape.period * shape.columns, shape.columns);
            ASSERT_TRUE(std::all_of(first.begin(), first.end(), [](T one) { return finite(one); })) << what;
            ASSERT_NO_FATAL_FAILURE(expect_same_bits(what, part(x, row * shape.columns, shape.columns), first))
                << what << ", row " << row;
        }
    }
    // The same for flat ranges: 64 elements around each border.
    template <class T>
    static void expect_flat_repeats(const char* what, const T* x, i64 n, i64 period) {
        for (const i64 at : {(i64{1} << 31) - 32, (i64{1} << 32) - 32, n - 64}) {
            const std::vector<T> got = part(x, at, 64);
            for (i64 i = 0; i < 64; ++i) {
                const T first = part(x, (at + i) % period, 1)[0];
                ASSERT_TRUE(finite(first)) << what;
                ASSERT_EQ(std::memcmp(&got[static_cast<std::size_t>(i)], &first, sizeof(T)), 0)
                    << what << ", element " << at + i;
            }
        }
    }
};

}  // namespace ogrom::device_test
