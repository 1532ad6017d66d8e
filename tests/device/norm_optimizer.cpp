// Norms on the device give the bits of the CPU (fp32); updates agree with the CPU in double.
#include "kernels/ops/norm.h"
#include "kernels/ops/optimizer.h"
#include "kernels/ops/weight_hash.h"

#include "tests/device/support.cuh"

namespace ogrom::device_test {
namespace {

template <class T>
class DeviceNorm : public OnDeviceTyped<T> {};
TYPED_TEST_SUITE(DeviceNorm, Precisions);

constexpr i64 lengths[] = {1, 17, 255, 256, 4096, 4097, 100003, 3000001};

TYPED_TEST(DeviceNorm, SumsOfSquares) {
    using T = TypeParam;
    // fp32 squares are exact in double and the order is the CPU's; fp64 may fuse differently: 1e6 roundings at random.
    const double tolerance = sizeof(T) == 4 ? 0 : 64 * roundoff<double>();
    for (const i64 n : lengths) {
        for (const i64 shift : {0, 1}) {
            const std::vector<T> x = cast<T>(fresh(n, 3));
            Array<T> on_x(x, shift);
            const double want = ops::sum_of_squares(this->cpu, x.data(), n);
            EXPECT_NEAR(ops::sum_of_squares(this->gpu, on_x.data(), n), want, tolerance * want);
            ExactSum exact;
            exact.add(0.1);
            Array<ExactSum> on_exact(std::vector<ExactSum>{exact});
            ops::block_squares(this->cpu, x.data(), n, exact);
            const i64 cut = n / 512 * 256;  // in two calls
            ops::block_squares(this->gpu, on_x.data() + cut, n - cut, *on_exact.data());
            ops::block_squares(this->gpu, on_x.data(), cut, *on_exact.data());
            EXPECT_NEAR(on_exact.host()[0].value(), exact.value(), tolerance * want);
            EXPECT_TRUE(ops::all_finite(this->gpu, on_x.data(), n));
        }
    }
}

// More ranges than a launch takes, of odd lengths and with gaps between them, empty ones too.
TYPED_TEST(DeviceNorm, ManyRangesAreAddedAsOne) {
    using T = TypeParam;
    const double tolerance = sizeof(T) == 4 ? 0 : 64 * roundoff<double>();  // fp32: the bits of the CPU
    for (const i64 shift : {0, 1}) {
        const std::vector<T> x = cast<T>(fresh(600000, 3));
        Array<T> on_x(x, shift);
        std::vector<ops::SquaresRange<T>> there, here;
        i64 at = 0;
        for (i64 r = 0; at < 500000; ++r) {
            const i64 n = r % 7 == 3 ? 0 : (r % 50 == 49 ? 40000 + r : 1 + r * 37 % 3000);
            here.push_back({x.data() + at, n});
            there.push_back({on_x.data() + at, n});
            at += ceil_div(n + r % 3, i64{4}) * 4;
        }
        ASSERT_GT(there.size(), 2U * 96U);
        ExactSum want;
        for (const ops::SquaresRange<T>& one : here) {
            ops::block_squares(this->cpu, one.x, one.n, want);
        }
        Array<ExactSum> got(std::vector<ExactSum>(1));
        ops::block_squares<T>(this->gpu, there, *got.data());
        EXPECT_NEAR(got.host()[0].value(), want.value(), tolerance * want.value());
        EXPECT_GT(got.host()[0].value(), 0);
        Array<ExactSum> none(std::vector<ExactSum>(1));
        ops::block_squares<T>(this->gpu, {}, *none.data());
        EXPECT_EQ(none.host()[0].value(), 0);
    }
}

TYPED_TEST(DeviceNorm, ANonfiniteElementAnywhereIsSeen) {
    using T = TypeParam;
    for (const i64 n : {i64{1}, i64{4097}, i64{100003}}) {
        for (const i64 at : {i64{0}, n / 2, n - 1}) {
            for (const T bad : {std::numeric_limits<T>::quiet_NaN(), -std::numeric_limits<T>::infinity()}) {
                std::vector<T> x = cast<T>(fresh(n));
                x[at] = bad;
                Array<T> on_x(x);
                EXPECT_FALSE(ops::all_finite(this->gpu, on_x.data(), n));
                if constexpr (!std::is_same_v<T, Bf16>) {  // gradients are never bf16
                    Array<u64> key(std::vector<u64>(1));
                    ops::last_nonfinite(this->gpu, key.data(), on_x.data(), n, u64{1} << 40);
                    ops::last_nonfinite(this->gpu, key.data(), on_x.data(), n, 5);
                    EXPECT_EQ(key.host()[0], (u64{1} << 40) + 1 + static_cast<u64>(at));
                }
                Array<ExactSum> sum(std::vector<ExactSum>(1));
                ops::block_squares(this->gpu, on_x.data(), n, *sum.data());
                EXPECT_TRUE(std::isnan(sum.host()[0].value()));
            }
        }
    }
}

TYPED_TEST(DeviceNorm, TheWeightHashIsThatOfTheCpu) {
    using T = TypeParam;
    if constexpr (!std::is_same_v<T, Bf16>) {  // the master is hashed
        constexpr i64 n = 1000003;
        const std::vector<T> x = cast<T>(fresh(n));
        Array<T> on_x(x);
        const auto runs = [&](const T* values) {
            return std::vector<ops::HashRun<T>>{{values, 0, 700001, hash_tensor(3), 7, 7, 5, 0},
                                                {values, 700001, 700001, hash_tensor(4), 1, 1, 0, 0},
                                                {values, 700002, n, hash_tensor(5), 11, 33, 2, 11}};
        };
        EXPECT_EQ(ops::weight_hash<T>(this->gpu, runs(on_x.data())), ops::weight_hash<T>(this->cpu, runs(x.data())));
        EXPECT_EQ(ops::weight_hash<T>(this->gpu, {}), 0U);
    }
}

constexpr ops::StepScalars scalars{.lr = 0.01,
                                   .clip = 0.7,
                                   .beta1 = 0.9,
                                   .beta2 = 0.95,
                                   .correction1 = 0.19,
                                   .correction2 = 0.0975,
                                   .epsilon = 1e-8,
                                   .momentum = 0.9};

// About 12 roundings, the update is at most lr / 0.19 * sqrt(0.0975) of a weight of size 1.
template <class T>
constexpr double update_tolerance = 8 * roundoff<T>();

TYPED_TEST(DeviceNorm, AdamWAndItsSkip) {
    using T = TypeParam;
    for (const i64 n : lengths) {
        for (const i64 shift : {0, 1}) {
            const auto w = fresh(n), m = fresh(n), g = fresh(n);
            auto v = fresh(n);
            for (float& one : v) {
                one = std::abs(one);
            }
            auto w64 = cast<double>(w), m64 = cast<double>(m), v64 = cast<double>(v);
            const auto g64 = cast<double>(g);
            ops::adamw<double>(this->cpu, {w64.data(), m64.data(), v64.data(), g64.data(), n, scalars, 0.5, 0.1});
            Array<T> on_w(cast<T>(w), shift), on_m(cast<T>(m), shift), on_v(cast<T>(v), shift), on_g(cast<T>(g), shift);
            ops::StepScalars skipped = scalars;
            skipped.skip = 1;
            Array<ops::StepScalars> at(std::vector<ops::StepScalars>{skipped, scalars});
            ops::AdamW<T> op{on_w.data(), on_m.data(), on_v.data(), on_g.data(), n, {}, 0.5, 0.1, at.data()};
            ops::adamw(this->gpu, op);
            expect_same_bits("skipped", on_w.host(), cast<T>(w));
            expect_same_bits("skipped", on_m.host(), cast<T>(m));
            op.scalars_at = at.data() + 1;
            ops::adamw(this->gpu, op);
            // A small v makes the quotient large; it is compared with its own size.
            expect_close("w", on_w.host(), w64, update_tolerance<T>);
            expect_close("m", on_m.host(), m64, update_tolerance<T>);
            expect_close("v", on_v.host(), v64, update_tolerance<T>);
        }
    }
}

TYPED_TEST(DeviceNorm, SgdWithAndWithoutMomentum) {
    using T = TypeParam;
    for (const i64 n : lengths) {
        for (const bool heavy : {true, false}) {
            const auto w = fresh(n), m = fresh(n), g = fresh(n);
            auto w64 = cast<double>(w), m64 = cast<double>(m);
            const auto g64 = cast<double>(g);
            ops::StepScalars s = scalars;
            s.momentum = heavy ? 0.9 : 0;
            ops::sgd<double>(this->cpu, {w64.data(), heavy ? m64.data() : nullptr, g64.data(), n, s, 0.5, 0.1});
            Array<T> on_w(cast<T>(w)), on_m(cast<T>(m)), on_g(cast<T>(g));
            ops::sgd<T>(this->gpu, {on_w.data(), heavy ? on_m.data() : nullptr, on_g.data(), n, s, 0.5, 0.1});
            expect_close("w", on_w.host(), w64, update_tolerance<T>);
            expect_close("m", on_m.host(), m64, update_tolerance<T>);
        }
    }
}

}  // namespace
}  // namespace ogrom::device_test
