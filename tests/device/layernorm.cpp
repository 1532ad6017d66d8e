// Layer norm on the device against the CPU in double: rows held by 1 to 32 warps, rows passed over, rows not aligned.
#include "kernels/ops/layernorm.h"

#include <limits>

#include "tests/device/support.cuh"

namespace ogrom::device_test {
namespace {

template <class T>
class DeviceLayerNorm : public OnDeviceTyped<T> {};
TYPED_TEST_SUITE(DeviceLayerNorm, Precisions);

constexpr i64 widths[] = {1, 5, 8, 252, 768, 1000, 1022, 1600, 4096, 6144, 12288, 16392};
constexpr double epsilon = 1e-5;

i64 rows_of(i64 C) {
    return C > 2000 ? 37 : 301;
}

// Sums are trees of 32 to 1024 threads over chains of 16 (64 where passed over) of values up to 4: about ten roundings.
template <class T>
constexpr double forward_tolerance = 20 * roundoff<T>();

template <class T>
struct Inputs {
    std::vector<float> x, gamma, beta, d_y, d_x;
    explicit Inputs(i64 rows, i64 C)
        : x(fresh(rows * C, 4)), gamma(fresh(C)), beta(fresh(C)), d_y(fresh(rows * C)), d_x(fresh(rows * C)) {}
};

TYPED_TEST(DeviceLayerNorm, Forward) {
    using T = TypeParam;
    for (const i64 C : widths) {
        for (const i64 shift : {0, 1}) {
            const i64 rows = rows_of(C);
            const Inputs<T> in(rows, C);
            const auto x = cast<double>(in.x), gamma = cast<double>(in.gamma), beta = cast<double>(in.beta);
            std::vector<double> y(x.size()), mean(rows), rstd(rows);
            const bool biased = C % 3 != 0;
            ops::layernorm_forward<double>(this->cpu, {y.data(), mean.data(), rstd.data(), x.data(), gamma.data(),
                                                       biased ? beta.data() : nullptr, rows, C, epsilon});
            Array<T> on_x(cast<T>(in.x), shift), on_gamma(cast<T>(in.gamma), shift), on_beta(cast<T>(in.beta), shift);
            Array<T> on_y(rows * C, shift), on_mean(rows), on_rstd(rows), again(rows * C, shift);
            const T* on_bias = biased ? on_beta.data() : nullptr;
            ops::layernorm_forward<T>(this->gpu, {on_y.data(), on_mean.data(), on_rstd.data(), on_x.data(),
                                                  on_gamma.data(), on_bias, rows, C, epsilon});
            ops::layernorm_forward<T>(
                this->gpu, {again.data(), nullptr, nullptr, on_x.data(), on_gamma.data(), on_bias, rows, C, epsilon});
            // One column: x - mean is 0, and 1 / sqrt(epsilon) = 316 multiplies nothing.
            expect_close("mean", on_mean.host(), mean, forward_tolerance<T>);
            expect_close("rstd", on_rstd.host(), rstd, forward_tolerance<T> / 2);
            expect_close("y", on_y.host(), y, forward_tolerance<T>);
            expect_same_bits("again", again.host(), on_y.host());
        }
    }
}

// d_x: as forward, times rstd of about 1/2. Parameters: `rows` terms |dy xh| of about 1, in chains of at most 64, then
// in double, against sqrt(rows).
template <class T>
constexpr double backward_tolerance = 30 * roundoff<T>();

template <class T>
void backward_case(Stream gpu, Stream cpu, i64 rows, i64 C, i64 shift, ops::Accumulate mode) {
    const Inputs<T> in(rows, C);
    const auto x = cast<double>(in.x), gamma = cast<double>(in.gamma), d_y = cast<double>(in.d_y);
    std::vector<double> y(x.size()), mean(rows), rstd(rows), d_x = cast<double>(in.d_x);
    std::vector<double> d_gamma(static_cast<std::size_t>(C), 0.5), d_beta(static_cast<std::size_t>(C), -2.0);
    ops::layernorm_forward<double>(
        cpu, {y.data(), mean.data(), rstd.data(), x.data(), gamma.data(), nullptr, rows, C, epsilon});
    ops::layernorm_backward<double>(cpu, {d_x.data(), d_gamma.data(), d_beta.data(), d_y.data(), x.data(), gamma.data(),
                                          mean.data(), rstd.data(), rows, C, mode});

    Array<T> on_x(cast<T>(in.x), shift), on_gamma(cast<T>(in.gamma), shift), on_d_y(cast<T>(in.d_y), shift);
    Array<T> on_mean(std::vector<T>(mean.begin(), mean.end())), on_rstd(std::vector<T>(rstd.begin(), rstd.end()));
    const auto start = mode == ops::Accumulate::add
                           ? cast<T>(in.d_x)
                           : std::vector<T>(in.d_x.size(), std::numeric_limits<T>::quiet_NaN());
    Array<T> all(start, shift), alone(start, shift);
    const std::vector<T> halves(static_cast<std::size_t>(C), T(0.5)), twos(static_cast<std::size_t>(C), T(-2));
    Array<T> g_gamma(halves), g_beta(twos), p_gamma(halves), p_beta(twos);
    const auto run = [&](T* to_x, T* to_gamma, T* to_beta, const T* from) {
        ops::layernorm_backward<T>(gpu, {to_x, to_gamma, to_beta, from, on_x.data(), on_gamma.data(), on_mean.data(),
                                         on_rstd.data(), rows, C, mode});
    };
    run(all.data(), g_gamma.data(), g_beta.data(), on_d_y.data());
    run(alone.data(), nullptr, nullptr, on_d_y.data());
    run(nullptr, p_gamma.data(), nullptr, on_d_y.data());
    run(nullptr, nullptr, p_beta.data(), on_d_y.data());
    const double rows_root = std::sqrt(static_cast<double>(rows));
    expect_close("d_x", all.host(), d_x, backward_tolerance<T>);
    expect_close("d_gamma", g_gamma.host(), d_gamma, backward_tolerance<T>, rows_root);
    expect_close("d_beta", g_beta.host(), d_beta, backward_tolerance<T>, rows_root);
    expect_same_bits("d_x alone", alone.host(), all.host());
    expect_same_bits("d_gamma alone", p_gamma.host(), g_gamma.host());
    expect_same_bits("d_beta alone", p_beta.host(), g_beta.host());
    if (mode == ops::Accumulate::overwrite) {
        run(on_d_y.data(), g_gamma.data(), g_beta.data(), on_d_y.data());
        expect_same_bits("d_x in place of d_y", on_d_y.host(), all.host());
    }
}

TYPED_TEST(DeviceLayerNorm, BackwardOverwrites) {
    for (const i64 C : widths) {
        for (const i64 shift : {0, 1}) {
            if (C > 1) {
                backward_case<TypeParam>(this->gpu, this->cpu, rows_of(C), C, shift, ops::Accumulate::overwrite);
            }
        }
    }
}

TYPED_TEST(DeviceLayerNorm, BackwardAdds) {
    for (const i64 C : widths) {
        if (C > 1) {
            backward_case<TypeParam>(this->gpu, this->cpu, rows_of(C), C, 0, ops::Accumulate::add);
        }
    }
    backward_case<TypeParam>(this->gpu, this->cpu, 5003, 68, 0, ops::Accumulate::add);
    backward_case<TypeParam>(this->gpu, this->cpu, 5003, 67, 0, ops::Accumulate::add);
}

}  // namespace
}  // namespace ogrom::device_test
