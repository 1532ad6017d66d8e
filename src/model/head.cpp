// Comes in: normed rows n [B T, C] (arena), targets and mask [B, T] (host batch), table [padded V, C].
// Goes out: sum of unmasked losses; backward: d [B T, C] behind the last block, table and norm gradients added.
// Next: train/step.cpp (backward: model/block.cpp, last block first)
#include <algorithm>

#include "kernels/common/fault.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/layernorm.h"
#include "kernels/ops/matmul.h"

#include "src/model/layers.h"

namespace ogrom {

template <class T>
void head_logits(Stream stream, const Head<T>& head, T* logits, const T* norm, i64 rows) {
    // z = n w^T over the true vocabulary; padding columns are never computed
    ops::matmul<T>(stream, {.y = logits,
                            .a = norm,
                            .b = head.table,
                            .m = rows,
                            .n = head.vocab,
                            .k = head.C,
                            .ldy = head.padded_vocab,
                            .lda = head.C,
                            .ldb = head.C,
                            .transpose_b = ops::Transpose::yes});
}

namespace {

// Loss of rows [first, first + rows) from their logits; in_place: logits become their gradient.
template <class T>
void chunk_loss(Stream stream, const Head<T>& head, T* logits, const Batch& batch, i64 first, i64 rows, double scale,
                ops::Gradient gradient, double* loss_sum) {
    ops::cross_entropy<T>(stream, {.logits = logits,
                                   .targets = batch.targets.data() + first,
                                   .mask = batch.loss_mask.data() + first,
                                   .rows = rows,
                                   .vocabulary = head.vocab,
                                   .padded_vocabulary = head.padded_vocab,
                                   .ld = head.padded_vocab,
                                   .scale = scale,
                                   .gradient = gradient,
                                   .loss_sum = loss_sum});
}

}  // namespace

template <class T>
double head_evaluate(Stream stream, const Head<T>& head, const HeadSaved<T>& saved, const Batch& batch) {
    const i64 all_rows = batch.B * batch.T;
    double loss_sum = 0;
    for (i64 first = 0; first < all_rows; first += head.logits_rows) {
        const i64 rows = std::min(head.logits_rows, all_rows - first);
        head_logits(stream, head, saved.logits, saved.norm + first * head.C, rows);
        chunk_loss(stream, head, saved.logits, batch, first, rows, 0, ops::Gradient::none, &loss_sum);
    }
    return loss_sum;
}

namespace {

// dw += dz^T n ; d_n = dz w, for a chunk of rows
template <class T>
void chunk_products(Stream stream, const Head<T>& head, T* d_norm, const T* d_logits, const T* norm, i64 rows) {
    ops::matmul<T>(stream, {.y = head.d_table,
                            .a = d_logits,
                            .b = norm,
                            .m = head.vocab,
                            .n = head.C,
                            .k = rows,
                            .ldy = head.C,
                            .lda = head.padded_vocab,
                            .ldb = head.C,
                            .transpose_a = ops::Transpose::yes,
                            .beta = 1});
    ops::matmul<T>(stream, {.y = d_norm,
                            .a = d_logits,
                            .b = head.table,
                            .m = rows,
                            .n = head.C,
                            .k = head.vocab,
                            .ldy = head.C,
                            .lda = head.padded_vocab,
                            .ldb = head.C});
}

}  // namespace

template <class T>
double head_backward(Stream stream, const Head<T>& head, T* d, const T* x, const HeadSaved<T>& saved,
                     const Batch& batch, double loss_scale, const Ready& ready) {
    const i64 all_rows = batch.B * batch.T;
    if (fault_active("micro_batch_scale")) {
        loss_scale = 1.0 / static_cast<double>(std::max<i64>(1, batch.unmasked));
    }
    double loss_sum = 0;
    for (i64 first = 0; first < all_rows; first += head.logits_rows) {
        const i64 rows = std::min(head.logits_rows, all_rows - first);
        const T* norm = saved.norm + first * head.C;
        // z = n w^T ; loss += lse(z) - z_target ; dz = scale mask (softmax(z) - onehot)
        head_logits(stream, head, saved.logits, norm, rows);
        chunk_loss(stream, head, saved.logits, batch, first, rows, loss_scale, ops::Gradient::in_place, &loss_sum);
        chunk_products(stream, head, d + first * head.C, saved.logits, norm, rows);
    }
    if (head.table_range.first < head.table_range.last) {
        ready(head.table_range);
    }
    // d = final_norm'(d_n), in place: the stream's gradient starts here
    ops::layernorm_backward<T>(stream, {.d_x = d,
                                        .d_gamma = head.norm.d_gamma,
                                        .d_beta = head.norm.d_beta,
                                        .d_y = d,
                                        .x = x,
                                        .gamma = head.norm.gamma,
                                        .mean = saved.mean,
                                        .rstd = saved.rstd,
                                        .rows = all_rows,
                                        .C = head.C,
                                        .mode = ops::Accumulate::overwrite});
    ready(head.norm_range);
    return loss_sum;
}

#define OGROM_INSTANTIATE(T)                                                                                          \
    template void head_logits<T>(Stream, const Head<T>&, T*, const T*, i64);                                          \
    template double head_evaluate<T>(Stream, const Head<T>&, const HeadSaved<T>&, const Batch&);                      \
    template double head_backward<T>(Stream, const Head<T>&, T*, const T*, const HeadSaved<T>&, const Batch&, double, \
                                     const Ready&)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
