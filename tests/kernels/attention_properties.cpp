// What attention promises beside its values: gradients that are derivatives, repeatable bits, masked rows, memory
// linear in T, 64-bit dropout elements, refusals.
#include "kernels/common/fault.h"
#include "kernels/ops/attention.h"

#include "tests/kernels/attention_support.h"

namespace ogrom::test {
namespace {

template <class T>
T sum_of_products(const std::vector<T>& x, const std::vector<T>& y, const Rows& rows) {
    T sum = 0;
    for (i64 i = 0; i < rows.elements(); ++i) {
        sum += rows.used(i) ? x[static_cast<std::size_t>(i)] * y[static_cast<std::size_t>(i)] : T(0);
    }
    return sum;
}

// Central differences of sum(out * d_out) in fp64 with h = 1e-5: truncation h^2 and cancellation 1e-16 / h, together <
// 1e-9 on values of order 1.
TEST(AttentionGradient, IsTheDerivative) {
    const AttentionCase c{.name = "",
                          .batch = 1,
                          .queries = 19,
                          .keys = 26,
                          .heads = 4,
                          .kv_heads = 2,
                          .head_dim = 5,
                          .query_offset = 7,
                          .p = 0.25,
                          .segment_length = 11};
    AttentionTensors<double> x(c);
    const AttentionOutputs<double> y = run_attention(x, cpu::best_isa());
    const auto check = [&](std::vector<double>& input, const std::vector<double>& gradient, const Rows& rows) {
        constexpr double h = 1e-5;
        for (i64 i = 0; i < rows.elements(); i += 7) {
            if (!rows.used(i)) {
                continue;
            }
            double& element = input[static_cast<std::size_t>(i)];
            const double value = element;
            element = value + h;
            const double above = sum_of_products(run_attention(x, cpu::best_isa()).out, x.d_out, x.out);
            element = value - h;
            const double below = sum_of_products(run_attention(x, cpu::best_isa()).out, x.d_out, x.out);
            element = value;
            EXPECT_NEAR(gradient[static_cast<std::size_t>(i)], (above - below) / (2 * h), 1e-9) << "element " << i;
        }
    };
    check(x.q, y.d_q, x.query);
    check(x.k, y.d_k, x.key);
    check(x.v, y.d_v, x.key);
}

// 1 (sample, head) and 3 threads take the split backward pass, 6 the fused one: all give one result.
TEST(AttentionRepeatable, AnyNumberOfThreads) {
    for (const i64 heads : {1, 6}) {
        const AttentionCase c{.name = "",
                              .batch = 1,
                              .queries = 310,
                              .keys = 310,
                              .heads = heads,
                              .kv_heads = heads,
                              .head_dim = 17,
                              .p = 0.1,
                              .segment_length = 150};
        const AttentionTensors<float> x(c);
        for (const cpu::Isa isa : instruction_sets()) {
            const AttentionOutputs<float> one = [&] {
                const Threads threads(1);
                return run_attention(x, isa);
            }();
            for (const int count : {2, 3, 5}) {
                SCOPED_TRACE(count);
                const Threads threads(count);
                expect_same_bits(one, run_attention(x, isa));
            }
        }
    }
}

TEST(AttentionRepeatable, InsideAParallelRegion) {
    const AttentionCase c{.name = "", .batch = 2, .queries = 41, .keys = 41, .heads = 2, .kv_heads = 2, .head_dim = 8};
    const AttentionTensors<float> x(c);
    const AttentionOutputs<float> alone = run_attention(x, cpu::best_isa());
    std::vector<AttentionOutputs<float>> inside(3);
#pragma omp parallel for num_threads(3)
    for (int i = 0; i < 3; ++i) {
        inside[static_cast<std::size_t>(i)] = run_attention(x, cpu::best_isa());
    }
    for (const AttentionOutputs<float>& y : inside) {
        expect_same_bits(alone, y);
    }
}

// Generation with a cache: row t alone equals row t of the whole sequence up to rounding (12 roundoffs, as against the
// reference).
TEST(AttentionForward, OneQueryAtATime) {
    const AttentionCase whole{
        .name = "", .batch = 1, .queries = 300, .keys = 300, .heads = 2, .kv_heads = 1, .head_dim = 40};
    const AttentionTensors<float> x(whole);
    const AttentionOutputs<float> want = run_attention(x, cpu::best_isa());
    for (const i64 t : {0, 1, 95, 96, 255, 256, 299}) {
        ops::AttentionShape shape = x.shape;
        shape.queries = 1;
        shape.keys = t + 1;
        shape.query_offset = t;
        std::vector<float> out = poisoned<float>(80);
        std::vector<float> workspace = poisoned<float>(ops::attention_workspace(shape, omp_get_max_threads()));
        ops::attention_forward<float>({}, {out.data(), nullptr, x.q.data() + t * x.query.stride, x.k.data(), x.v.data(),
                                           shape, workspace.data()});
        const float* row = want.out.data() + t * x.out.stride;
        expect_near(out, std::vector<double>(row, row + 80), 12 * roundoff<float>());
    }
}

TEST(AttentionForward, RowsWithoutKeys) {
    // Queries 0..9 stand before key 0; with segments, nobody shares one.
    for (const i64 segment_length : {0, 1}) {
        const AttentionCase c{.name = "",
                              .batch = 1,
                              .queries = 30,
                              .keys = 20,
                              .heads = 1,
                              .kv_heads = 1,
                              .head_dim = 4,
                              .key_offset = 10,
                              .p = 0.5};
        AttentionTensors<float> x(c);
        const std::vector<std::int32_t> left(30, 1), right(20, segment_length == 0 ? 1 : 2);
        x.shape.query_segments = left.data();
        x.shape.key_segments = right.data();
        const AttentionOutputs<float> y = run_attention(x, cpu::best_isa());
        const i64 empty = segment_length == 0 ? 10 : 30;
        for (i64 i = 0; i < 30; ++i) {
            EXPECT_EQ(std::isinf(y.lse[static_cast<std::size_t>(i)]), i < empty) << "row " << i;
            EXPECT_LT(y.lse[static_cast<std::size_t>(i)], 10.0F);
            for (i64 d = 0; d < 4 && i < empty; ++d) {
                EXPECT_EQ(y.out[static_cast<std::size_t>(i * x.out.stride + d)], 0.0F);
                EXPECT_EQ(y.d_q[static_cast<std::size_t>(i * x.query.stride + d)], 0.0F);
            }
        }
        for (i64 i = 0; i < x.key.elements(); ++i) {
            EXPECT_EQ(std::isfinite(y.d_k[static_cast<std::size_t>(i)]), x.key.used(i));
        }
    }
}

TEST(AttentionForward, EmptyExtents) {
    const AttentionCase no_keys{
        .name = "", .batch = 1, .queries = 3, .keys = 0, .heads = 1, .kv_heads = 1, .head_dim = 2};
    const AttentionTensors<float> x(no_keys);
    const AttentionOutputs<float> y = run_attention(x, cpu::best_isa());
    EXPECT_EQ(y.lse, std::vector<float>(3, -std::numeric_limits<float>::infinity()));
    EXPECT_EQ(y.out[0], 0.0F);
    EXPECT_EQ(y.d_q[0], 0.0F);
    const AttentionCase no_queries{
        .name = "", .batch = 1, .queries = 0, .keys = 3, .heads = 1, .kv_heads = 1, .head_dim = 2};
    const AttentionTensors<float> z(no_queries);
    EXPECT_EQ(run_attention(z, cpu::best_isa()).d_k[0], 0.0F);
}

// A NaN is seen, not masked away: in its own row as a query, in every later row as a key.
TEST(AttentionForward, NanIsPropagated) {
    const AttentionCase c{
        .name = "", .batch = 1, .queries = 150, .keys = 150, .heads = 1, .kv_heads = 1, .head_dim = 8};
    for (const cpu::Isa isa : instruction_sets()) {
        AttentionTensors<float> x(c);
        x.q[static_cast<std::size_t>(70 * x.query.stride + 3)] = std::numeric_limits<float>::quiet_NaN();
        const AttentionOutputs<float> y = run_attention(x, isa);
        for (i64 i = 0; i < 150; ++i) {
            EXPECT_EQ(std::isnan(y.out[static_cast<std::size_t>(i * x.out.stride)]), i == 70) << "row " << i;
        }
        AttentionTensors<float> z(c);
        z.k[static_cast<std::size_t>(70 * z.key.stride)] = std::numeric_limits<float>::quiet_NaN();
        const AttentionOutputs<float> w = run_attention(z, isa);
        for (i64 i = 70; i < 150; ++i) {
            EXPECT_TRUE(std::isnan(w.out[static_cast<std::size_t>(i * z.out.stride)])) << "row " << i;
        }
        EXPECT_FALSE(std::isnan(w.out[static_cast<std::size_t>(50 * z.out.stride)]));
    }
}

// The workspace grows by the same amount for each block of T: no T * T term, and no term of batch or heads.
TEST(AttentionWorkspace, LinearInTime) {
    const auto elements = [](i64 length, i64 heads, int threads) {
        ops::AttentionShape shape;
        shape.batch = 8;
        shape.queries = shape.keys = length;
        shape.heads = shape.kv_heads = heads;
        shape.head_dim = 64;
        return ops::attention_workspace(shape, threads);
    };
    EXPECT_EQ(elements(1920, 12, 1) - elements(960, 12, 1), elements(2880, 12, 1) - elements(1920, 12, 1));
    EXPECT_EQ(elements(960, 12, 1), elements(960, 96, 1));
    EXPECT_EQ(elements(960, 12, 5) - elements(960, 12, 4), elements(960, 12, 2) - elements(960, 12, 1));
    EXPECT_LT(elements(131072, 12, 1), 6 * i64{131072} * 64);
}

// Field case B11: the pairs of 64 x 96 heads and T = 8192 pass 2^31 and 2^38; elements are exact there, and the mask of
// a far sample is the one that the reference draws.
TEST(AttentionDropout, ElementsBeyond32Bits) {
    ops::AttentionShape shape;
    shape.heads = 96;
    shape.queries = shape.keys = 8192;
    const u64 last = cpu::attention_dropout_element(shape, 63, 95, 8191, 8191);
    EXPECT_EQ(last, u64{64} * 96 * 8192 * 8192 - 1);
    EXPECT_GT(last, u64{1} << 38);

    const AttentionCase c{
        .name = "", .batch = 2, .queries = 33, .keys = 33, .heads = 2, .kv_heads = 2, .head_dim = 4, .p = 0.5};
    AttentionTensors<double> x(c);
    x.sample = {i64{1} << 40, (i64{1} << 40) + 1};
    x.shape.sample = x.sample.data();
    x.shape.queries_total = 1001;
    x.shape.keys_total = 1003;
    const AttentionOutputs<double> y = run_attention(x, cpu::best_isa());
    const reference::Attention attention(x.shape, to_double(x.q), to_double(x.k), to_double(x.v));
    EXPECT_LE(rows_error(y.out, attention.run(y.out.size(), {}).out, x.out), 12);
    // Element 2^32 apart is another number: a mask cut to 32 bits would repeat.
    AttentionTensors<double> near(c);
    near.shape.sample = near.sample.data();
    EXPECT_NE(y.out[0], run_attention(near, cpu::best_isa()).out[0]);
}

TEST(AttentionRefusal, CudaAndBrokenShapes) {
    const AttentionCase c{.name = "", .batch = 1, .queries = 2, .keys = 2, .heads = 3, .kv_heads = 3, .head_dim = 2};
    AttentionTensors<float> x(c);
    EXPECT_THROW(ops::attention_forward<float>({Backend::cuda, nullptr}, {}), Error);
    EXPECT_THROW(ops::attention_backward<float>({Backend::cuda, nullptr}, {}), Error);
    x.shape.kv_heads = 2;
    EXPECT_THROW(run_attention(x, cpu::best_isa()), Error);
    x.shape.kv_heads = 3;
    x.shape.head_dim = 257;
    EXPECT_THROW(run_attention(x, cpu::best_isa()), Error);
}

}  // namespace
}  // namespace ogrom::test
