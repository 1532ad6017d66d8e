// Attention against the double reference, at odd sizes, on each instruction set that this machine has.
#include "kernels/ops/attention.h"

#include "tests/kernels/attention_support.h"

namespace ogrom::test {
namespace {

const AttentionCase cases[] = {
    {.name = "one", .batch = 1, .queries = 1, .keys = 1, .heads = 1, .kv_heads = 1, .head_dim = 1},
    {.name = "head_dim_5", .batch = 2, .queries = 37, .keys = 37, .heads = 3, .kv_heads = 3, .head_dim = 5},
    {.name = "head_dim_64", .batch = 1, .queries = 203, .keys = 203, .heads = 2, .kv_heads = 2, .head_dim = 64},
    {.name = "head_dim_80", .batch = 1, .queries = 97, .keys = 97, .heads = 2, .kv_heads = 1, .head_dim = 80},
    {.name = "head_dim_256", .batch = 1, .queries = 101, .keys = 101, .heads = 1, .kv_heads = 1, .head_dim = 256},
    {.name = "several_forward_blocks",
     .batch = 1,
     .queries = 531,
     .keys = 531,
     .heads = 1,
     .kv_heads = 1,
     .head_dim = 7},
    {.name = "groups", .batch = 2, .queries = 99, .keys = 99, .heads = 6, .kv_heads = 2, .head_dim = 16},
    {.name = "cache",
     .batch = 2,
     .queries = 1,
     .keys = 111,
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 33,
     .query_offset = 110},
    {.name = "later_chunk",
     .batch = 1,
     .queries = 45,
     .keys = 210,
     .heads = 2,
     .kv_heads = 2,
     .head_dim = 24,
     .query_offset = 160},
    {.name = "keys_begin_later",
     .batch = 1,
     .queries = 130,
     .keys = 60,
     .heads = 2,
     .kv_heads = 1,
     .head_dim = 9,
     .query_offset = 3,
     .key_offset = 50},
    {.name = "all_allowed",
     .batch = 1,
     .queries = 50,
     .keys = 131,
     .heads = 1,
     .kv_heads = 1,
     .head_dim = 12,
     .query_offset = 1000},
    {.name = "segments",
     .batch = 2,
     .queries = 215,
     .keys = 215,
     .heads = 2,
     .kv_heads = 2,
     .head_dim = 10,
     .segment_length = 23},
    {.name = "long_segments",
     .batch = 1,
     .queries = 401,
     .keys = 401,
     .heads = 1,
     .kv_heads = 1,
     .head_dim = 8,
     .segment_length = 131},
    {.name = "segments_apart",
     .batch = 1,
     .queries = 40,
     .keys = 60,
     .heads = 1,
     .kv_heads = 1,
     .head_dim = 6,
     .query_offset = 70,
     .segment_length = 33},
    {.name = "dropout", .batch = 2, .queries = 107, .keys = 107, .heads = 4, .kv_heads = 2, .head_dim = 20, .p = 0.3},
    {.name = "dropout_segments",
     .batch = 1,
     .queries = 61,
     .keys = 99,
     .heads = 1,
     .kv_heads = 1,
     .head_dim = 11,
     .query_offset = 38,
     .p = 0.1,
     .segment_length = 40},
    {.name = "sharp",
     .batch = 1,
     .queries = 120,
     .keys = 120,
     .heads = 1,
     .kv_heads = 1,
     .head_dim = 32,
     .score_scale = 60,
     .tolerance = 60},
};

template <class T>
class AttentionKernel : public ::testing::Test {};
TYPED_TEST_SUITE(AttentionKernel, Precisions);

// In units of roundoff: a score of size <= 2 carries some 4 roundoffs, p the same relative error, and a sum over 1 / p
// pairs of it adds a few more; d_v and d_k add up to 100 queries of the first keys, with p near 1.
constexpr double bound_out = 12, bound_lse = 10, bound_d_q = 12, bound_d_k = 25, bound_d_v = 60;

TYPED_TEST(AttentionKernel, MatchesReference) {
    using T = TypeParam;
    for (const AttentionCase& c : cases) {
        const AttentionTensors<T> x(c);
        const reference::Attention attention(x.shape, to_double(x.q), to_double(x.k), to_double(x.v));
        const auto want = attention.run(x.d_out.size(), to_double(x.d_out));
        const i64 rows = c.batch * c.heads * c.queries;
        for (const cpu::Isa isa : instruction_sets()) {
            SCOPED_TRACE(std::string(c.name) + " on " + name_of(isa));
            const AttentionOutputs<T> got = run_attention(x, isa);
            EXPECT_LE(rows_error(got.out, want.out, x.out), bound_out * c.tolerance);
            EXPECT_LE(rows_error(got.lse, want.lse, {1, rows, 1, 1, rows}), bound_lse * c.tolerance);
            EXPECT_LE(rows_error(got.d_q, want.d_q, x.query), bound_d_q * c.tolerance);
            EXPECT_LE(rows_error(got.d_k, want.d_k, x.key), bound_d_k * c.tolerance);
            EXPECT_LE(rows_error(got.d_v, want.d_v, x.key), bound_d_v * c.tolerance);
        }
    }
}

// q | k | v in the rows of one product, used in place: the same bits as from separate tensors.
TYPED_TEST(AttentionKernel, PackedRows) {
    using T = TypeParam;
    const AttentionCase c{
        .name = "packed", .batch = 2, .queries = 53, .keys = 53, .heads = 4, .kv_heads = 2, .head_dim = 12};
    const AttentionTensors<T> x(c);
    const AttentionOutputs<T> separate = run_attention(x, cpu::best_isa());
    const i64 width = (4 + 2 + 2) * 12;
    std::vector<T> packed = poisoned<T>(2 * 53 * width);
    std::vector<T> gradient = packed;
    const auto copy_in = [&](const std::vector<T>& from, const Rows& rows, i64 column) {
        for (i64 row = 0; row < 2 * 53; ++row) {
            const auto* first = from.data() + row / 53 * rows.batch_stride + row % 53 * rows.stride;
            std::copy(first, first + rows.columns, packed.data() + row * width + column);
        }
    };
    copy_in(x.q, x.query, 0);
    copy_in(x.k, x.key, 48);
    copy_in(x.v, x.key, 72);
    ops::AttentionShape shape = x.shape;
    shape.query_stride = shape.key_stride = shape.value_stride = width;
    shape.query_batch_stride = shape.key_batch_stride = shape.value_batch_stride = 53 * width;
    std::vector<T> out = poisoned<T>(x.out.elements());
    std::vector<T> lse = poisoned<T>(2 * 4 * 53);
    std::vector<T> workspace = poisoned<T>(ops::attention_workspace(shape, omp_get_max_threads()));
    const T* q = packed.data();
    ops::attention_forward<T>({}, {out.data(), lse.data(), q, q + 48, q + 72, shape, workspace.data()});
    ops::attention_backward<T>({}, {gradient.data(), gradient.data() + 48, gradient.data() + 72, x.d_out.data(),
                                    out.data(), lse.data(), q, q + 48, q + 72, shape, workspace.data()});
    EXPECT_EQ(lse, separate.lse);
    EXPECT_EQ(std::memcmp(out.data(), separate.out.data(), out.size() * sizeof(T)), 0);
    const auto expect_part = [&](const std::vector<T>& want, const Rows& rows, i64 column) {
        for (i64 row = 0; row < 2 * 53; ++row) {
            const auto* first = want.data() + row / 53 * rows.batch_stride + row % 53 * rows.stride;
            ASSERT_TRUE(std::equal(first, first + rows.columns, gradient.data() + row * width + column))
                << "row " << row;
        }
    };
    expect_part(separate.d_q, x.query, 0);
    expect_part(separate.d_k, x.key, 48);
    expect_part(separate.d_v, x.key, 72);
}

}  // namespace
}  // namespace ogrom::test
