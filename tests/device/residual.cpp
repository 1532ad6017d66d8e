// Bias, residual and dropout on the device against the CPU; masks agree bit for bit.
#include "kernels/ops/residual.h"

#include "tests/device/support.cuh"

namespace ogrom::device_test {
namespace {

template <class T>
class DeviceResidual : public OnDeviceTyped<T> {};
TYPED_TEST_SUITE(DeviceResidual, Precisions);

constexpr i64 widths[] = {1, 6, 7, 64, 770, 1028};
const std::vector<i64> samples = {5, 0, 3};
constexpr i64 B = 3, T_ = 5, rows = B * T_;

ops::DropoutSpec dropout(double p) {
    return {.p = p, .seed = run_seed() + 7, .site = 9, .step = 3};
}

TYPED_TEST(DeviceResidual, AddBiasGivesTheBitsOfTheCpu) {
    using T = TypeParam;
    for (const i64 cols : widths) {
        for (const i64 pad : {0, 4, 5}) {
            const i64 ldy = cols + pad;
            std::vector<T> y = cast<T>(fresh(rows * ldy));
            const std::vector<T> bias = cast<T>(fresh(cols));
            Array<T> on_y(y), on_bias(bias);
            ops::add_bias<T>(this->gpu, {on_y.data(), on_bias.data(), rows, cols, ldy});
            ops::add_bias<T>(this->gpu, {on_y.data(), nullptr, rows, cols, ldy});
            ops::add_bias<T>(this->cpu, {y.data(), bias.data(), rows, cols, ldy});
            expect_same_bits("add_bias", on_y.host(), y);
        }
    }
}

// Three roundings, of the biased branch, of 1 / (1 - p) and of the sum, of numbers up to `floor` = 1 + 2 / (1 - p).
template <class T>
constexpr double residual_tolerance = 3 * roundoff<T>();

TYPED_TEST(DeviceResidual, ForwardWithAndWithoutDropoutAndBias) {
    using T = TypeParam;
    for (const i64 C : widths) {
        for (const double p : {0.0, 0.1, 0.6}) {
            for (const i64 shift : {0, 1}) {
                const auto x = fresh(rows * C), branch = fresh(rows * C), bias = fresh(C);
                const std::vector<double> x64 = cast<double>(x), branch64 = cast<double>(branch),
                                          bias64 = cast<double>(bias);
                std::vector<double> want(x.size());
                Array<T> on_x(cast<T>(x), shift), on_branch(cast<T>(branch), shift), on_bias(cast<T>(bias), shift);
                Array<i64> on_samples(samples);
                const bool biased = C % 2 == 0;
                ops::residual_forward<double>(
                    this->cpu, {want.data(), x64.data(), branch64.data(), biased ? bias64.data() : nullptr, B, T_, C,
                                samples.data(), dropout(p), 2, 11});
                Array<T> y(rows * C, shift);
                ops::residual_forward<T>(
                    this->gpu, {y.data(), on_x.data(), on_branch.data(), biased ? on_bias.data() : nullptr, B, T_, C,
                                on_samples.data(), dropout(p), 2, 11});
                expect_close("residual", y.host(), want, residual_tolerance<T>, 1 + 2 / (1 - p));
                ops::residual_forward<T>(
                    this->gpu, {on_x.data(), on_x.data(), on_branch.data(), biased ? on_bias.data() : nullptr, B, T_, C,
                                on_samples.data(), dropout(p), 2, 11});
                expect_same_bits("in place of x", on_x.host(), y.host());
            }
        }
    }
}

// The gradient of ones is the mask itself; the step comes from device memory.
TYPED_TEST(DeviceResidual, MasksAreTheBitsOfTheCpu) {
    using T = TypeParam;
    for (const i64 C : widths) {
        for (const double p : {0.0, 0.1, 0.6, 0.999999}) {
            for (const i64 shift : {0, 1}) {
                const std::vector<T> ones(static_cast<std::size_t>(rows * C), T(1));
                std::vector<T> want(ones.size());
                ops::DropoutSpec spec = dropout(p);
                ops::dropout_backward<T>(this->cpu, {want.data(), ones.data(), B, T_, C, samples.data(), spec, 1, 9});
                Array<u32> step(std::vector<u32>{spec.step});
                spec.step = 77;
                spec.step_at = step.data();
                Array<T> on_ones(ones, shift), on_want(rows * C, shift);
                Array<i64> on_samples(samples);
                ops::dropout_backward<T>(this->gpu,
                                         {on_want.data(), on_ones.data(), B, T_, C, on_samples.data(), spec, 1, 9});
                expect_same_bits("mask", on_want.host(), want);
                ops::dropout_backward<T>(this->gpu,
                                         {on_ones.data(), on_ones.data(), B, T_, C, on_samples.data(), spec, 1, 9});
                expect_same_bits("in place", on_ones.host(), want);
            }
        }
    }
}

}  // namespace
}  // namespace ogrom::device_test
