// Products and bias sums on the device against the CPU in double.
#include "kernels/ops/matmul.h"

#include "tests/device/support.cuh"

namespace ogrom::device_test {
namespace {

template <class T>
class DeviceMatmul : public OnDeviceTyped<T> {};
TYPED_TEST_SUITE(DeviceMatmul, Precisions);

struct Extents {
    i64 m, n, k;
};
constexpr Extents shapes[] = {{1, 1, 1}, {3, 5, 7}, {64, 48, 129}, {129, 513, 64}, {255, 257, 1025}, {7, 9, 0}};

TYPED_TEST(DeviceMatmul, EveryTransposeStrideAndBeta) {
    using T = TypeParam;
    using ops::Transpose;
    for (const Extents& e : shapes) {
        for (int kind = 0; kind < 16; ++kind) {
            const Transpose ta = (kind & 1) != 0 ? Transpose::yes : Transpose::no;
            const Transpose tb = (kind & 2) != 0 ? Transpose::yes : Transpose::no;
            const i64 pad = (kind & 4) != 0 ? 3 : 0;
            const T beta = (kind & 8) != 0 ? T(1) : T(0);
            const i64 lda = (ta == Transpose::yes ? e.m : e.k) + pad, ldb = (tb == Transpose::yes ? e.k : e.n) + pad;
            const i64 ldy = e.n + pad;
            const auto a = fresh((ta == Transpose::yes ? e.k : e.m) * lda);
            const auto b = fresh((tb == Transpose::yes ? e.n : e.k) * ldb);
            const auto y = fresh(e.m * ldy);
            const auto a64 = cast<double>(a), b64 = cast<double>(b);
            auto want = cast<double>(y);
            ops::matmul<double>(this->cpu, {want.data(), a64.data(), b64.data(), e.m, e.n, e.k, ldy, lda, ldb, ta, tb,
                                            0.75, static_cast<double>(beta)});
            std::vector<T> before = cast<T>(y);
            for (i64 i = 0; i < e.m && beta == T(0); ++i) {
                std::fill_n(&before[i * ldy], e.n, std::numeric_limits<T>::quiet_NaN());
            }
            Array<T> on_a(cast<T>(a)), on_b(cast<T>(b)), on_y(before);
            ops::matmul<T>(this->gpu, {on_y.data(), on_a.data(), on_b.data(), e.m, e.n, e.k, ldy, lda, ldb, ta, tb,
                                       T(0.75), beta});
            // k products of at most 1: rounding of partial sums of size sqrt(k), sqrt(k) of them; TF32 would be 2^-11.
            const double root = std::sqrt(static_cast<double>(e.k) + 1);
            expect_close("y", on_y.host(), want, 2 * root * roundoff<T>(), root);
        }
    }
}

TYPED_TEST(DeviceMatmul, BiasGradientAdds) {
    using T = TypeParam;
    for (const i64 cols : {1, 6, 64, 515, 2304}) {
        for (const i64 rows : {1, 63, 1025, 4099}) {
            for (const i64 pad : {0, 4, 5}) {
                const i64 ldy = cols + pad;
                const auto d_y = fresh(rows * ldy), start = fresh(cols);
                const auto d_y64 = cast<double>(d_y);
                auto want = cast<double>(start);
                ops::bias_gradient<double>(this->cpu, {want.data(), d_y64.data(), rows, cols, ldy});
                Array<T> on_d_y(cast<T>(d_y)), got(cast<T>(start)), again(cast<T>(start));
                ops::bias_gradient<T>(this->gpu, {got.data(), on_d_y.data(), rows, cols, ldy});
                ops::bias_gradient<T>(this->gpu, {again.data(), on_d_y.data(), rows, cols, ldy});
                // Chains of at most 64 numbers in T, the rest in double; the sum is of size sqrt(rows / 3).
                expect_close("bias", got.host(), want, 12 * roundoff<T>(), std::sqrt(static_cast<double>(rows)));
                expect_same_bits("again", again.host(), got.host());
            }
        }
    }
}

}  // namespace
}  // namespace ogrom::device_test
