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
    {.name = "several_forward_blocks", .batch = 1, .queries = 531, .keys = 531, .heads = 1, .kv_heads = 1, .head_dim = 7},
    {.name = "groups", .batch = 2, .queries = 99, .keys = 99, .heads = 6, .kv_heads = 2, .head_dim = 16},
    {.name = "cache", .batch = 2, .queries = 1, .keys = 111, .heads = 4, .kv_heads = 2, .head_dim = 33,
     .query_offset = 110},
    {.name = "later_chunk", .batch = 1, .queries = 45, .keys = 210, .heads = 2, .kv_heads = 2, .head_dim = 24,
     .query_offset = 160},
    {.name = "keys_begin_later", .batch = 1, .queries = 130, .keys = 60, .heads = 2, .kv_heads = 1, .head_dim = 9,
     .query_offset = 3, .key_offset = 50},
    {.name = "all_allowed", .batch = 1, .queries = 50, .keys = 131, .heads = 1, .kv_heads = 1, .head_dim = 12,
     .query_offset = 1000},
    {.name = "segments", .batch = 2, .queries = 215, .keys = 215, .heads = 2, .kv_heads = 2, .head_dim = 10,
     .segment_length = 23},
    {.name = "long_segments", .batch = 1, .queries = 401, .keys = 401, .heads = 1, .kv_heads = 1, .head_dim = 8,
     .segment_length = 131},
    {.name = "segments_apart", .batch = 1, .queries = 40, .keys = 60, .heads = 1, .kv_heads = 1, .head_dim = 6,
     .query_offset = 70, .segment_length = 33},
    {.name = "dropout", .batch = 2, .queries = 107, .keys = 107, .heads = 4, .kv_heads = 2, .head_dim = 20, .p = 0.3},
    {.name = "dropout_segments", .batch = 1, .queries = 61, .keys = 99, .heads = 1, .kv_heads = 1, .head_dim = 11,
     .query_offset = 38, .p = 0.1, .segment_length = 40},
    {.name = "sharp", .batch = 1, .queries = 120, .keys = 120, .heads = 1, .kv_heads = 1, .head_dim = 32,
     .score_scale = 60},
};

template <class T>
class AttentionKernel : public ::testing::Test {};
TYPED_TEST_SUITE(AttentionKernel, Precisions);

TYPED_TEST(AttentionKernel, MatchesReference) {
    using T = TypeParam;
    for (const AttentionCase& c : cases) {
        for (const cpu::Isa isa : instruction_sets()) {
            const AttentionTensors<T> x(c);
            const AttentionOutputs<T> got = run_attention(x, isa);
            const reference::Attention attention(x.shape, to_double(x.q), to_double(x.k), to_double(x.v));
            const reference::AttentionResult want = attention.run(got.out.size(), to_double(x.d_out));
            const std::string where = std::string(c.name) + (isa == cpu::Isa::avx2 ? " avx2" : " avx512");
            const Rows lse{1, 1, static_cast<i64>(got.lse.size()), static_cast<i64>(got.lse.size()),
                           static_cast<i64>(got.lse.size())};
            printf("%-30s o %.1f lse %.1f dq %.1f dk %.1f dv %.1f\n", where.c_str(), rows_error(got.out, want.out, x.out), rows_error(got.lse, want.lse, lse),
             rows_error(got.d_q, want.d_q, x.query), rows_error(got.d_k, want.d_k, x.key), rows_error(got.d_v, want.d_v, x.key));
        }
    }
}

}  // namespace
}  // namespace ogrom::test
