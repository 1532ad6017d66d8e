// Products whose matrices pass 2^32 elements, in bf16 (tests/device/large.cuh): as result, as left and as transposed
// factor. The wanted numbers are sums in double over the first period.
#include "kernels/ops/linear.h"
#include "kernels/ops/matmul.h"

#include "tests/device/large.cuh"

namespace ogrom::device_test {
namespace {

class DeviceLargeProducts : public OnLargeDevice {
protected:
    static constexpr LargeRows shape{1032};
    static constexpr i64 narrow = 64;
    const i64 rows = shape.rows, C = shape.columns, n = shape.elements();

    // sum_k a[k] b[k]
    static double dot(const std::vector<double>& a, i64 at, const std::vector<double>& b, i64 bt, i64 count) {
        double sum = 0;
        for (i64 k = 0; k < count; ++k) {
            sum += a[static_cast<std::size_t>(at + k)] * b[static_cast<std::size_t>(bt + k)];
        }
        return sum;
    }
};

TEST_F(DeviceLargeProducts, LargeResult) {
    if (lacks(2.0 * static_cast<double>(n) * 2 + 2.0 * static_cast<double>(rows * narrow))) {
        return;
    }
    const auto a0 = fresh_16<Bf16>(LargeRows::period * narrow), b0 = fresh_16<Bf16>(C * narrow),
               bias0 = fresh_16<Bf16>(C);
    Array<Bf16> a(rows * narrow), b(b0), bias(bias0), y(n), u(n);
    repeat(a.data(), a0, rows * narrow);
    const auto a64 = values<double>(a0), b64 = values<double>(b0), bias64 = values<double>(bias0);
    const auto expect = [&](const char* what, const Bf16* got, bool with_bias) {
        for (const i64 row : shape.borders()) {
            std::vector<double> want;
            for (i64 c = 0; c < C; ++c) {
                want.push_back(dot(a64, row % LargeRows::period * narrow, b64, c * narrow, narrow) +
                               (with_bias ? bias64[static_cast<std::size_t>(c)] : 0));
            }
            // Rounded once, or once more where the bias comes after the product.
            expect_close(what, values<float>(part(got, row * C, C)), want, 2 * once<Bf16>, 1);
        }
    };
    ops::matmul<Bf16>(gpu, {y.data(), a.data(), b.data(), rows, C, narrow, C, narrow, narrow, ops::Transpose::no,
                            ops::Transpose::yes});
    expect("matmul", y.data(), false);
    ok(cudaMemset(y.data(), 0xFF, static_cast<std::size_t>(n) * sizeof(Bf16)));
    ops::linear_bias<Bf16>(gpu, {y.data(), a.data(), b.data(), bias.data(), rows, narrow, C});
    expect("linear_bias", y.data(), true);
    ops::linear_bias_gelu<Bf16>(gpu, {y.data(), u.data(), a.data(), b.data(), bias.data(), rows, narrow, C});
    expect("linear_bias_gelu", u.data(), true);
}

TEST_F(DeviceLargeProducts, LargeFactors) {
    if (lacks(2.0 * static_cast<double>(n) + 6.0 * static_cast<double>(rows * narrow))) {
        return;
    }
    const auto x0 = fresh_16<Bf16>(LargeRows::period * C), w0 = fresh_16<Bf16>(narrow * C),
               d0 = fresh_16<Bf16>(LargeRows::period * narrow);
    Array<Bf16> x(n), w(w0), y(rows * narrow), d(rows * narrow);
    repeat(x.data(), x0, n);
    repeat(d.data(), d0, rows * narrow);
    const auto x64 = values<double>(x0), w64 = values<double>(w0), d64 = values<double>(d0);
    ops::matmul<Bf16>(
        gpu, {y.data(), x.data(), w.data(), rows, narrow, C, narrow, C, C, ops::Transpose::no, ops::Transpose::yes});
    for (const i64 row : shape.borders()) {
        std::vector<double> want;
        for (i64 c = 0; c < narrow; ++c) {
            want.push_back(dot(x64, row % LargeRows::period * C, w64, c * C, C));
        }
        expect_close("large left factor", values<float>(part(y.data(), row * narrow, narrow)), want, 2 * once<Bf16>, 1);
    }
    // d_w[narrow, C] += d^T x, the sum over more than 4 million rows of terms below 1.
    Array<float> gradient(std::vector<float>(static_cast<std::size_t>(narrow * C), 0.0F)),
        d_bias(std::vector<float>(narrow, 0.0F));
    ops::linear_gradients<Bf16>(gpu, {gradient.data(), d_bias.data(), d.data(), x.data(), rows, C, narrow});
    const auto got = gradient.host();
    for (const i64 i : {i64{0}, i64{17}, narrow - 1}) {
        for (const i64 c : {i64{0}, C / 2, C - 1}) {
            double want = 0;
            for (i64 r = 0; r < LargeRows::period; ++r) {
                const i64 times = rows / LargeRows::period + (r < rows % LargeRows::period ? 1 : 0);
                want += d64[static_cast<std::size_t>(r * narrow + i)] * x64[static_cast<std::size_t>(r * C + c)] *
                        static_cast<double>(times);
            }
            EXPECT_NEAR(got[static_cast<std::size_t>(i * C + c)], want, 1e-4 * static_cast<double>(rows))
                << i << ' ' << c;
        }
    }
}

}  // namespace
}  // namespace ogrom::device_test
