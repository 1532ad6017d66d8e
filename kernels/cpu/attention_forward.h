// Forward pass of one attention job. in: q, k, v rows; out: o rows, lse. Included by the instruction-set files only.
//   per block of queries, per block of keys:  s = log2(e) scale q k^T ;  m' = max(m, max s) ;  p = 2^(s - m')
//   l = l 2^(m - m') + sum p ;  o = o 2^(m - m') + dropout(p) v ;  at the end  o / l,  lse = ln 2 (m + log2 l)
#pragma once
#include "kernels/cpu/attention_dropout.h"
#include "kernels/cpu/attention_tiles.h"

namespace ogrom::cpu {
namespace {

// Where the parts of the workspace begin (see attention_workspace for their sum).
template <class S>
struct ForwardSpace {
    using T = typename S::Scalar;
    i64 width;            // head_dim padded to whole vectors
    T *keys, *values;     // k^T in panels, v in rows of `width`, from key 0 on
    T *query, *out;       // the block: interleaved q, rows of o
    T *highest, *sum;     // m and l of each row of the block
    T *scores, *factors;  // one row group of s and p; dropout factors of a row

    explicit ForwardSpace(const AttentionJob<T>& job) : width(round_up(job.head_dim, S::lanes)) {
        const i64 keys_padded = round_up(job.key_end, S::panel);
        keys = job.workspace;
        values = job.workspace + round_up(keys_padded * job.head_dim, 16);
        query = values + keys_padded * width;
        out = query + attention_block * round_up(job.head_dim, 16);
        highest = out + attention_block * width;
        sum = highest + attention_block;
        scores = sum + attention_block;
        factors = scores + S::rows * S::forward_stride;
    }
};

// One row of scores becomes probabilities. Updates m and l; returns 2^(m - m'), the factor that is due to o.
template <class S>
typename S::Scalar soften_row(typename S::Scalar* scores, i64 width, typename S::Scalar& highest,
                              typename S::Scalar& sum) {
    using T = typename S::Scalar;
    using Vector = typename S::Vector;
    Vector best = S::load(scores);
    for (i64 j = S::lanes; j < width; j += S::lanes) {
        const Vector s = S::load(scores + j);
        best = s > best ? s : best;
    }
    T top = highest;
    for (int i = 0; i < S::lanes; ++i) {
        top = best[i] > top ? best[i] : top;
    }
    // All masked so far: any finite reference gives p = 0.
    const T reference = top == -__builtin_huge_valf() ? T(0) : top;
    Vector total = {};
    for (i64 j = 0; j < width; j += S::lanes) {
        const Vector p = exp2<S>(S::load(scores + j) - reference);
        S::store(scores + j, p);
        total += p;
    }
    const T factor = exp2<S>(S::all(highest - reference))[0];
    sum = sum * factor + sum_of<S>(total);
    highest = top;
    return factor;
}

template <class S>
void forward_group(const AttentionJob<typename S::Scalar>& job, const ForwardSpace<S>& space, i64 head, i64 query,
                   i64 row, i64 count, i64 key, i64 keys) {
    using T = typename S::Scalar;
    const i64 reach = allowed(job, query + row + count - 1, key, keys);
    if (reach == 0) {
        return;
    }
    const i64 columns = round_up(reach, S::panel);
    const T* q = space.query + row * job.head_dim;
    for (i64 j = 0; j < columns; j += S::panel) {
        product<S, 2, 1, Store::set>(job.head_dim, q, S::rows, space.keys + (key + j) * job.head_dim, S::panel,
                                     space.scores + j, S::forward_stride);
    }
    for (i64 r = 0; r < count; ++r) {
        T* scores = space.scores + r * S::forward_stride;
        const i64 i = row + r;
        mask_row(job, scores, query + i, key, allowed(job, query + i, key, keys), columns);
        const T factor = soften_row<S>(scores, columns, space.highest[i], space.sum[i]);
        if (factor != T(1)) {
            for (i64 d = 0; d < space.width; ++d) {
                space.out[i * space.width + d] *= factor;
            }
        }
        if (job.dropout.threshold > 0) {
            const T* factors = dropout_factors<S>(job, head, query + i, key, reach, space.factors);
            for (i64 j = 0; j < reach; ++j) {
                scores[j] *= factors[j];
            }
        }
    }
    product_rows<S, S::forward_stride>(reach, space.scores, 1, space.values + key * space.width,
                                       space.out + row * space.width, space.width);
}

template <class S>
void finish_rows(const AttentionJob<typename S::Scalar>& job, const ForwardSpace<S>& space, i64 head, i64 query,
                 i64 count) {
    using T = typename S::Scalar;
    constexpr T ln2 = T(0.6931471805599453);
    for (i64 i = 0; i < count; ++i) {
        const T sum = space.sum[i];
        const T factor = sum == T(0) ? T(0) : T(1) / sum;
        T* out = job.o + (query + i) * job.out_stride + head * job.head_dim;
        for (i64 d = 0; d < job.head_dim; ++d) {
            out[d] = space.out[i * space.width + d] * factor;
        }
        if (job.lse_out != nullptr) {
            const T log2_sum = static_cast<T>(__builtin_log2(static_cast<double>(sum)));
            job.lse_out[head * job.queries + query + i] =
                sum == T(0) ? -__builtin_huge_valf() : ln2 * (space.highest[i] + log2_sum);
        }
    }
}

template <class S>
void forward_block(const AttentionJob<typename S::Scalar>& job, const ForwardSpace<S>& space, i64 head, i64 query,
                   i64 count) {
    using T = typename S::Scalar;
    constexpr T log2_e = T(1.4426950408889634);
    pack_interleaved<S::rows>(space.query, job.q + query * job.query_stride + head * job.head_dim, count, job.head_dim,
                              job.query_stride, job.scale * log2_e);
    fill(space.out, attention_block * space.width, T(0));
    fill(space.highest, attention_block, static_cast<T>(-__builtin_huge_valf()));
    fill(space.sum, attention_block, T(0));
    fill(space.scores, S::rows * S::forward_stride, T(0));
    for (i64 key = 0; key < job.key_end; key += attention_forward_keys) {
        const i64 keys = smaller(attention_forward_keys, job.key_end - key);
        if (allowed(job, query + count - 1, key, keys) == 0) {
            break;
        }
        if (!segments_may_meet(job, query, count, key, keys)) {
            continue;
        }
        for (i64 row = 0; row < count; row += S::rows) {
            forward_group(job, space, head, query, row, smaller(S::rows, count - row), key, keys);
        }
    }
    finish_rows(job, space, head, query, count);
}

template <class S>
void forward_job(const AttentionJob<typename S::Scalar>& job) {
    using T = typename S::Scalar;
    const ForwardSpace<S> space(job);
    pack_interleaved<S::panel>(space.keys, job.k, job.key_end, job.head_dim, job.key_stride, T(1));
    pack_rows(space.values, job.v, job.key_end, job.head_dim, job.value_stride, space.width);
    for (i64 head = 0; head < job.group; ++head) {
        for (i64 query = job.query_begin; query < job.query_end; query += attention_block) {
            forward_block(job, space, head, query, smaller(attention_block, job.query_end - query));
        }
    }
}

}  // namespace
}  // namespace ogrom::cpu
