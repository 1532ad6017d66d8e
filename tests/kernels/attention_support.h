// Cases of the attention tests: inputs with odd strides whose gaps hold NaN, a run on a chosen instruction set with
// poisoned outputs and a guarded workspace, and comparison with the double reference.
#pragma once
#include <cstring>

#include "kernels/cpu/attention.h"

#include "tests/kernels/support.h"
#include "tests/reference/attention.h"

namespace ogrom::test {

struct AttentionCase {
    const char* name;
    i64 batch, queries, keys, heads, kv_heads, head_dim;
    i64 query_offset = 0, key_offset = 0;
    double p = 0;
    i64 segment_length = 0;  // documents of this length, packed; 0 = no segment ids
    double score_scale = 1;  // multiplies 1 / sqrt(head_dim)
    double tolerance = 1;    // multiplies the bounds, for scores that are large
};

// Rows of one tensor: `columns` used of every `stride` elements, samples `batch_stride` apart.
struct Rows {
    i64 batch, rows, columns, stride, batch_stride;
    [[nodiscard]] i64 elements() const { return batch * batch_stride; }
    [[nodiscard]] bool used(i64 index) const {
        const i64 inside = index % batch_stride;
        return inside / stride < rows && inside % stride < columns;
    }
};

inline Rows odd_rows(i64 batch, i64 rows, i64 columns) {
    return {batch, rows, columns, columns + 3, rows * (columns + 3) + 5};
}

template <class T>
std::vector<T> random_rows(const Rows& rows, u32 stream) {
    std::vector<T> values = random_values<T>(rows.elements(), stream);
    for (i64 i = 0; i < rows.elements(); ++i) {
        if (!rows.used(i)) {
            values[static_cast<std::size_t>(i)] = std::numeric_limits<T>::quiet_NaN();
        }
    }
    return values;
}

template <class T>
struct AttentionTensors {
    Rows query, key, out;
    std::vector<T> q, k, v, d_out;
    std::vector<std::int32_t> query_segments, key_segments;
    std::vector<i64> sample;
    ops::AttentionShape shape;

    explicit AttentionTensors(const AttentionCase& c)
        : query(odd_rows(c.batch, c.queries, c.heads * c.head_dim)),
          key(odd_rows(c.batch, c.keys, c.kv_heads * c.head_dim)),
          out(odd_rows(c.batch, c.queries, c.heads * c.head_dim)),
          q(random_rows<T>(query, 1)),
          k(random_rows<T>(key, 2)),
          v(random_rows<T>(key, 3)),
          d_out(random_rows<T>(out, 4)) {
        shape.batch = c.batch;
        shape.queries = c.queries;
        shape.keys = c.keys;
        shape.heads = c.heads;
        shape.kv_heads = c.kv_heads;
        shape.head_dim = c.head_dim;
        shape.query_offset = c.query_offset;
        shape.key_offset = c.key_offset;
        shape.query_stride = query.stride;
        shape.query_batch_stride = query.batch_stride;
        shape.key_stride = shape.value_stride = key.stride;
        shape.key_batch_stride = shape.value_batch_stride = key.batch_stride;
        shape.out_stride = out.stride;
        shape.out_batch_stride = out.batch_stride;
        shape.scale = c.score_scale / std::sqrt(static_cast<double>(c.head_dim));
        for (i64 b = 0; b < c.batch; ++b) {
            sample.push_back(7 * b + 3);
        }
        shape.sample = sample.data();
        shape.heads_total = c.heads + 2;
        shape.head0 = 1;
        shape.dropout = {c.p, 99, 5, 17};
        if (c.segment_length > 0) {
            set_segments(c);
        }
    }
    AttentionTensors(const AttentionTensors&) = delete;
    AttentionTensors& operator=(const AttentionTensors&) = delete;

private:
    void set_segments(const AttentionCase& c) {
        for (i64 b = 0; b < c.batch; ++b) {
            for (i64 i = 0; i < c.queries; ++i) {
                query_segments.push_back(static_cast<std::int32_t>((c.query_offset + i + b) / c.segment_length));
            }
            for (i64 j = 0; j < c.keys; ++j) {
                key_segments.push_back(static_cast<std::int32_t>((c.key_offset + j + b) / c.segment_length));
            }
        }
        shape.query_segments = query_segments.data();
        shape.key_segments = key_segments.data();
    }
};

template <class T>
struct AttentionOutputs {
    std::vector<T> out, lse, d_q, d_k, d_v;
};

// Forward and backward with poisoned outputs; writing behind the workspace is a failure.
template <class T>
AttentionOutputs<T> run_attention(const AttentionTensors<T>& x, cpu::Isa isa) {
    AttentionOutputs<T> y{poisoned<T>(x.out.elements()), poisoned<T>(x.shape.batch * x.shape.heads * x.shape.queries),
                          poisoned<T>(x.query.elements()), poisoned<T>(x.key.elements()),
                          poisoned<T>(x.key.elements())};
    const i64 elements = ops::attention_workspace(x.shape, omp_get_max_threads());
    std::vector<T> workspace = poisoned<T>(elements + 64);
    std::fill(workspace.end() - 64, workspace.end(), T(4711));
    cpu::attention_forward_on(isa, ops::AttentionForward<T>{.out = y.out.data(),
                                                            .lse = y.lse.data(),
                                                            .q = x.q.data(),
                                                            .k = x.k.data(),
                                                            .v = x.v.data(),
                                                            .shape = x.shape,
                                                            .workspace = workspace.data()});
    cpu::attention_backward_on(isa, ops::AttentionBackward<T>{.d_q = y.d_q.data(),
                                                              .d_k = y.d_k.data(),
                                                              .d_v = y.d_v.data(),
                                                              .d_out = x.d_out.data(),
                                                              .out = y.out.data(),
                                                              .lse = y.lse.data(),
                                                              .q = x.q.data(),
                                                              .k = x.k.data(),
                                                              .v = x.v.data(),
                                                              .shape = x.shape,
                                                              .workspace = workspace.data()});
    EXPECT_EQ(std::count(workspace.end() - 64, workspace.end(), T(4711)), 64) << "written behind the workspace";
    return y;
}

// Largest error of the used elements in units of roundoff * max(1, |want|); gaps must still hold the poison.
template <class T>
double rows_error(const std::vector<T>& got, const std::vector<double>& want, const Rows& rows) {
    double worst = 0;
    for (i64 i = 0; i < rows.elements(); ++i) {
        const auto g = static_cast<double>(got[static_cast<std::size_t>(i)]);
        const double w = want[static_cast<std::size_t>(i)];
        if (!rows.used(i)) {
            EXPECT_TRUE(std::isnan(g)) << "element " << i << " lies between rows and was written";
            continue;
        }
        if (g == w) {
            continue;  // -Inf too
        }
        const double error = std::abs(g - w) / (roundoff<T>() * std::max(1.0, std::abs(w)));
        worst = error <= worst ? worst : error;  // a NaN stays
    }
    return worst;
}

template <class T>
void expect_same_bits(const AttentionOutputs<T>& a, const AttentionOutputs<T>& b) {
    const auto same = [](const std::vector<T>& x, const std::vector<T>& y) {
        return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
    };
    EXPECT_TRUE(same(a.out, b.out)) << "out differs";
    EXPECT_TRUE(same(a.lse, b.lse)) << "lse differs";
    EXPECT_TRUE(same(a.d_q, b.d_q)) << "d_q differs";
    EXPECT_TRUE(same(a.d_k, b.d_k)) << "d_k differs";
    EXPECT_TRUE(same(a.d_v, b.d_v)) << "d_v differs";
}

inline const char* name_of(cpu::Isa isa) {
    return isa == cpu::Isa::avx2 ? "avx2" : "avx512";
}

inline std::vector<cpu::Isa> instruction_sets() {
    std::vector<cpu::Isa> sets = {cpu::Isa::avx2};
    if (cpu::best_isa() == cpu::Isa::avx512) {
        sets.push_back(cpu::Isa::avx512);
    }
    return sets;
}

}  // namespace ogrom::test
