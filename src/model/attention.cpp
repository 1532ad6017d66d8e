// Comes in: residual stream x [B T, C] (arena); backward: d [B T, C], gradient of the stream behind this branch.
// Goes out: y = x + branch [B T, C] (arena); backward: d of the stream before it, weight gradients added.
// Next: model/mlp.cpp (backward: model/block.cpp)
#include "kernels/ops/attention.h"

#include <cmath>

#include "kernels/common/fault.h"
#include "kernels/ops/layernorm.h"
#include "kernels/ops/residual.h"

#include "src/model/layers.h"

namespace ogrom {
namespace {

// The packed q | k | v rows are used in place: three columns of one matrix with one row stride.
template <class T>
struct PackedView {
    T* q;
    T* k;
    T* v;
    i64 row;
};
template <class T>
PackedView<T> view_of(const Attention<T>& layer, T* qkv, i64 past) {
    const i64 query_columns = layer.heads * layer.head_dim;
    const i64 key_columns = layer.kv_heads * layer.head_dim;
    const i64 row = query_columns + 2 * key_columns;
    T* const first_key_row = qkv - past * row;
    return {qkv, first_key_row + query_columns, first_key_row + query_columns + key_columns, row};
}

template <class T>
ops::AttentionShape shape_of(const Attention<T>& layer, const Pass& pass) {
    const i64 query_columns = layer.heads * layer.head_dim;
    const i64 row = query_columns + 2 * layer.kv_heads * layer.head_dim;
    const i64 keys = pass.past + pass.T;
    ops::AttentionShape shape{};
    shape.batch = pass.B;
    shape.queries = pass.T;
    shape.keys = keys;
    shape.heads = shape.heads_total = layer.heads;
    shape.kv_heads = layer.kv_heads;
    shape.head_dim = layer.head_dim;
    shape.query_offset = pass.past;
    shape.query_stride = shape.key_stride = shape.value_stride = row;
    shape.query_batch_stride = pass.T * row;
    shape.key_batch_stride = shape.value_batch_stride = keys * row;
    shape.out_stride = query_columns;
    shape.out_batch_stride = pass.T * query_columns;
    shape.query_segments = shape.key_segments = pass.segments;
    shape.scale = 1.0 / std::sqrt(static_cast<double>(layer.head_dim));
    shape.sample = pass.sample;
    shape.dropout = dropout_at(pass, pass.dropout_attention, layer.layer, Site::attention);
    return shape;
}

}  // namespace

template <class T>
void norm_forward(Stream stream, const Norm<T>& norm, T* y, T* mean, T* rstd, const T* x, i64 rows) {
    ops::layernorm_forward<T>(stream, {.y = y,
                                       .mean = mean,
                                       .rstd = rstd,
                                       .x = x,
                                       .gamma = norm.gamma,
                                       .beta = norm.beta,
                                       .rows = rows,
                                       .C = norm.C,
                                       .epsilon = norm.epsilon});
}

template <class T>
void attention_forward(Stream stream, const Attention<T>& layer, T* y, const T* x, const AttentionSaved<T>& saved,
                       T* workspace, const Pass& pass) {
    const i64 rows = pass.rows();
    // n = norm1(x)
    norm_forward(stream, layer.norm, saved.norm, saved.mean, saved.rstd, x, rows);
    // q | k | v = n w_qkv^T + b_qkv
    linear_forward(stream, layer.qkv, saved.qkv, saved.norm, rows);
    ops::add_bias<T>(stream, {.y = saved.qkv,
                              .bias = layer.qkv.bias,
                              .rows = rows,
                              .cols = layer.qkv.out_local,
                              .ldy = layer.qkv.out_local});
    // o_i = sum_j dropout(softmax_j(q_i k_j / sqrt(D))) v_j, j <= i
    const PackedView<T> packed = view_of(layer, saved.qkv, pass.past);
    ops::attention_forward<T>(stream, {.out = saved.attention,
                                       .lse = saved.lse,
                                       .q = packed.q,
                                       .k = packed.k,
                                       .v = packed.v,
                                       .shape = shape_of(layer, pass),
                                       .workspace = workspace});
    // y = x + dropout(o w_out^T + b_out)
    linear_forward(stream, layer.out, y, saved.attention, rows);
    ops::residual_forward<T>(stream,
                             {.y = y,
                              .x = x,
                              .branch = y,
                              .bias = layer.out.bias,
                              .B = pass.B,
                              .T_ = pass.T,
                              .C = layer.out.out_local,
                              .sample = pass.sample,
                              .dropout = dropout_at(pass, pass.dropout_residual, layer.layer, Site::after_attention)});
}

template <class T>
void attention_backward(Stream stream, const Attention<T>& layer, T* d, const T* x, const AttentionSaved<T>& saved,
                        const Workspace<T>& workspace, const Pass& pass, const Ready& ready) {
    const i64 rows = pass.rows();
    // d_branch = dropout'(d); d itself goes on along the stream
    const T* d_branch = d;
    if (pass.dropout_residual > 0) {
        ops::dropout_backward<T>(
            stream, {.d_branch = workspace.branch,
                     .d_y = d,
                     .B = pass.B,
                     .T_ = pass.T,
                     .C = layer.out.out_local,
                     .sample = pass.sample,
                     .dropout = dropout_at(pass, pass.dropout_residual, layer.layer, Site::after_attention)});
        d_branch = workspace.branch;
    }
    // dw_out += d_branch^T o ; db_out += sum d_branch ; d_o = d_branch w_out
    T* const d_attention = workspace.narrow;
    linear_backward(stream, layer.out, d_attention, d_branch, saved.attention, rows);
    ready(layer.out_range);
    // dq | dk | dv from d_o, probabilities recomputed from the saved log-sum-exp
    const PackedView<T> packed = view_of(layer, saved.qkv, 0);
    const PackedView<T> d_packed = view_of(layer, workspace.wide, 0);
    ops::attention_backward<T>(stream, {.d_q = d_packed.q,
                                        .d_k = d_packed.k,
                                        .d_v = d_packed.v,
                                        .d_out = d_attention,
                                        .out = saved.attention,
                                        .lse = saved.lse,
                                        .q = packed.q,
                                        .k = packed.k,
                                        .v = packed.v,
                                        .shape = shape_of(layer, pass),
                                        .workspace = workspace.attention});
    // dw_qkv += d_qkv^T n ; db_qkv += sum d_qkv ; d_n = d_qkv w_qkv
    T* const d_norm = workspace.narrow;
    linear_backward(stream, layer.qkv, d_norm, workspace.wide, saved.norm, rows);
    // d += norm1'(d_n): the branch joins the stream
    ops::Accumulate mode = ops::Accumulate::add;
    if (fault_active("residual_gradient_lost")) {
        mode = ops::Accumulate::overwrite;
    }
    ops::layernorm_backward<T>(stream, {.d_x = d,
                                        .d_gamma = layer.norm.d_gamma,
                                        .d_beta = layer.norm.d_beta,
                                        .d_y = d_norm,
                                        .x = x,
                                        .gamma = layer.norm.gamma,
                                        .mean = saved.mean,
                                        .rstd = saved.rstd,
                                        .rows = rows,
                                        .C = layer.norm.C,
                                        .mode = mode});
    ready(layer.norm_range);
}

#define OGROM_INSTANTIATE(T)                                                                                    \
    template void norm_forward<T>(Stream, const Norm<T>&, T*, T*, T*, const T*, i64);                           \
    template void attention_forward<T>(Stream, const Attention<T>&, T*, const T*, const AttentionSaved<T>&, T*, \
                                       const Pass&);                                                            \
    template void attention_backward<T>(Stream, const Attention<T>&, T*, const T*, const AttentionSaved<T>&,    \
                                        const Workspace<T>&, const Pass&, const Ready&)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
