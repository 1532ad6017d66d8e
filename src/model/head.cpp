// Comes in: stream x [rows, C] behind the last block (arena), targets and mask [B, T] (batch view), this rank's rows of
// the table [padded V, C]. Goes out: unmasked losses added to a sum; backward: d [rows, C] of x, table and norm
// gradients added. Next: back to model/stage.cpp (backward: model/block.cpp, last block first)
#include <algorithm>

#include "kernels/common/fault.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/flat.h"
#include "kernels/ops/layernorm.h"
#include "kernels/ops/matmul.h"

#include "src/model/layers.h"

namespace ogrom {
namespace {

// Columns of the products over the vocabulary. On a GPU with the padding: its rows of the table are zero and so is its
// gradient, and cuBLASLt's kernels for 50,257 columns take 5 to 10 times the time of those for 50,304. The CPU's
// products do not care, and leave the padding out.
template <class T>
i64 product_columns(Stream stream, const Head<T>& head) {
    return stream.backend == Backend::cuda ? head.padded_columns : head.columns;
}

}  // namespace

template <class T>
void head_logits(Stream stream, const Head<T>& head, T* logits, const T* norm, i64 rows) {
    if (head.columns == 0) {
        return;  // this tensor rank holds padding alone
    }
    // z = n w^T
    ops::matmul<T>(stream, {.y = logits,
                            .a = norm,
                            .b = head.table,
                            .m = rows,
                            .n = product_columns(stream, head),
                            .k = head.C,
                            .ldy = head.padded_columns,
                            .lda = head.C,
                            .ldb = head.C,
                            .transpose_b = ops::Transpose::yes});
}

namespace {

// A chunk of rows [first, first + rows) of all positions.
struct Chunk {
    i64 first = 0, rows = 0;
};

// Loss of a chunk whose columns all stand here; in_place: logits become their gradient.
template <class T>
void whole_loss(Stream stream, const Head<T>& head, T* logits, const BatchView& batch, Chunk chunk, double scale,
                ops::Gradient gradient, double* loss_sum, const Pass& pass) {
    ops::cross_entropy<T>(stream, {.logits = logits,
                                   .targets = batch.targets + chunk.first,
                                   .mask = batch.loss_mask + chunk.first,
                                   .rows = chunk.rows,
                                   .vocabulary = head.columns,
                                   .padded_vocabulary = head.padded_columns,
                                   .ld = head.padded_columns,
                                   .scale = scale,
                                   .gradient = gradient,
                                   .loss_sum = loss_sum,
                                   .scale_at = pass.loss_scale_at});
}

// The same over tensor ranks that hold some columns each.
template <class T>
void shared_loss(Stream stream, const Head<T>& head, const HeadWorkspace<T>& own, const BatchView& batch, Chunk chunk,
                 double scale, ops::Gradient gradient, double* loss_sum, const Pass& pass) {
    const TensorGroup& group = pass.tensor;
    const ops::CrossEntropyPart<T> part{.logits = own.logits,
                                        .targets = batch.targets + chunk.first,
                                        .mask = batch.loss_mask + chunk.first,
                                        .rows = chunk.rows,
                                        .ld = head.padded_columns,
                                        .columns = head.columns,
                                        .padded_columns = head.padded_columns,
                                        .first_column = head.first_column,
                                        .vocabulary = head.vocab,
                                        .scale = scale,
                                        .gradient = gradient,
                                        .max = own.max,
                                        .sums = own.sums,
                                        .loss_sum = loss_sum,
                                        .scale_at = pass.loss_scale_at};
    // max_r = max_v z_rv
    ops::cross_entropy_max<T>(stream, part);
    max_over(group, own.max, chunk.rows);
    // sum_v exp(z_rv - max_r), and z of the target
    ops::cross_entropy_sum<T>(stream, part);
    sum_over(group, own.sums, 2 * chunk.rows);
    // loss += log sum - (z_target - max) ; dz = scale mask (softmax(z) - onehot)
    ops::cross_entropy_finish<T>(stream, part);
}

// z = n w^T of a chunk and its loss.
template <class T>
void chunk_loss(Stream stream, const Head<T>& head, const T* norm, const HeadWorkspace<T>& own, const BatchView& batch,
                Chunk chunk, double scale, ops::Gradient gradient, double* loss_sum, const Pass& pass) {
    head_logits(stream, head, own.logits, norm + chunk.first * head.C, chunk.rows);
    if (pass.tensor.size == 1) {
        whole_loss(stream, head, own.logits, batch, chunk, scale, gradient, loss_sum, pass);
    } else {
        shared_loss(stream, head, own, batch, chunk, scale, gradient, loss_sum, pass);
    }
}

// dw += dz^T n ; d_n = dz w, for a chunk of rows
template <class T>
void chunk_products(Stream stream, const Head<T>& head, T* d_norm, const T* d_logits, const T* norm, i64 rows) {
    if (head.columns == 0) {
        ops::fill<T>(stream, d_norm, T(0), rows * head.C);
        return;
    }
    ops::matmul<T, GradientOf<T>>(stream, {.y = head.d_table,
                                           .a = d_logits,
                                           .b = norm,
                                           .m = product_columns(stream, head),
                                           .n = head.C,
                                           .k = rows,
                                           .ldy = head.C,
                                           .lda = head.padded_columns,
                                           .ldb = head.C,
                                           .transpose_a = ops::Transpose::yes,
                                           .beta = 1});
    ops::matmul<T>(stream, {.y = d_norm,
                            .a = d_logits,
                            .b = head.table,
                            .m = rows,
                            .n = head.C,
                            .k = product_columns(stream, head),
                            .ldy = head.C,
                            .lda = head.padded_columns,
                            .ldb = head.C});
}

// n = final_norm(x), rows of all positions
template <class T>
const T* normed(Stream stream, const Head<T>& head, const T* x, const HeadWorkspace<T>& own,
                const Workspace<T>& workspace, const Pass& pass) {
    norm_forward(stream, head.norm, workspace.narrow, own.mean, own.rstd, x, pass.rows());
    return rows_of_all<T>(workspace.narrow, head.C, workspace, pass);
}

}  // namespace

template <class T>
void head_evaluate(Stream stream, const Head<T>& head, double* loss_sum, const T* x, const HeadWorkspace<T>& own,
                   const Workspace<T>& workspace, const BatchView& batch, const Pass& pass) {
    const T* const norm = normed(stream, head, x, own, workspace, pass);
    for (i64 first = 0; first < pass.all_rows(); first += head.logits_rows) {
        const Chunk chunk{first, std::min(head.logits_rows, pass.all_rows() - first)};
        chunk_loss(stream, head, norm, own, batch, chunk, 0, ops::Gradient::none, loss_sum, pass);
        pass.move_on();
    }
}

template <class T>
void head_backward(Stream stream, const Head<T>& head, double* loss_sum, T* d, const T* x, const HeadWorkspace<T>& own,
                   const Workspace<T>& workspace, const BatchView& batch, double loss_scale, const Pass& pass) {
    if (fault_active("micro_batch_scale")) {
        loss_scale = 1.0 / static_cast<double>(std::max<i64>(1, batch.unmasked));
    }
    const bool split = pass.tensor.splits_positions();
    const T* const norm = normed(stream, head, x, own, workspace, pass);
    // A gathered copy leaves the workspace of the normed rows free for the gradient of all positions.
    T* const d_norm = split ? workspace.narrow : d;
    for (i64 first = 0; first < pass.all_rows(); first += head.logits_rows) {
        const Chunk chunk{first, std::min(head.logits_rows, pass.all_rows() - first)};
        chunk_loss(stream, head, norm, own, batch, chunk, loss_scale, ops::Gradient::in_place, loss_sum, pass);
        pass.move_on();
        chunk_products(stream, head, d_norm + first * head.C, own.logits, norm + first * head.C, chunk.rows);
        pass.move_on();
    }
    if (fault_active("tied_gradient_missed")) {
        ops::fill<GradientOf<T>>(stream, head.d_table, 0, head.padded_columns * head.C);
    }
    // d_n is a partial sum over tensor ranks
    if (split) {
        scatter_positions(pass.tensor, d, d_norm, pass.B, pass.part_T, head.C);
    } else {
        sum_over(pass.tensor, d, pass.rows() * head.C);
    }
    // d = final_norm'(d_n), in place: the stream's gradient starts here
    ops::layernorm_backward<T>(stream, {.d_x = d,
                                        .d_gamma = head.norm.d_gamma,
                                        .d_beta = head.norm.d_beta,
                                        .d_y = d,
                                        .x = x,
                                        .gamma = head.norm.gamma,
                                        .mean = own.mean,
                                        .rstd = own.rstd,
                                        .rows = pass.rows(),
                                        .C = head.C,
                                        .mode = ops::Accumulate::overwrite});
}

#define OGROM_INSTANTIATE(T)                                                                               \
    template void head_logits<T>(Stream, const Head<T>&, T*, const T*, i64);                               \
    template void head_evaluate<T>(Stream, const Head<T>&, double*, const T*, const HeadWorkspace<T>&,     \
                                   const Workspace<T>&, const BatchView&, const Pass&);                    \
    template void head_backward<T>(Stream, const Head<T>&, double*, T*, const T*, const HeadWorkspace<T>&, \
                                   const Workspace<T>&, const BatchView&, double, const Pass&)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
