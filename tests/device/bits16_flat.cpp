// Bf16 and Fp16 on the device, element by element: conversions, GELU, residual, updates, norms. The wanted numbers are
// the CPU's in double from the same rounded inputs.
#include "kernels/cuda/ops.h"
#include "kernels/ops/flat.h"

#include "tests/device/support.cuh"

namespace ogrom::device_test {
namespace {

template <class S>
class Device16Bits : public OnDeviceTyped<S> {};
TYPED_TEST_SUITE(Device16Bits, Bits16);

constexpr i64 lengths[] = {1, 7, 17, 4096, 100003};

template <class T>
std::vector<T> host_of(Array<T>& x) {
    return x.host();
}
template <class S>
requires is_16_bit<S> std::vector<float> host_of(Array<S>& x) {
    return values<float>(x.host());
}

// Against the CPU's conversion, whose rounding tests/kernels/bf16.cpp and fp16.cpp check number by number.
template <class To, class From>
void cast_case(Stream gpu, Stream cpu, i64 n, i64 shift) {
    std::vector<double> from = cast<double>(fresh(n, 1e3));
    const double special[] = {0.0,
                              -0.0,
                              1e300,
                              -1e39,
                              1.0 + 0x1p-8,
                              1.0 + 0x1p-8 + 0x1p-40,
                              std::nan(""),
                              1e-45,
                              1.0 + 0x1p-11,
                              1.0 + 0x1p-11 + 0x1p-40,
                              65519.99,
                              -65520.0,
                              0x1p-25,
                              0x1.8p-24,
                              0x1p-14 - 0x1p-26};
    for (i64 i = 0; i < std::min(n, static_cast<i64>(std::size(special))); ++i) {
        from[i] = special[i];
    }
    std::vector<From> x(from.size());
    std::vector<To> want(from.size());
    ops::cast(cpu, x.data(), from.data(), n);
    ops::cast(cpu, want.data(), x.data(), n);
    Array<From> on_x(x, shift);
    Array<To> y(n, shift);
    ops::cast(gpu, y.data(), on_x.data(), n);
    const std::vector<To> got = y.host();
    for (i64 i = 0; i < n; ++i) {
        const auto a = static_cast<float>(got[i]), b = static_cast<float>(want[i]);
        ASSERT_TRUE((std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b)))
            << i << ": got " << a << ", want " << b << ", seed " << run_seed();
    }
}

TYPED_TEST(Device16Bits, CastsOfAllPairs) {
    using S = TypeParam;
    for (const i64 n : lengths) {
        for (const i64 shift : {0, 1}) {
            cast_case<S, float>(this->gpu, this->cpu, n, shift);
            cast_case<S, double>(this->gpu, this->cpu, n, shift);
            cast_case<S, S>(this->gpu, this->cpu, n, shift);
            cast_case<float, S>(this->gpu, this->cpu, n, shift);
            cast_case<float, double>(this->gpu, this->cpu, n, shift);
            cast_case<double, float>(this->gpu, this->cpu, n, shift);
            cast_case<double, S>(this->gpu, this->cpu, n, shift);
        }
    }
}

TYPED_TEST(Device16Bits, FillCopyAndAddToFloat) {
    using S = TypeParam;
    for (const i64 n : lengths) {
        for (const i64 shift : {0, 1}) {
            const auto x = fresh_16<S>(n);
            auto sum = fresh(n);
            Array<S> on_x(x, shift), y(n, shift), filled(n + 1, shift);
            Array<float> on_sum(sum, shift);
            Array<double> wide(n + 1, shift);
            ops::copy(this->gpu, y.data(), on_x.data(), n);
            expect_same_bits("copy", host_of(y), values<float>(x));
            ops::add(this->gpu, on_sum.data(), on_x.data(), n);
            ops::add(this->cpu, sum.data(), x.data(), n);
            expect_same_bits("add", on_sum.host(), sum);
            ops::fill(this->gpu, filled.data(), S(1.5F), n);
            ops::fill(this->gpu, wide.data(), 0.1, n);
            const auto got = host_of(filled);
            const auto got_wide = wide.host();
            for (i64 i = 0; i < n; ++i) {
                ASSERT_EQ(got[i], 1.5F);
                ASSERT_EQ(got_wide[i], 0.1);
            }
            EXPECT_TRUE(std::isnan(got[n]) && std::isnan(got_wide[n]));  // the poison behind stays
        }
    }
}

// The derivative crosses 0 at u = -0.75, where only an absolute bound holds; __expf and __fdividef leave 2^-20.
TYPED_TEST(Device16Bits, Gelu) {
    using S = TypeParam;
    for (const i64 cols : {1, 7, 64, 1032}) {
        for (const i64 shift : {0, 1}) {
            const i64 rows = 9, n = rows * cols;
            const auto x = fresh_16<S>(n, 8), bias = fresh_16<S>(cols), d_y = fresh_16<S>(n);
            Array<S> u(x, shift), on_bias(bias, shift), y(n, shift), again(n, shift), d(d_y, shift);
            ops::bias_gelu_forward<S>(this->gpu, {y.data(), u.data(), on_bias.data(), rows, cols});
            ops::gelu_forward<S>(this->gpu, {again.data(), u.data(), n});
            ops::gelu_backward<S>(this->gpu, {d.data(), d.data(), u.data(), n});
            const std::vector<double> u64 = values<double>(u.host()), d64 = values<double>(d_y);
            std::vector<double> want_y(u64.size()), want_d(u64.size());
            for (i64 i = 0; i < n; ++i) {
                ASSERT_EQ(u64[i], to_float(S(to_float(x[i]) + to_float(bias[i % cols]))));
            }
            ops::gelu_forward<double>(this->cpu, {want_y.data(), u64.data(), n});
            ops::gelu_backward<double>(this->cpu, {want_d.data(), d64.data(), u64.data(), n});
            expect_close("y", host_of(y), want_y, once<S>, floor_of<S>(1e-3));
            expect_same_bits("again", host_of(again), host_of(y));
            expect_close("d_x", host_of(d), want_d, once<S>, floor_of<S>(1e-3));
        }
    }
}

TYPED_TEST(Device16Bits, GeluPassesNanAndInfinity) {
    using S = TypeParam;
    const float inf = std::numeric_limits<float>::infinity();
    Array<S> u(std::vector<S>{S(std::nanf("")), S(inf), S(-inf), S(-300.0F)}), y(4);
    ops::gelu_forward<S>(this->gpu, {y.data(), u.data(), 4});
    const auto got = host_of(y);
    EXPECT_TRUE(std::isnan(got[0]));
    EXPECT_EQ(got[1], inf);
    EXPECT_TRUE(std::isnan(got[2]));
    EXPECT_EQ(got[3], 0.0F);
}

ops::DropoutSpec dropout(double p) {
    return {.p = p, .seed = run_seed() + 7, .site = 9, .step = 3};
}

TYPED_TEST(Device16Bits, ResidualBiasAndDropout) {
    using S = TypeParam;
    const std::vector<i64> samples = {5, 0, 3};
    constexpr i64 B = 3, T_ = 5, rows = B * T_;
    Array<i64> on_samples(samples);
    for (const i64 C : {1, 7, 64, 770, 1032}) {
        for (const double p : {0.0, 0.1, 0.6}) {
            for (const i64 shift : {0, 1}) {
                const auto x = fresh_16<S>(rows * C), branch = fresh_16<S>(rows * C), bias = fresh_16<S>(C);
                const auto x64 = values<double>(x), branch64 = values<double>(branch), bias64 = values<double>(bias);
                std::vector<double> want(x64.size()), want_d(x64.size());
                ops::residual_forward<double>(this->cpu, {want.data(), x64.data(), branch64.data(), bias64.data(), B,
                                                          T_, C, samples.data(), dropout(p), 2, T_ + 4});
                ops::dropout_backward<double>(
                    this->cpu, {want_d.data(), x64.data(), B, T_, C, samples.data(), dropout(p), 2, T_ + 4});
                Array<S> on_x(x, shift), on_branch(branch, shift), on_bias(bias, shift), d(rows * C, shift);
                ops::dropout_backward<S>(this->gpu,
                                         {d.data(), on_x.data(), B, T_, C, on_samples.data(), dropout(p), 2, T_ + 4});
                ops::residual_forward<S>(this->gpu, {on_branch.data(), on_x.data(), on_branch.data(), on_bias.data(), B,
                                                     T_, C, on_samples.data(), dropout(p), 2, T_ + 4});
                expect_close("y", host_of(on_branch), want, once<S>, floor_of<S>(1e-3));
                expect_close("d_branch", host_of(d), want_d, once<S>, floor_of<S>(1e-3));
            }
        }
        for (const i64 pad : {0, 8, 5}) {
            const i64 ldy = C + pad;
            const auto y = fresh_16<S>(rows * ldy), bias = fresh_16<S>(C);
            auto want = values<float>(y);
            for (i64 i = 0; i < rows * C; ++i) {
                float& one = want[i / C * ldy + i % C];
                one = to_float(S(one + to_float(bias[i % C])));
            }
            Array<S> on_y(y), on_bias(bias);
            ops::add_bias<S>(this->gpu, {on_y.data(), on_bias.data(), rows, C, ldy});
            expect_same_bits("add_bias", host_of(on_y), want);
        }
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

// The master goes the way of fp32 weights, bit for bit; the weight is the rounded master.
TYPED_TEST(Device16Bits, UpdatesAreMadeOnTheMaster) {
    using S = TypeParam;
    for (const i64 n : lengths) {
        for (const i64 shift : {0, 1}) {
            const auto w = fresh(n), m = fresh(n), g = fresh(n);
            auto v = fresh(n);
            for (float& one : v) {
                one = std::abs(one);
            }
            Array<float> plain(w, shift), plain_m(m, shift), plain_v(v, shift), on_g(g, shift);
            Array<float> master(w, shift), on_m(m, shift), on_v(v, shift);
            Array<S> weight(n, shift);
            ops::StepScalars skipped = scalars;
            skipped.skip = 1;
            Array<ops::StepScalars> at(std::vector<ops::StepScalars>{skipped, scalars});
            ops::adamw<float>(this->gpu,
                              {plain.data(), plain_m.data(), plain_v.data(), on_g.data(), n, scalars, 0.5, 0.1});
            ops::AdamW<S> op{weight.data(), on_m.data(), on_v.data(), on_g.data(),  n, {},
                             0.5,           0.1,         at.data(),   master.data()};
            ops::adamw(this->gpu, op);
            EXPECT_TRUE(std::isnan(host_of(weight)[0]));  // skipped: the poison stays
            expect_same_bits("skipped", master.host(), w);
            op.scalars_at = at.data() + 1;
            ops::adamw(this->gpu, op);
            const auto rounded = [](const std::vector<float>& x) {
                std::vector<float> out;
                for (const float one : x) {
                    out.push_back(to_float(S(one)));
                }
                return out;
            };
            expect_same_bits("master", master.host(), plain.host());
            expect_same_bits("m", on_m.host(), plain_m.host());
            expect_same_bits("v", on_v.host(), plain_v.host());
            expect_same_bits("weight", host_of(weight), rounded(plain.host()));
            ops::sgd<float>(this->gpu, {plain.data(), plain_m.data(), on_g.data(), n, scalars, 0.5, 0.1});
            ops::sgd<S>(this->gpu,
                        {weight.data(), on_m.data(), on_g.data(), n, scalars, 0.5, 0.1, nullptr, master.data()});
            expect_same_bits("sgd master", master.host(), plain.host());
            expect_same_bits("sgd weight", host_of(weight), rounded(plain.host()));
        }
    }
}

// The order of the sums is that of the CPU, and squares of 16 bits are exact: the same bits.
TYPED_TEST(Device16Bits, NormsAndNonfinite) {
    using S = TypeParam;
    for (const i64 n : {i64{1}, i64{255}, i64{4097}, i64{100003}}) {
        for (const i64 shift : {0, 1}) {
            auto x = fresh_16<S>(n, 3);
            const auto floats = values<float>(x);
            Array<S> on_x(x, shift);
            EXPECT_EQ(ops::sum_of_squares(this->gpu, on_x.data(), n), ops::sum_of_squares(this->cpu, floats.data(), n));
            ExactSum want;
            ops::block_squares(this->cpu, floats.data(), n, want);
            Array<ExactSum> sum(std::vector<ExactSum>(1));
            ops::block_squares(this->gpu, on_x.data(), n, *sum.data());
            EXPECT_EQ(sum.host()[0].value(), want.value());
            EXPECT_TRUE(ops::all_finite(this->gpu, on_x.data(), n));
            x[n / 2] = S(-std::numeric_limits<float>::infinity());
            Array<S> bad(x, shift);
            EXPECT_FALSE(ops::all_finite(this->gpu, bad.data(), n));
        }
    }
}

}  // namespace
}  // namespace ogrom::device_test
