// Bf16 and Fp16 on the device, row by row: embedding, layer norm, cross-entropy; sums and statistics in float. The
// wanted numbers are the CPU's in double from the same rounded inputs.
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/layernorm.h"

#include "tests/device/support.cuh"

namespace ogrom::device_test {
namespace {

template <class S>
class Device16BitsRows : public OnDeviceTyped<S> {};
TYPED_TEST_SUITE(Device16BitsRows, Bits16);

template <class S>
std::vector<float> host_of(Array<S>& x) {
    return values<float>(x.host());
}

ops::DropoutSpec dropout(double p) {
    return {.p = p, .seed = run_seed() + 5, .site = 4, .step = 8};
}

TYPED_TEST(Device16BitsRows, Embedding) {
    using S = TypeParam;
    constexpr i64 B = 3, T_ = 171, rows = B * T_, vocabulary = 97, sequence = 400;
    const std::vector<i64> samples = {5, 0, 3};
    auto tokens = fresh_integers(rows, 0, vocabulary);
    const auto positions = fresh_integers(rows, 0, sequence);
    for (i64 r = 0; r < rows; r += 2) {
        tokens[r] = 41;  // its sum goes over several pieces
    }
    Array<std::int32_t> on_tokens(tokens), on_positions(positions);
    Array<i64> on_samples(samples);
    for (const i64 C : {1, 12, 64, 515, 768}) {
        for (const i64 first : {i64{0}, i64{30}}) {
            const i64 held = first == 0 ? 0 : 50;
            const double p = first == 0 ? 0.0 : 0.3;
            const i64 table_rows = held > 0 ? held : vocabulary;
            const auto table = fresh_16<S>(table_rows * C), places = fresh_16<S>(sequence * C),
                       g = fresh_16<S>(rows * C);
            const auto table64 = values<double>(table), places64 = values<double>(places), g64 = values<double>(g);
            std::vector<double> want(g.size());
            ops::embedding_forward<double>(
                this->cpu, {want.data(), table64.data(), places64.data(), tokens.data(), positions.data(), B, T_, C,
                            samples.data(), dropout(p), 3, T_ + 20, first, held});
            Array<S> on_table(table), on_places(places), on_g(g), y(rows * C), steps(rows * C);
            ops::embedding_forward<S>(
                this->gpu, {y.data(), on_table.data(), on_places.data(), on_tokens.data(), on_positions.data(), B, T_,
                            C, on_samples.data(), dropout(p), 3, T_ + 20, first, held});
            expect_close("forward", host_of(y), want, once<S>, floor_of<S>(1e-3));
            ops::embedding_forward<S>(this->gpu, {steps.data(),
                                                  on_table.data(),
                                                  nullptr,
                                                  on_tokens.data(),
                                                  nullptr,
                                                  B,
                                                  T_,
                                                  C,
                                                  nullptr,
                                                  {},
                                                  3,
                                                  T_ + 20,
                                                  first,
                                                  held});
            ops::position_forward<S>(this->gpu, {steps.data(), on_places.data(), on_positions.data(), B, T_, C,
                                                 on_samples.data(), dropout(p), 3, T_ + 20});
            expect_same_bits("in two steps", host_of(steps), host_of(y));  // a row of the table is exact

            const auto start = fresh(table_rows * C), start_places = fresh(sequence * C);
            auto want_table = cast<double>(start), want_places = cast<double>(start_places);
            ops::embedding_backward<double>(
                this->cpu, {want_table.data(), want_places.data(), g64.data(), tokens.data(), positions.data(), B, T_,
                            C, vocabulary, samples.data(), dropout(p), 3, T_ + 20, first, held});
            Array<float> d_table(start), d_places(start_places);
            ops::embedding_backward<S>(
                this->gpu, {d_table.data(), d_places.data(), on_g.data(), on_tokens.data(), on_positions.data(), B, T_,
                            C, vocabulary, on_samples.data(), dropout(p), 3, T_ + 20, first, held});
            // As in embedding.cpp: the sums are those of float.
            expect_close("token table", d_table.host(), want_table, 48 * roundoff<float>(), 8);
            expect_close("position table", d_places.host(), want_places, 16 * roundoff<float>());
        }
    }
}

constexpr i64 widths[] = {5, 8, 252, 768, 1000, 1022, 1600, 4096, 6144, 12288, 16392};
constexpr double epsilon = 1e-5;

// Statistics and d_gamma: the roundings of float, counted in layernorm.cpp; the mean and d_beta add exact numbers. d_x
// adds to what is there before it is rounded.
template <class S>
void norm_case(Stream gpu, Stream cpu, i64 rows, i64 C, i64 shift, ops::Accumulate mode) {
    const auto x = fresh_16<S>(rows * C, 4), gamma = fresh_16<S>(C), beta = fresh_16<S>(C), d_y = fresh_16<S>(rows * C),
               d_x = fresh_16<S>(rows * C);
    const auto x64 = values<double>(x), gamma64 = values<double>(gamma), beta64 = values<double>(beta),
               d_y64 = values<double>(d_y);
    std::vector<double> y(x.size()), mean(rows), rstd(rows), want = values<double>(d_x);
    std::vector<double> d_gamma(static_cast<std::size_t>(C), 0.5), d_beta(static_cast<std::size_t>(C), -2.0);
    ops::layernorm_forward<double>(
        cpu, {y.data(), mean.data(), rstd.data(), x64.data(), gamma64.data(), beta64.data(), rows, C, epsilon});
    ops::layernorm_backward<double>(cpu, {want.data(), d_gamma.data(), d_beta.data(), d_y64.data(), x64.data(),
                                          gamma64.data(), mean.data(), rstd.data(), rows, C, mode});
    Array<S> on_x(x, shift), on_gamma(gamma, shift), on_beta(beta, shift), on_d_y(d_y, shift);
    Array<S> on_y(rows * C, shift);
    Array<float> on_mean(rows), on_rstd(rows);
    ops::layernorm_forward<S>(gpu, {on_y.data(), on_mean.data(), on_rstd.data(), on_x.data(), on_gamma.data(),
                                    on_beta.data(), rows, C, epsilon});
    expect_close("mean", on_mean.host(), mean, 4 * roundoff<float>());
    expect_close("rstd", on_rstd.host(), rstd, 10 * roundoff<float>());
    expect_close("y", host_of(on_y), y, once<S>, floor_of<S>(1e-2));

    const auto start = mode == ops::Accumulate::add ? d_x : std::vector<S>(d_x.size(), S(std::nanf("")));
    Array<S> all(start, shift), alone(start, shift);
    const std::vector<float> halves(static_cast<std::size_t>(C), 0.5F), twos(static_cast<std::size_t>(C), -2.0F);
    Array<float> g_gamma(halves), g_beta(twos), p_gamma(halves);
    const auto run = [&](S* to_x, float* to_gamma, float* to_beta) {
        ops::layernorm_backward<S>(gpu, {to_x, to_gamma, to_beta, on_d_y.data(), on_x.data(), on_gamma.data(),
                                         on_mean.data(), on_rstd.data(), rows, C, mode});
    };
    run(all.data(), g_gamma.data(), g_beta.data());
    run(alone.data(), nullptr, nullptr);
    run(nullptr, p_gamma.data(), nullptr);
    const double root = std::sqrt(static_cast<double>(rows));
    expect_close("d_x", host_of(all), want, once<S>, floor_of<S>(1e-2));
    expect_close("d_gamma", g_gamma.host(), d_gamma, 30 * roundoff<float>(), root);
    expect_close("d_beta", g_beta.host(), d_beta, 6 * roundoff<float>(), root);
    expect_same_bits("d_x alone", host_of(alone), host_of(all));
    expect_same_bits("d_gamma alone", p_gamma.host(), g_gamma.host());
}

TYPED_TEST(Device16BitsRows, LayerNorm) {
    using S = TypeParam;
    for (const i64 C : widths) {
        const i64 rows = C > 2000 ? 37 : 301;
        for (const i64 shift : {0, 1}) {
            norm_case<S>(this->gpu, this->cpu, rows, C, shift, ops::Accumulate::overwrite);
        }
        norm_case<S>(this->gpu, this->cpu, rows, C, 0, ops::Accumulate::add);
    }
    norm_case<S>(this->gpu, this->cpu, 5003, 72, 0, ops::Accumulate::add);
    norm_case<S>(this->gpu, this->cpu, 5003, 67, 0, ops::Accumulate::add);
}

// In parts and in one give the same bits. The loss: __expf is off by 2^-21 and an argument of up to 18 by its last bit.
TYPED_TEST(Device16BitsRows, CrossEntropyFusedAndInParts) {
    using S = TypeParam;
    struct Shape {
        i64 vocabulary, padded, ld;
    };
    constexpr Shape shapes[] = {{1, 1, 1},          {5, 8, 8},          {97, 97, 101},
                                {1001, 1024, 1024}, {5003, 5008, 5008}, {50257, 50304, 50304}};
    constexpr double scale = 1.0 / 29;
    for (const Shape& s : shapes) {
        const i64 rows = s.vocabulary > 2000 ? 5 : 31;
        const auto logits = fresh_16<S>(rows * s.ld, 9);
        auto targets = fresh_integers(rows, 0, s.vocabulary);
        std::vector<std::uint8_t> mask(static_cast<std::size_t>(rows), 1);
        mask[1] = 0;
        targets[1] = -100;
        auto want = values<double>(logits);
        double want_loss = 2.5;
        ops::cross_entropy<double>(this->cpu, {want.data(), targets.data(), mask.data(), rows, s.vocabulary, s.padded,
                                               s.ld, scale, ops::Gradient::in_place, &want_loss});
        Array<S> fused(logits), parts(logits), kept(logits);
        Array<float> max(rows);
        Array<std::int32_t> on_targets(targets);
        Array<std::uint8_t> on_mask(mask);
        Array<double> loss(std::vector<double>{2.5, 2.5, 2.5}), sums(2 * rows);
        ops::cross_entropy<S>(this->gpu, {fused.data(), on_targets.data(), on_mask.data(), rows, s.vocabulary, s.padded,
                                          s.ld, scale, ops::Gradient::in_place, loss.data()});
        const ops::CrossEntropyPart<S> part{parts.data(),
                                            on_targets.data(),
                                            on_mask.data(),
                                            rows,
                                            s.ld,
                                            s.vocabulary,
                                            s.padded,
                                            0,
                                            s.vocabulary,
                                            scale,
                                            ops::Gradient::in_place,
                                            max.data(),
                                            sums.data(),
                                            loss.data() + 1};
        ops::cross_entropy_max(this->gpu, part);
        ops::cross_entropy_sum(this->gpu, part);
        ops::cross_entropy_finish(this->gpu, part);
        ops::cross_entropy<S>(this->gpu, {kept.data(), on_targets.data(), on_mask.data(), rows, s.vocabulary, s.padded,
                                          s.ld, scale, ops::Gradient::none, loss.data() + 2});
        expect_close("gradient", host_of(fused), want, once<S>, floor_of<S>(1e-4 * scale));
        expect_same_bits("in parts", host_of(parts), host_of(fused));
        expect_same_bits("no gradient", host_of(kept), values<float>(logits));
        const std::vector<double> got = loss.host();
        expect_close("loss", std::vector<double>{got[0]}, std::vector<double>{want_loss}, 0.4 * roundoff<float>());
        expect_same_bits("loss in parts", std::vector<double>{got[1], got[2]}, std::vector<double>{got[0], got[0]});
    }
}

TYPED_TEST(Device16BitsRows, ANanLogitMakesTheLossNan) {
    using S = TypeParam;
    auto z = fresh_16<S>(3 * 64);
    z[70] = S(std::nanf(""));
    Array<S> logits(z);
    Array<std::int32_t> targets(std::vector<std::int32_t>{1, 2, 3});
    Array<double> loss(std::vector<double>{0});
    ops::cross_entropy<S>(
        this->gpu, {logits.data(), targets.data(), nullptr, 3, 60, 64, 64, 0.1, ops::Gradient::in_place, loss.data()});
    EXPECT_TRUE(std::isnan(loss.host()[0]));
}

}  // namespace
}  // namespace ogrom::device_test
