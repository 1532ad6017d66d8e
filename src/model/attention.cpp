// Comes in: residual stream x [rows, C] (arena); backward: d [rows, C], gradient of the stream behind this branch.
// Goes out: y = x + branch [rows, C] (arena); backward: d of the stream before it, weight gradients added.
// Next: model/mlp.cpp (backward: model/block.cpp)
#include "kernels/ops/attention.h"

#include <cmath>

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
    shape.heads = layer.heads;
    shape.heads_total = layer.heads_total;
    shape.head0 = layer.head0;
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
void attention_forward(Stream stream, const Attention<T>& layer, T* y, const T* x, const AttentionSaved<T>& saved,
                       const Workspace<T>& workspace, const Pass& pass) {
    const i64 rows = pass.all_rows();
    // n = norm1(x)
    norm_forward(stream, layer.norm, saved.norm, saved.mean, saved.rstd, x, pass.rows());
    // q | k | v = n w_qkv^T + b_qkv
    linear_bias_forward(stream, layer.qkv, saved.qkv, rows_of_all(saved.norm, layer.norm.C, workspace, pass), rows);
    pass.move_on();
    // o_i = sum_j dropout(softmax_j(q_i k_j / sqrt(D))) v_j, j <= i
    const PackedView<T> packed = view_of(layer, saved.qkv, pass.past);
    ops::attention_forward<T>(stream, {.out = saved.attention,
                                       .lse = saved.lse,
                                       .q = packed.q,
                                       .k = packed.k,
                                       .v = packed.v,
                                       .shape = shape_of(layer, pass),
                                       .workspace = workspace.attention});
    pass.move_on();
    // y = x + dropout(o w_out^T + b_out)
    join_branch(stream, layer.out, layer.layer, Site::after_attention, y, x, saved.attention, workspace, pass);
}

template <class T>
void attention_backward(Stream stream, const Attention<T>& layer, Work work, Recompute recompute, T* d, const T* x,
                        const AttentionSaved<T>& saved, const Workspace<T>& workspace, const Pass& pass) {
    const i64 rows = pass.all_rows();
    const bool inputs = work != Work::weights;
    const bool weights = work != Work::input;
    const BranchGradients<T>& gradients = workspace.attention_gradients;
    // d_branch = dropout'(d) ; db_out += sum d_branch
    const T* d_branch = gradients.out;
    if (inputs) {
        d_branch =
            leave_branch(stream, layer.out, layer.layer, Site::after_attention, d, gradients.out, workspace, pass);
    }
    // dw_out += d_branch^T o ; d_o = d_branch w_out
    T* const d_attention = workspace.narrow;
    linear_backward<T>(
        stream, layer.out,
        {.d_x = inputs ? d_attention : nullptr, .d_y = d_branch, .x = weights ? saved.attention : nullptr}, rows,
        pass.progress);
    pass.move_on();
    // dq | dk | dv from d_o, probabilities recomputed from the saved log-sum-exp
    if (inputs) {
        const PackedView<T> packed = view_of(layer, saved.qkv, 0);
        const PackedView<T> d_packed = view_of(layer, gradients.wide, 0);
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
        pass.move_on();
    }
    // dw_qkv += d_qkv^T n ; db_qkv += sum d_qkv ; d += norm1'(d_qkv w_qkv)
    enter_branch(stream, layer.qkv, layer.norm, {x, saved.norm, saved.mean, saved.rstd}, work, recompute, d,
                 gradients.wide, workspace, pass);
}

#define OGROM_INSTANTIATE(T)                                                                                \
    template void attention_forward<T>(Stream, const Attention<T>&, T*, const T*, const AttentionSaved<T>&, \
                                       const Workspace<T>&, const Pass&);                                   \
    template void attention_backward<T>(Stream, const Attention<T>&, Work, Recompute, T*, const T*,         \
                                        const AttentionSaved<T>&, const Workspace<T>&, const Pass&)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
