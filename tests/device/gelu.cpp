// GELU, add and copy on the device against the CPU in double.
#include "kernels/ops/gelu.h"

#include "kernels/ops/flat.h"

#include "tests/device/support.cuh"

namespace ogrom::device_test {
namespace {

template <class T>
class DeviceFlat : public OnDeviceTyped<T> {};
TYPED_TEST_SUITE(DeviceFlat, Precisions);

// exp within 2 ulp and about six roundings, |y| <= |u|; derivative at most 1.13 and 12 operations.
template <class T>
constexpr double gelu_tolerance = 16 * roundoff<T>();

constexpr i64 lengths[] = {1, 3, 4, 5, 255, 1024, 4099, 100003};

TYPED_TEST(DeviceFlat, AddAndCopyGiveTheBitsOfTheCpu) {
    using T = TypeParam;
    for (const i64 n : lengths) {
        for (const i64 shift : {0, 1}) {
            std::vector<T> y = cast<T>(fresh(n));
            const std::vector<T> x = cast<T>(fresh(n));
            Array<T> d_y(y, shift), d_x(x, shift), d_copy(n, shift);
            ops::add(this->gpu, d_y.data(), d_x.data(), n);
            ops::copy(this->gpu, d_copy.data(), d_x.data(), n);
            ops::add(this->cpu, y.data(), x.data(), n);
            expect_same_bits("add", d_y.host(), y);
            expect_same_bits("copy", d_copy.host(), x);
        }
    }
}

TYPED_TEST(DeviceFlat, GeluAndItsDerivative) {
    using T = TypeParam;
    for (const i64 n : lengths) {
        for (const i64 shift : {0, 1}) {
            const auto u = fresh(n, 12);
            const auto d_y = fresh(n);
            std::vector<double> y(u.size()), d_x(u.size());
            const std::vector<double> u64 = cast<double>(u), d_y64 = cast<double>(d_y);
            ops::gelu_forward<double>(this->cpu, {y.data(), u64.data(), n});
            ops::gelu_backward<double>(this->cpu, {d_x.data(), d_y64.data(), u64.data(), n});
            Array<T> on_u(cast<T>(u), shift), on_d_y(cast<T>(d_y), shift), on_y(n, shift);
            ops::gelu_forward<T>(this->gpu, {on_y.data(), on_u.data(), n});
            expect_close("gelu", on_y.host(), y, gelu_tolerance<T>);
            ops::gelu_backward<T>(this->gpu, {on_d_y.data(), on_d_y.data(), on_u.data(), n});  // in place
            expect_close("gelu'", on_d_y.host(), d_x, gelu_tolerance<T>);
        }
    }
}

TYPED_TEST(DeviceFlat, BiasGeluKeepsItsInputAndIsMadeAgain) {
    using T = TypeParam;
    for (const i64 F : {1, 7, 64, 1000, 3076}) {
        for (const i64 shift : {0, 1}) {
            const i64 rows = 13;
            const auto x = fresh(rows * F, 4), bias = fresh(F);
            std::vector<double> u = cast<double>(x), y(u.size());
            const std::vector<double> bias64 = cast<double>(bias);
            ops::bias_gelu_forward<double>(this->cpu, {y.data(), u.data(), bias64.data(), rows, F});
            Array<T> on_x(cast<T>(x), shift), on_bias(cast<T>(bias), shift), on_y(rows * F, shift),
                again(rows * F, shift);
            ops::bias_gelu_forward<T>(this->gpu, {on_y.data(), on_x.data(), on_bias.data(), rows, F});
            expect_close("u", on_x.host(), u, roundoff<T>());
            expect_close("y", on_y.host(), y, gelu_tolerance<T>);
            ops::gelu_forward<T>(this->gpu, {again.data(), on_x.data(), rows * F});
            expect_same_bits("again", again.host(), on_y.host());
            Array<T> no_bias(rows * F, shift);
            ops::bias_gelu_forward<T>(this->gpu, {no_bias.data(), on_x.data(), nullptr, rows, F});
            expect_same_bits("without bias", no_bias.host(), on_y.host());
        }
    }
}

}  // namespace
}  // namespace ogrom::device_test
