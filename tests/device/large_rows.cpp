// Row operations past 2^32 elements (tests/device/large.cuh): embedding, norms, residual, bias sums, cross-entropy.
// 1032 columns take the 16-byte paths, 1027 the others.
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/gelu.h"
#include "kernels/ops/layernorm.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/residual_norm.h"

#include "tests/device/large.cuh"

namespace ogrom::device_test {
namespace {

constexpr LargeRows shapes[] = {{1032}, {1027}};

class DeviceLargeRows : public OnLargeDevice, public ::testing::WithParamInterface<LargeRows> {
protected:
    const LargeRows shape = GetParam();
    const i64 rows = shape.rows, C = shape.columns, n = shape.elements();

    void repeat_rows(Array<Bf16>& x, double scale = 1) {
        repeat(x.data(), fresh_16<Bf16>(LargeRows::period * C, scale), n);
    }
    void poison(Array<Bf16>& x) { ok(cudaMemset(x.data(), 0xFF, static_cast<std::size_t>(n) * sizeof(Bf16))); }
    // Sum over all rows of what repeats: of[r] for r < period.
    [[nodiscard]] double total(const std::vector<double>& of) const {
        double sum = 0;
        for (i64 r = 0; r < LargeRows::period; ++r) {
            const i64 times = rows / LargeRows::period + (r < rows % LargeRows::period ? 1 : 0);
            sum += of[static_cast<std::size_t>(r)] * static_cast<double>(times);
        }
        return sum;
    }
    // got[c] against the sum over the rows of term(r, c): float sums of terms up to 1 are held to 1e-5 of their number.
    template <class Term>
    void expect_column_sums(const char* what, const std::vector<float>& got, const Term& term) {
        for (const i64 c : {i64{0}, i64{1}, C / 2, C - 1}) {
            std::vector<double> of;
            for (i64 r = 0; r < LargeRows::period; ++r) {
                of.push_back(term(r, c));
            }
            EXPECT_NEAR(got[static_cast<std::size_t>(c)], total(of), 1e-5 * static_cast<double>(rows))
                << what << ", column " << c;
        }
    }
    ops::DropoutSpec dropout() const { return {.p = 0.25, .seed = run_seed() + 5, .site = 4, .step = 8}; }
    // Host copy of the last rows, and the same rows of an operation on the CPU: position0 = rows - count of rows.
    static constexpr i64 tail = 3;
    std::vector<float> last(Array<Bf16>& x) { return values<float>(part(x.data(), (rows - tail) * C, tail * C)); }
    const i64 no_sample = 0;
};
INSTANTIATE_TEST_SUITE_P(Shapes, DeviceLargeRows, ::testing::ValuesIn(shapes),
                         [](const auto& test) { return std::to_string(test.param.columns) + "_columns"; });

TEST_P(DeviceLargeRows, EmbeddingForward) {
    if (lacks(2.0 * 2 * static_cast<double>(n))) {
        return;
    }
    // The table itself has more than 2^32 elements; row r of the batch reads row rows - 1 - r.
    Array<Bf16> table(n), y(n), places(std::vector<Bf16>(static_cast<std::size_t>(C)));
    repeat_rows(table);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows)), positions(tokens.size(), 0);
    for (i64 r = 0; r < rows; ++r) {
        tokens[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(rows - 1 - r);
    }
    Array<std::int32_t> on_tokens(tokens), on_positions(positions);
    ops::embedding_forward<Bf16>(
        gpu, {y.data(), table.data(), places.data(), on_tokens.data(), on_positions.data(), 1, rows, C, nullptr, {}});
    for (const i64 row : shape.borders()) {
        ASSERT_NO_FATAL_FAILURE(
            expect_same_bits("embedding", part(y.data(), row * C, C), part(table.data(), (rows - 1 - row) * C, C)))
            << row;
        ASSERT_NO_FATAL_FAILURE(expect_same_bits("embedding, far table row", part(y.data(), (rows - 1 - row) * C, C),
                                                 part(table.data(), row * C, C)))
            << row;
    }
    ops::position_forward<Bf16>(gpu, {y.data(), places.data(), on_positions.data(), 1, rows, C, nullptr, {}});
    expect_same_bits("position_forward", part(y.data(), n - C, C), part(table.data(), 0, C));
}

TEST_P(DeviceLargeRows, EmbeddingBackward) {
    if (lacks(2.0 * static_cast<double>(n) + 4.0 * static_cast<double>(n) + 4e9)) {
        return;
    }
    Array<Bf16> d_y(n);
    Array<float> d_table(n), d_places(std::vector<float>(static_cast<std::size_t>(2 * C), 0.0F));
    repeat_rows(d_y);
    ok(cudaMemset(d_table.data(), 0, static_cast<std::size_t>(n) * sizeof(float)));
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows)), positions(tokens.size());
    for (i64 r = 0; r < rows; ++r) {
        tokens[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(rows - 1 - r);
        positions[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(r % 2);
    }
    Array<std::int32_t> on_tokens(tokens), on_positions(positions);
    ops::embedding_backward<Bf16>(gpu, {d_table.data(),
                                        d_places.data(),
                                        d_y.data(),
                                        on_tokens.data(),
                                        on_positions.data(),
                                        1,
                                        rows,
                                        C,
                                        rows,
                                        nullptr,
                                        {}});
    for (const i64 row : shape.borders()) {
        const auto want = values<float>(part(d_y.data(), row * C, C));
        ASSERT_NO_FATAL_FAILURE(expect_same_bits("token gradient", part(d_table.data(), (rows - 1 - row) * C, C), want))
            << row;
        const auto far = values<float>(part(d_y.data(), (rows - 1 - row) * C, C));
        ASSERT_NO_FATAL_FAILURE(expect_same_bits("far token gradient", part(d_table.data(), row * C, C), far)) << row;
    }
    // The period is even: rows of one parity are the same rows of each period.
    const auto first = values<double>(part(d_y.data(), 0, LargeRows::period * C));
    const auto got = d_places.host();
    for (const i64 parity : {0, 1}) {
        const std::vector<float> of_parity(got.begin() + parity * C, got.begin() + (parity + 1) * C);
        expect_column_sums("position gradient", of_parity, [&](i64 r, i64 c) {
            return r % 2 == parity ? first[static_cast<std::size_t>(r * C + c)] : 0.0;
        });
    }
}

TEST_P(DeviceLargeRows, LayerNorm) {
    if (lacks(2.0 * 3 * static_cast<double>(n))) {
        return;
    }
    Array<Bf16> x(n), y(n), d_y(n), gamma(fresh_16<Bf16>(C)), beta(fresh_16<Bf16>(C));
    Array<float> mean(rows), rstd(rows), d_gamma(std::vector<float>(static_cast<std::size_t>(C), 0.0F)),
        d_beta(std::vector<float>(static_cast<std::size_t>(C), 0.0F));
    repeat_rows(x);
    repeat_rows(d_y);
    ops::layernorm_forward<Bf16>(
        gpu, {y.data(), mean.data(), rstd.data(), x.data(), gamma.data(), beta.data(), rows, C, 1e-5});
    expect_repeats("norm", y.data(), shape);
    poison(y);
    ops::layernorm_backward<Bf16>(gpu, {y.data(), d_gamma.data(), d_beta.data(), d_y.data(), x.data(), gamma.data(),
                                        mean.data(), rstd.data(), rows, C, ops::Accumulate::overwrite});
    expect_repeats("norm'", y.data(), shape);
    const auto first = values<double>(part(d_y.data(), 0, LargeRows::period * C));
    const auto inputs = values<double>(part(x.data(), 0, LargeRows::period * C));
    const auto means = part(mean.data(), 0, LargeRows::period), rstds = part(rstd.data(), 0, LargeRows::period);
    expect_column_sums("d_beta", d_beta.host(),
                       [&](i64 r, i64 c) { return first[static_cast<std::size_t>(r * C + c)]; });
    expect_column_sums("d_gamma", d_gamma.host(), [&](i64 r, i64 c) {
        const auto at = static_cast<std::size_t>(r * C + c), row = static_cast<std::size_t>(r);
        return first[at] * (inputs[at] - means[row]) * rstds[row];
    });
}

TEST_P(DeviceLargeRows, BiasGeluAndBiasGradient) {
    if (lacks(2.0 * 2 * static_cast<double>(n))) {
        return;
    }
    Array<Bf16> x(n), y(n), bias(fresh_16<Bf16>(C));
    Array<float> d_bias(std::vector<float>(static_cast<std::size_t>(C), 0.0F));
    repeat_rows(x);
    const auto first = values<double>(part(x.data(), 0, LargeRows::period * C));
    ops::bias_gradient<Bf16>(gpu, {d_bias.data(), x.data(), rows, C, C});
    expect_column_sums("bias gradient", d_bias.host(),
                       [&](i64 r, i64 c) { return first[static_cast<std::size_t>(r * C + c)]; });
    ops::add_bias<Bf16>(gpu, {x.data(), bias.data(), rows, C, C});
    expect_repeats("add_bias", x.data(), shape);
    ops::bias_gelu_forward<Bf16>(gpu, {y.data(), x.data(), bias.data(), rows, C});
    expect_repeats("bias + gelu", y.data(), shape);
    expect_repeats("bias kept", x.data(), shape);
}

// Masks go by the global element index, which passes 2^32 too: the last rows against the CPU's at the same positions.
TEST_P(DeviceLargeRows, ResidualWithDropout) {
    if (lacks(2.0 * 4 * static_cast<double>(n))) {
        return;
    }
    Array<Bf16> x(n), branch(n), y(n), norm(n), bias(fresh_16<Bf16>(C)), gamma(fresh_16<Bf16>(C)),
        beta(fresh_16<Bf16>(C));
    Array<float> mean(rows), rstd(rows);
    Array<i64> sample(std::vector<i64>{0});
    repeat_rows(x);
    repeat_rows(branch);
    const ops::ResidualForward<Bf16> plain{y.data(), x.data(), branch.data(), bias.data(), 1, rows, C, nullptr, {}};
    ops::residual_forward<Bf16>(gpu, plain);
    expect_repeats("residual", y.data(), shape);
    poison(y);
    ops::residual_norm_forward<Bf16>(gpu,
                                     {plain, norm.data(), mean.data(), rstd.data(), gamma.data(), beta.data(), 1e-5});
    expect_repeats("residual, norm", y.data(), shape);
    expect_repeats("norm of residual", norm.data(), shape);

    const auto x_tail = last(x), branch_tail = last(branch), b = values<float>(bias.host());
    std::vector<float> want(x_tail.size());
    ops::residual_forward<float>(cpu, {want.data(), x_tail.data(), branch_tail.data(), b.data(), 1, tail, C, &no_sample,
                                       dropout(), rows - tail, rows});
    poison(y);
    ops::ResidualForward<Bf16> masked = plain;
    masked.sample = sample.data();
    masked.dropout = dropout();
    ops::residual_forward<Bf16>(gpu, masked);
    expect_close("residual, dropout", last(y), want, once<Bf16>, 1e-3);
    ops::dropout_backward<float>(
        cpu, {want.data(), branch_tail.data(), 1, tail, C, &no_sample, dropout(), rows - tail, rows});
    poison(y);
    ops::dropout_backward<Bf16>(gpu, {y.data(), branch.data(), 1, rows, C, sample.data(), dropout()});
    expect_close("dropout'", last(y), want, once<Bf16>, 1e-3);
}

class DeviceLargeLogits : public OnLargeDevice {
protected:
    static constexpr LargeRows shape{50'264};  // a vocabulary of 50,257 and its padding
    static constexpr i64 vocabulary = 50'257;
    const i64 rows = shape.rows, n = shape.elements();
    std::vector<std::int32_t> targets() {
        const std::vector<std::int32_t> drawn = fresh_integers(LargeRows::period, 0, vocabulary);
        std::vector<std::int32_t> all;
        for (i64 r = 0; r < rows; ++r) {
            all.push_back(drawn[static_cast<std::size_t>(r % LargeRows::period)]);
        }
        return all;
    }
};

TEST_F(DeviceLargeLogits, CrossEntropy) {
    if (lacks(2.0 * static_cast<double>(n))) {
        return;
    }
    Array<Bf16> logits(n);
    const auto first = fresh_16<Bf16>(LargeRows::period * shape.columns, 9);
    Array<std::int32_t> on_targets(targets());
    Array<double> loss(std::vector<double>{0, 0, 0});
    const auto run = [&](i64 count, ops::Gradient gradient, double* sum) {
        ops::cross_entropy<Bf16>(gpu, {logits.data(), on_targets.data(), nullptr, count, vocabulary, shape.columns,
                                       shape.columns, 0.5, gradient, sum});
    };
    repeat(logits.data(), first, n);
    run(LargeRows::period, ops::Gradient::none, loss.data() + 1);
    run(rows % LargeRows::period, ops::Gradient::none, loss.data() + 2);
    run(rows, ops::Gradient::in_place, loss.data());
    expect_repeats("logits' gradient", logits.data(), shape);
    const auto got = loss.host();
    const double want = got[1] * static_cast<double>(rows / LargeRows::period) + got[2];
    EXPECT_NEAR(got[0], want, 1e-9 * want);
}

// The three calls of ranks that hold parts of the columns, by a rank that holds them all.
TEST_F(DeviceLargeLogits, CrossEntropyParts) {
    if (lacks(2.0 * static_cast<double>(n))) {
        return;
    }
    Array<Bf16> logits(n);
    Array<std::int32_t> on_targets(targets());
    Array<double> loss(std::vector<double>{0, 0}), sums(2 * rows);
    Array<float> max(rows);
    repeat(logits.data(), fresh_16<Bf16>(LargeRows::period * shape.columns, 9), n);
    ops::cross_entropy<Bf16>(gpu, {logits.data(), on_targets.data(), nullptr, rows, vocabulary, shape.columns,
                                   shape.columns, 0.5, ops::Gradient::none, loss.data() + 1});
    const ops::CrossEntropyPart<Bf16> op{logits.data(),
                                         on_targets.data(),
                                         nullptr,
                                         rows,
                                         shape.columns,
                                         vocabulary,
                                         shape.columns,
                                         0,
                                         vocabulary,
                                         0.5,
                                         ops::Gradient::in_place,
                                         max.data(),
                                         sums.data(),
                                         loss.data()};
    ops::cross_entropy_max<Bf16>(gpu, op);
    ops::cross_entropy_sum<Bf16>(gpu, op);
    ops::cross_entropy_finish<Bf16>(gpu, op);
    expect_repeats("logits' gradient", logits.data(), shape);
    const auto got = loss.host();
    EXPECT_NEAR(got[0], got[1], 1e-9 * got[1]);
}

}  // namespace
}  // namespace ogrom::device_test
