// Comes in: residual stream x [rows, C] (arena); backward: d [rows, C], gradient of the stream behind this branch.
// Goes out: y = x + branch [rows, C] (arena); backward: d of the stream before it, weight gradients added.
// Next: model/head.cpp after the last block (backward: model/attention.cpp)
#include "kernels/ops/gelu.h"

#include "src/model/layers.h"

namespace ogrom {

template <class T>
void mlp_inner(Stream stream, const Mlp<T>& layer, const T* x, const MlpSaved<T>& saved, const Workspace<T>& workspace,
               const Pass& pass) {
    // n = norm2(x)
    norm_forward(stream, layer.norm, saved.norm, saved.mean, saved.rstd, x, pass.rows());
    // u = n w_up^T + b_up ; a = gelu(u)
    linear_gelu_forward<T>(stream, layer.up, saved.gelu, saved.up,
                           rows_of_all<T>(saved.norm, layer.norm.C, workspace, pass), pass.all_rows(), pass.gelu);
    pass.move_on();
}

template <class T>
void mlp_forward(Stream stream, const Mlp<T>& layer, T* y, const T* x, const MlpSaved<T>& saved,
                 const Workspace<T>& workspace, const Pass& pass) {
    mlp_inner(stream, layer, x, saved, workspace, pass);
    // y = x + dropout(a w_down^T + b_down)
    join_branch(stream, layer.down, layer.layer, Site::after_mlp, y, x, saved.gelu, workspace, pass);
    pass.move_on();
}

template <class T>
void mlp_backward(Stream stream, const Mlp<T>& layer, Work work, Recompute recompute, T* d, const T* x,
                  const MlpSaved<T>& saved, const Workspace<T>& workspace, const Pass& pass) {
    const i64 rows = pass.all_rows();
    const bool inputs = work != Work::weights;
    const bool weights = work != Work::input;
    const BranchGradients<T>& gradients = workspace.mlp_gradients;
    // d_branch = dropout'(d) ; db_down += sum d_branch
    const T* d_branch = gradients.out;
    if (inputs) {
        d_branch = leave_branch(stream, layer.down, layer.layer, Site::after_mlp, d, gradients.out, workspace, pass);
    }
    if (weights && recompute == Recompute::selective) {
        ops::gelu_forward<T>(stream, {.y = saved.gelu, .u = saved.up, .n = rows * layer.up.out_local});
    }
    // dw_down += d_branch^T a ; d_u = (d_branch w_down) gelu'(u)
    linear_backward<T>(
        stream, layer.down,
        {.d_x = inputs ? gradients.wide : nullptr, .d_y = d_branch, .x = weights ? saved.gelu : nullptr, .u = saved.up},
        rows, pass.progress);
    pass.move_on();
    // dw_up += d_u^T n ; db_up += sum d_u ; d += norm2'(d_u w_up)
    enter_branch(stream, layer.up, layer.norm, {x, saved.norm, saved.mean, saved.rstd}, work, recompute, d,
                 gradients.wide, workspace, pass);
}

#define OGROM_INSTANTIATE(T)                                                                                           \
    template void mlp_inner<T>(Stream, const Mlp<T>&, const T*, const MlpSaved<T>&, const Workspace<T>&, const Pass&); \
    template void mlp_forward<T>(Stream, const Mlp<T>&, T*, const T*, const MlpSaved<T>&, const Workspace<T>&,         \
                                 const Pass&);                                                                         \
    template void mlp_backward<T>(Stream, const Mlp<T>&, Work, Recompute, T*, const T*, const MlpSaved<T>&,            \
                                  const Workspace<T>&, const Pass&)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
