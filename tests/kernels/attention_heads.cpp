// Heads cut over ranks (tensor-parallel): each rank's part is bit for bit a part of the uncut call, dropout included.
#include "kernels/ops/attention.h"

#include "tests/kernels/attention_support.h"

namespace ogrom::test {
namespace {

template <class T>
class AttentionHeads : public ::testing::Test {};
TYPED_TEST_SUITE(AttentionHeads, Precisions);

// Rows of the part's columns hold the bits that the whole holds at `column`.
template <class T>
void expect_columns(const std::vector<T>& part, const Rows& rows, const std::vector<T>& whole, const Rows& whole_rows,
                    i64 column, const char* what) {
    for (i64 b = 0; b < rows.batch; ++b) {
        for (i64 r = 0; r < rows.rows; ++r) {
            const T* got = part.data() + b * rows.batch_stride + r * rows.stride;
            const T* want = whole.data() + b * whole_rows.batch_stride + r * whole_rows.stride + column;
            ASSERT_EQ(std::memcmp(got, want, static_cast<std::size_t>(rows.columns) * sizeof(T)), 0)
                << what << ", sample " << b << ", row " << r << ", column " << column;
        }
    }
}

// The columns [column, ...) of the whole in the part's rows.
template <class T>
void take_columns(std::vector<T>& part, const Rows& rows, const std::vector<T>& whole, const Rows& whole_rows,
                  i64 column) {
    for (i64 b = 0; b < rows.batch; ++b) {
        for (i64 r = 0; r < rows.rows; ++r) {
            const T* from = whole.data() + b * whole_rows.batch_stride + r * whole_rows.stride + column;
            std::copy_n(from, rows.columns, part.data() + b * rows.batch_stride + r * rows.stride);
        }
    }
}

template <class T>
void check_cut(const AttentionCase& c, i64 parts, cpu::Isa isa) {
    AttentionTensors<T> whole(c);
    whole.shape.heads_total = c.heads;
    whole.shape.head0 = 0;
    const AttentionOutputs<T> want = run_attention(whole, isa);
    AttentionCase small = c;
    small.heads = c.heads / parts;
    small.kv_heads = c.kv_heads / parts;
    for (i64 part = 0; part < parts; ++part) {
        SCOPED_TRACE(part);
        const i64 query_column = part * small.heads * c.head_dim;
        const i64 key_column = part * small.kv_heads * c.head_dim;
        AttentionTensors<T> x(small);
        take_columns(x.q, x.query, whole.q, whole.query, query_column);
        take_columns(x.k, x.key, whole.k, whole.key, key_column);
        take_columns(x.v, x.key, whole.v, whole.key, key_column);
        take_columns(x.d_out, x.out, whole.d_out, whole.out, query_column);
        x.shape.heads_total = c.heads;
        x.shape.head0 = part * small.heads;
        const AttentionOutputs<T> got = run_attention(x, isa);
        expect_columns(got.out, x.out, want.out, whole.out, query_column, "out");
        expect_columns(got.d_q, x.query, want.d_q, whole.query, query_column, "d_q");
        expect_columns(got.d_k, x.key, want.d_k, whole.key, key_column, "d_k");
        expect_columns(got.d_v, x.key, want.d_v, whole.key, key_column, "d_v");
        // lse [batch, heads, queries] as rows of one sample each.
        const Rows lse{c.batch, 1, small.heads * c.queries, small.heads * c.queries, small.heads * c.queries};
        const Rows whole_lse{c.batch, 1, c.heads * c.queries, c.heads * c.queries, c.heads * c.queries};
        expect_columns(got.lse, lse, want.lse, whole_lse, part * small.heads * c.queries, "lse");
    }
}

TYPED_TEST(AttentionHeads, CutOverRanksAreThoseOfTheWhole) {
    const AttentionCase each = {
        .name = "", .batch = 2, .queries = 107, .keys = 107, .heads = 6, .kv_heads = 6, .head_dim = 9, .p = 0.3};
    AttentionCase grouped = each;
    grouped.heads = 12;
    grouped.segment_length = 41;
    AttentionCase plain = each;
    plain.p = 0;
    for (const cpu::Isa isa : instruction_sets()) {
        for (const AttentionCase& c : {each, grouped, plain}) {
            for (const i64 parts : {2, 3}) {
                SCOPED_TRACE(std::string(name_of(isa)) + (c.p > 0 ? ", dropout" : "") +
                             (c.heads > c.kv_heads ? ", grouped" : ""));
                check_cut<TypeParam>(c, parts, isa);
            }
        }
    }
}

TEST(AttentionStep, CanBeReadWhereTheKernelRuns) {
    const AttentionCase c{
        .name = "", .batch = 1, .queries = 40, .keys = 40, .heads = 2, .kv_heads = 2, .head_dim = 8, .p = 0.4};
    AttentionTensors<float> x(c);
    const AttentionOutputs<float> want = run_attention(x, cpu::best_isa());
    u32 step = x.shape.dropout.step;
    x.shape.dropout.step = 99;
    x.shape.dropout.step_at = &step;
    expect_same_bits(want, run_attention(x, cpu::best_isa()));
    step += 1;
    const AttentionOutputs<float> other = run_attention(x, cpu::best_isa());
    EXPECT_NE(std::memcmp(other.out.data(), want.out.data(), want.out.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace ogrom::test
