// Backward pass of one attention job. in: q, k, v, out, d_out rows, lse; out: d_q, d_k, d_v rows. Included by the
// instruction-set files only. With m the dropout factor (1 without dropout), per block of queries and block of keys:
//   p = 2^(log2(e) (scale q k^T - lse)) ;  dp = do v^T ;  ds = p (m dp - delta),  delta_i = do_i . o_i
//   dv += (m p)^T do ;  dk += ds^T q ;  dq += ds k           (scale is applied when dq and dk are written)
// d_k and d_v add heads of the group, then blocks of queries, in ascending order; d_q adds blocks of keys in ascending
// order: the bits do not depend on how queries or keys are dealt to threads.
#pragma once
#include "kernels/cpu/attention_dropout.h"
#include "kernels/cpu/attention_tiles.h"

namespace ogrom::cpu {
namespace {

template <class S>
struct BackwardSpace {
    using T = typename S::Scalar;
    i64 width;
    T *keys, *values;                 // k^T and v^T in panels, from key_begin on
    T *key_rows, *d_keys, *d_values;  // rows of `width`, from key_begin on
    T *query, *d_out;                 // interleaved rows of the block of queries
    T *query_rows, *d_out_rows, *d_query;
    T *lse, *delta;
    T *p, *ds;  // tiles [attention_block][tile_stride]: m p, and ds
    T* factors;

    explicit BackwardSpace(const AttentionJob<T>& job) : width(round_up(job.head_dim, S::lanes)) {
        const i64 padded = round_up(job.key_end - job.key_begin, attention_block);
        const i64 panels = padded * job.head_dim;
        const i64 rows = padded * width;
        const i64 block = attention_block * width;
        const i64 tile = attention_block * S::tile_stride;
        keys = job.workspace;
        values = keys + panels;
        key_rows = values + panels;
        d_keys = key_rows + rows;
        d_values = d_keys + rows;
        query = d_values + rows;
        d_out = query + attention_block * job.head_dim;
        query_rows = d_out + attention_block * job.head_dim;
        d_out_rows = query_rows + block;
        d_query = d_out_rows + block;
        lse = d_query + block;
        delta = lse + attention_block;
        p = delta + attention_block;
        ds = p + tile;
        factors = ds + tile;
    }
};

// p and ds of one row from s and dp, over `columns` padded columns.
template <class S>
void gradient_row(typename S::Scalar* p, typename S::Scalar* ds, i64 columns, typename S::Scalar lse,
                  typename S::Scalar delta) {
    for (i64 j = 0; j < columns; j += S::lanes) {
        const typename S::Vector probability = exp2<S>(S::load(p + j) - lse);
        S::store(p + j, probability);
        S::store(ds + j, probability * (S::load(ds + j) - delta));
    }
}

template <class S>
void gradient_row_dropout(typename S::Scalar* p, typename S::Scalar* ds, const typename S::Scalar* factors, i64 columns,
                          typename S::Scalar lse, typename S::Scalar delta) {
    for (i64 j = 0; j < columns; j += S::lanes) {
        const typename S::Vector probability = exp2<S>(S::load(p + j) - lse);
        const typename S::Vector factor = S::load_anywhere(factors + j);
        S::store(p + j, probability * factor);
        S::store(ds + j, probability * (factor * S::load(ds + j) - delta));
    }
}

// p, ds of one row group against one block of keys, and its share of d_q.
template <class S>
void backward_group(const AttentionJob<typename S::Scalar>& job, const BackwardSpace<S>& space, i64 head, i64 query,
                    i64 row, i64 count, i64 key, i64 keys) {
    using T = typename S::Scalar;
    const i64 reach = allowed(job, query + row + count - 1, key, keys);
    if (reach == 0) {
        return;
    }
    const i64 columns = round_up(reach, S::panel);
    const i64 local = key - job.key_begin;
    T* p = space.p + row * S::tile_stride;
    T* ds = space.ds + row * S::tile_stride;
    for (i64 j = 0; j < columns; j += S::panel) {
        const i64 panel = (local + j) * job.head_dim;
        product<S, 2, 1, Store::set>(job.head_dim, space.query + row * job.head_dim, S::rows, space.keys + panel,
                                     S::panel, p + j, S::tile_stride);
        product<S, 2, 1, Store::set>(job.head_dim, space.d_out + row * job.head_dim, S::rows, space.values + panel,
                                     S::panel, ds + j, S::tile_stride);
    }
    for (i64 r = 0; r < count; ++r, p += S::tile_stride, ds += S::tile_stride) {
        const i64 i = row + r;
        mask_row(job, p, query + i, key, allowed(job, query + i, key, keys), columns);
        if (job.dropout.threshold > 0) {
            const T* factors = dropout_factors<S>(job, head, query + i, key, columns, space.factors);
            gradient_row_dropout<S>(p, ds, factors, columns, space.lse[i], space.delta[i]);
        } else {
            gradient_row<S>(p, ds, columns, space.lse[i], space.delta[i]);
        }
        // A group of keys that begins inside `columns` may end behind it.
        fill(p + columns, 16, T(0));
        fill(ds + columns, 16, T(0));
    }
    if (job.part != AttentionPart::keys) {
        product_rows<S, S::tile_stride>(reach, space.ds + row * S::tile_stride, 1, space.key_rows + local * space.width,
                                        space.d_query + row * space.width, space.width);
    }
}

// d_k and d_v of one block of keys gain one block of queries.
template <class S>
void backward_keys(const AttentionJob<typename S::Scalar>& job, const BackwardSpace<S>& space, i64 query, i64 count,
                   i64 key, i64 keys) {
    for (i64 j = 0; j < keys; j += S::rows) {
        // First query that sees key + j; those before were not computed.
        const i64 start = larger(0, key + j - job.diagonal + 1 - query);
        if (start >= count) {
            break;
        }
        const i64 to = (key - job.key_begin + j) * space.width;
        const i64 from = start * S::tile_stride + j;
        product_rows<S, 1>(count - start, space.p + from, S::tile_stride, space.d_out_rows + start * space.width,
                           space.d_values + to, space.width);
        product_rows<S, 1>(count - start, space.ds + from, S::tile_stride, space.query_rows + start * space.width,
                           space.d_keys + to, space.width);
    }
}

template <class S>
void load_queries(const AttentionJob<typename S::Scalar>& job, const BackwardSpace<S>& space, i64 head, i64 query,
                  i64 count) {
    using T = typename S::Scalar;
    constexpr T log2_e = T(1.4426950408889634);
    const i64 columns = job.head_dim;
    const T* q = job.q + query * job.query_stride + head * columns;
    const T* d_out = job.d_out + query * job.out_stride + head * columns;
    const T* out = job.out + query * job.out_stride + head * columns;
    const T* lse = job.lse + head * job.queries + query;
    pack_interleaved<S::rows>(space.query, q, count, columns, job.query_stride, job.scale * log2_e);
    pack_interleaved<S::rows>(space.d_out, d_out, count, columns, job.out_stride, T(1));
    pack_rows(space.query_rows, q, count, columns, job.query_stride, space.width);
    pack_rows(space.d_out_rows, d_out, count, columns, job.out_stride, space.width);
    fill(space.d_query, attention_block * space.width, T(0));
    for (i64 i = 0; i < count; ++i) {
        space.delta[i] = dot(d_out + i * job.out_stride, out + i * job.out_stride, columns);
        // A row that saw no key: p = 2^(s - Inf) = 0.
        space.lse[i] = lse[i] == -__builtin_huge_valf() ? __builtin_huge_valf() : lse[i] * log2_e;
    }
}

template <class S>
void backward_block(const AttentionJob<typename S::Scalar>& job, const BackwardSpace<S>& space, i64 head, i64 query,
                    i64 count) {
    load_queries(job, space, head, query, count);
    for (i64 key = job.key_begin; key < job.key_end; key += attention_block) {
        const i64 keys = smaller(attention_block, job.key_end - key);
        if (allowed(job, query + count - 1, key, keys) == 0) {
            break;
        }
        if (!segments_may_meet(job, query, count, key, keys)) {
            continue;
        }
        for (i64 row = 0; row < count; row += S::rows) {
            backward_group(job, space, head, query, row, smaller(S::rows, count - row), key, keys);
        }
        if (job.part != AttentionPart::queries) {
            backward_keys(job, space, query, count, key, keys);
        }
    }
    if (job.part != AttentionPart::keys) {
        unpack_rows(job.d_q + query * job.query_stride + head * job.head_dim, space.d_query, count, job.head_dim,
                    job.query_stride, space.width, job.scale);
    }
}

template <class S>
void backward_job(const AttentionJob<typename S::Scalar>& job) {
    using T = typename S::Scalar;
    const BackwardSpace<S> space(job);
    const i64 keys = job.key_end - job.key_begin;
    const T* k = job.k + job.key_begin * job.key_stride;
    const T* v = job.v + job.key_begin * job.value_stride;
    pack_interleaved<S::panel>(space.keys, k, keys, job.head_dim, job.key_stride, T(1));
    pack_interleaved<S::panel>(space.values, v, keys, job.head_dim, job.value_stride, T(1));
    pack_rows(space.key_rows, k, keys, job.head_dim, job.key_stride, space.width);
    const i64 padded = round_up(keys, attention_block);
    fill(space.d_keys, padded * space.width, T(0));
    fill(space.d_values, padded * space.width, T(0));
    for (i64 head = 0; head < job.group; ++head) {
        for (i64 query = job.query_begin; query < job.query_end; query += attention_block) {
            backward_block(job, space, head, query, smaller(attention_block, job.query_end - query));
        }
    }
    if (job.part != AttentionPart::queries) {
        unpack_rows(job.d_k + job.key_begin * job.key_stride, space.d_keys, keys, job.head_dim, job.key_stride,
                    space.width, job.scale);
        unpack_rows(job.d_v + job.key_begin * job.value_stride, space.d_values, keys, job.head_dim, job.value_stride,
                    space.width, T(1));
    }
}

}  // namespace
}  // namespace ogrom::cpu
