// The joint with the norm behind it gives the bits of the two operations, on the device as on the CPU.
#include "kernels/ops/residual_norm.h"

#include <algorithm>

#include "kernels/common/dtype.h"

#include "tests/device/support.cuh"

namespace ogrom::device_test {
namespace {

template <class T>
class DeviceResidualNorm : public OnDeviceTyped<T> {};
using Storage = ::testing::Types<float, double, Bf16, Fp16>;
TYPED_TEST_SUITE(DeviceResidualNorm, Storage);

template <class T>
std::vector<double> host_of(Array<T>& x) {
    std::vector<double> out;
    for (const T one : x.host()) {
        out.push_back(static_cast<double>(static_cast<StatisticOf<T>>(one)));
    }
    return out;
}

template <class T>
std::vector<T> drawn(i64 n) {
    std::vector<T> out;
    for (const float one : fresh(n)) {
        out.push_back(static_cast<T>(one));
    }
    return out;
}

TYPED_TEST(DeviceResidualNorm, BitsOfTheTwoOperations) {
    using T = TypeParam;
    const std::vector<i64> samples = {5, 0, 3};
    constexpr i64 B = 3, T_ = 15, rows = B * T_;
    Array<i64> on_samples(samples);
    for (const i64 C : {1, 8, 67, 768, 1600, 4096, 16392}) {
        for (const i64 shift : {0, 1}) {
            for (const double p : {0.0, 0.3}) {
                const ops::DropoutSpec dropout{.p = p, .seed = run_seed() + 3, .site = 2, .step = 6};
                Array<T> x(drawn<T>(rows * C), shift), branch(drawn<T>(rows * C), shift), bias(drawn<T>(C), shift);
                Array<T> gamma(drawn<T>(C), shift), beta(drawn<T>(C), shift);
                Array<T> y(rows * C, shift), norm(rows * C, shift), two_y(rows * C, shift), two_norm(rows * C, shift);
                Array<StatisticOf<T>> mean(rows), rstd(rows), two_mean(rows), two_rstd(rows);
                ops::ResidualForward<T> residual{
                    y.data(), x.data(), branch.data(), C % 3 == 0 ? nullptr : bias.data(), B, T_, C, on_samples.data(),
                    dropout,  2,        T_ + 4};
                ops::residual_norm_forward<T>(
                    this->gpu, {residual, norm.data(), mean.data(), rstd.data(), gamma.data(), beta.data(), 1e-5});
                residual.y = two_y.data();
                ops::residual_forward(this->gpu, residual);
                ops::layernorm_forward<T>(this->gpu, {two_norm.data(), two_mean.data(), two_rstd.data(), two_y.data(),
                                                      gamma.data(), beta.data(), rows, C, 1e-5});
                const auto all_finite = [](const std::vector<double>& values) {
                    return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
                };
                EXPECT_TRUE(all_finite(host_of(y)) && all_finite(host_of(norm)) && all_finite(host_of(rstd)));
                expect_same_bits("y", host_of(y), host_of(two_y));
                expect_same_bits("norm", host_of(norm), host_of(two_norm));
                expect_same_bits("mean", host_of(mean), host_of(two_mean));
                expect_same_bits("rstd", host_of(rstd), host_of(two_rstd));
                // In place of the branch, as the model has it.
                residual.y = branch.data();
                ops::residual_norm_forward<T>(
                    this->gpu, {residual, norm.data(), nullptr, nullptr, gamma.data(), beta.data(), 1e-5});
                expect_same_bits("y in place", host_of(branch), host_of(two_y));
                expect_same_bits("norm in place", host_of(norm), host_of(two_norm));
            }
        }
    }
}

}  // namespace
}  // namespace ogrom::device_test
