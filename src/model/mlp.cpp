// Comes in: residual stream x [B T, C] (arena); backward: d [B T, C], gradient of the stream behind this branch.
// Goes out: y = x + branch [B T, C] (arena); backward: d of the stream before it, weight gradients added.
// Next: model/head.cpp after the last block (backward: model/attention.cpp)
#include "kernels/common/fault.h"
#include "kernels/ops/gelu.h"
#include "kernels/ops/layernorm.h"
#include "kernels/ops/residual.h"

#include "src/model/layers.h"

namespace ogrom {

template <class T>
void mlp_forward(Stream stream, const Mlp<T>& layer, T* y, const T* x, const MlpSaved<T>& saved, const Pass& pass) {
    const i64 rows = pass.rows();
    // n = norm2(x)
    norm_forward(stream, layer.norm, saved.norm, saved.mean, saved.rstd, x, rows);
    // u = n w_up^T + b_up ; a = gelu(u)
    linear_forward(stream, layer.up, saved.up, saved.norm, rows);
    ops::bias_gelu_forward<T>(
        stream, {.y = saved.gelu, .x = saved.up, .bias = layer.up.bias, .rows = rows, .F = layer.up.out_local});
    // y = x + dropout(a w_down^T + b_down)
    linear_forward(stream, layer.down, y, saved.gelu, rows);
    ops::residual_forward<T>(stream,
                             {.y = y,
                              .x = x,
                              .branch = y,
                              .bias = layer.down.bias,
                              .B = pass.B,
                              .T_ = pass.T,
                              .C = layer.down.out_local,
                              .sample = pass.sample,
                              .dropout = dropout_at(pass, pass.dropout_residual, layer.layer, Site::after_mlp)});
}

template <class T>
void mlp_backward(Stream stream, const Mlp<T>& layer, T* d, const T* x, const MlpSaved<T>& saved,
                  const Workspace<T>& workspace, const Pass& pass, const Ready& ready) {
    const i64 rows = pass.rows();
    // d_branch = dropout'(d); d itself goes on along the stream
    const T* d_branch = d;
    if (pass.dropout_residual > 0) {
        ops::dropout_backward<T>(stream,
                                 {.d_branch = workspace.branch,
                                  .d_y = d,
                                  .B = pass.B,
                                  .T_ = pass.T,
                                  .C = layer.down.out_local,
                                  .sample = pass.sample,
                                  .dropout = dropout_at(pass, pass.dropout_residual, layer.layer, Site::after_mlp)});
        d_branch = workspace.branch;
    }
    // dw_down += d_branch^T a ; db_down += sum d_branch ; d_a = d_branch w_down
    linear_backward(stream, layer.down, workspace.wide, d_branch, saved.gelu, rows);
    ready(layer.down_range);
    // d_u = d_a gelu'(u)
    ops::gelu_backward<T>(
        stream, {.d_x = workspace.wide, .d_y = workspace.wide, .u = saved.up, .n = rows * layer.up.out_local});
    // dw_up += d_u^T n ; db_up += sum d_u ; d_n = d_u w_up
    linear_backward(stream, layer.up, workspace.narrow, workspace.wide, saved.norm, rows);
    // d += norm2'(d_n): the branch joins the stream
    ops::Accumulate mode = ops::Accumulate::add;
    if (fault_active("residual_gradient_lost")) {
        mode = ops::Accumulate::overwrite;
    }
    ops::layernorm_backward<T>(stream, {.d_x = d,
                                        .d_gamma = layer.norm.d_gamma,
                                        .d_beta = layer.norm.d_beta,
                                        .d_y = workspace.narrow,
                                        .x = x,
                                        .gamma = layer.norm.gamma,
                                        .mean = saved.mean,
                                        .rstd = saved.rstd,
                                        .rows = rows,
                                        .C = layer.norm.C,
                                        .mode = mode});
    ready(layer.up_range);
}

#define OGROM_INSTANTIATE(T)                                                                                    \
    template void mlp_forward<T>(Stream, const Mlp<T>&, T*, const T*, const MlpSaved<T>&, const Pass&);         \
    template void mlp_backward<T>(Stream, const Mlp<T>&, T*, const T*, const MlpSaved<T>&, const Workspace<T>&, \
                                  const Pass&, const Ready&)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
