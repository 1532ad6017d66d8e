// The joints of a branch and the residual stream, which attention and MLP share, and the tensor ranks' sums there.
// Comes in: stream x [B T/tp, C] or branch rows [B T, ...] (arena). Goes out: rows for the branch's products, or the
// joined stream. Next: back to attention.cpp, mlp.cpp
#include "kernels/common/fault.h"
#include "kernels/ops/flat.h"
#include "kernels/ops/layernorm.h"
#include "kernels/ops/residual.h"

#include "src/model/layers.h"

namespace ogrom {

template <class T>
void norm_forward(Stream stream, const Norm<T>& norm, T* y, StatisticOf<T>* mean, StatisticOf<T>* rstd, const T* x,
                  i64 rows) {
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
const T* rows_of_all(const T* x, i64 C, const Workspace<T>& workspace, const Pass& pass) {
    if (!pass.tensor.splits_positions()) {
        return x;
    }
    gather_positions(pass.tensor, workspace.gathered, x, pass.B, pass.part_T, C);
    return workspace.gathered;
}

template <class T>
void join_branch(Stream stream, const Linear<T>& linear, i64 layer, Site site, T* y, const T* residual, const T* x,
                 const Workspace<T>& workspace, const Pass& pass) {
    const i64 C = linear.out_local;
    // branch = x w^T, a partial sum over tensor ranks
    if (pass.tensor.splits_positions()) {
        linear_forward(stream, linear, workspace.narrow, x, pass.all_rows());
        scatter_positions(pass.tensor, y, workspace.narrow, pass.B, pass.part_T, C);
    } else {
        linear_forward(stream, linear, y, x, pass.all_rows());
        if (!fault_active("tp_partial_not_summed")) {
            sum_over(pass.tensor, y, pass.rows() * C);
        }
    }
    // y = residual + dropout(branch + bias)
    ops::residual_forward<T>(stream, {.y = y,
                                      .x = residual,
                                      .branch = y,
                                      .bias = linear.bias,
                                      .B = pass.B,
                                      .T_ = pass.part_T,
                                      .C = C,
                                      .sample = pass.sample,
                                      .dropout = dropout_at(pass, pass.dropout_residual, layer, site),
                                      .position0 = pass.position0,
                                      .T_total = pass.T});
}

template <class T>
const T* leave_branch(Stream stream, const Linear<T>& linear, i64 layer, Site site, const T* d, T* kept,
                      const Workspace<T>& workspace, const Pass& pass) {
    const i64 C = linear.out_local;
    const bool split = pass.tensor.splits_positions();
    const T* mine = d;
    // d_branch = dropout'(d); d itself goes on along the stream
    if (pass.dropout_residual > 0) {
        T* const to = split || kept == nullptr ? workspace.branch : kept;
        ops::dropout_backward<T>(stream, {.d_branch = to,
                                          .d_y = d,
                                          .B = pass.B,
                                          .T_ = pass.part_T,
                                          .C = C,
                                          .sample = pass.sample,
                                          .dropout = dropout_at(pass, pass.dropout_residual, layer, site),
                                          .position0 = pass.position0,
                                          .T_total = pass.T});
        mine = to;
    }
    // db += sum_rows d_branch; positions of this rank alone where the sequence is split
    linear_bias_gradient(stream, linear, mine, pass.rows());
    if (split) {
        T* const whole = kept != nullptr ? kept : workspace.gathered;
        gather_positions(pass.tensor, whole, mine, pass.B, pass.part_T, C);
        return whole;
    }
    if (kept != nullptr && mine == d) {
        ops::copy(stream, kept, d, pass.rows() * C);  // d changes before the weight half reads it
        return kept;
    }
    return mine;
}

namespace {

// d += norm'(d_n) of d_n in workspace.narrow, a partial sum over tensor ranks.
template <class T>
void enter_stream(Stream stream, const Norm<T>& norm, const NormSaved<T>& saved, T* d, const Workspace<T>& workspace,
                  const Pass& pass) {
    T* d_norm = workspace.narrow;
    if (pass.tensor.splits_positions()) {
        scatter_positions(pass.tensor, workspace.gathered, d_norm, pass.B, pass.part_T, norm.C);
        d_norm = workspace.gathered;
    } else {
        sum_over(pass.tensor, d_norm, pass.rows() * norm.C);
    }
    // d += norm'(d_n): the branch joins the stream
    ops::Accumulate mode = ops::Accumulate::add;
    if (fault_active("residual_gradient_lost")) {
        mode = ops::Accumulate::overwrite;
    }
    ops::layernorm_backward<T>(stream, {.d_x = d,
                                        .d_gamma = norm.d_gamma,
                                        .d_beta = norm.d_beta,
                                        .d_y = d_norm,
                                        .x = saved.x,
                                        .gamma = norm.gamma,
                                        .mean = saved.mean,
                                        .rstd = saved.rstd,
                                        .rows = pass.rows(),
                                        .C = norm.C,
                                        .mode = mode});
}

}  // namespace

template <class T>
void enter_branch(Stream stream, const Linear<T>& linear, const Norm<T>& norm, const NormSaved<T>& saved, Work work,
                  Recompute recompute, T* d, const T* d_y, const Workspace<T>& workspace, const Pass& pass) {
    if (work != Work::weights && recompute == Recompute::selective) {
        norm_forward(stream, norm, saved.norm, saved.mean, saved.rstd, saved.x, pass.rows());
    }
    // dw += d_y^T n ; db += sum_rows d_y ; d_n = d_y w
    const T* const n = work != Work::input ? rows_of_all<T>(saved.norm, norm.C, workspace, pass) : nullptr;
    linear_backward<T>(
        stream, linear,
        {.d_x = work != Work::weights ? workspace.narrow : nullptr, .d_y = d_y, .x = n, .bias = BiasGradients::added},
        pass.all_rows(), pass.progress);
    // d += norm'(d_n)
    if (work != Work::weights) {
        enter_stream(stream, norm, saved, d, workspace, pass);
    }
    pass.move_on();
}

#define OGROM_INSTANTIATE(T)                                                                                          \
    template void norm_forward<T>(Stream, const Norm<T>&, T*, StatisticOf<T>*, StatisticOf<T>*, const T*, i64);       \
    template const T* rows_of_all<T>(const T*, i64, const Workspace<T>&, const Pass&);                                \
    template void join_branch<T>(Stream, const Linear<T>&, i64, Site, T*, const T*, const T*, const Workspace<T>&,    \
                                 const Pass&);                                                                        \
    template const T* leave_branch<T>(Stream, const Linear<T>&, i64, Site, const T*, T*, const Workspace<T>&,         \
                                      const Pass&);                                                                   \
    template void enter_branch<T>(Stream, const Linear<T>&, const Norm<T>&, const NormSaved<T>&, Work, Recompute, T*, \
                                  const T*, const Workspace<T>&, const Pass&)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
