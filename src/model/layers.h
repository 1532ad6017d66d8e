// The layers that a stage is made of: what each reads, saves and writes. Explicit forward and backward per layer; every
// pointer is into a unit's weights or gradients (model/unit.h) or into the activation table. Gradients of weights are
// added to. Letters: B T C H D V F as in config/model.h, K key heads, all of this rank (H/tp, K/tp, F/tp, padded V/tp);
// rows = B T, or B T/tp where the sequence is split over tensor ranks; all rows = B T.
#pragma once
#include <cstdint>
#include <functional>

#include "kernels/common/dtype.h"
#include "kernels/common/stream.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/linear.h"

#include "src/config/run.h"
#include "src/data/batch.h"
#include "src/model/linear.h"
#include "src/model/tensor_group.h"

namespace ogrom {

// What holds for one pass over one micro-batch.
struct Pass {
    i64 B = 0, T = 0;               // T: all positions of a sample
    i64 past = 0;                   // positions whose packed q|k|v rows lie just before this pass's (generation; B = 1)
    i64 position0 = 0, part_T = 0;  // the residual stream's positions here: [position0, position0 + part_T)
    const std::int32_t* segments = nullptr;  // [B, T] or null
    const i64* sample = nullptr;             // [B]
    double dropout_embedding = 0, dropout_attention = 0, dropout_residual = 0;
    u64 seed = 0;
    u32 step = 0;
    // Where the kernels run, or null: they override `step` and the loss scale, so that a recorded pass does for all
    // steps.
    const u32* step_at = nullptr;
    const double* loss_scale_at = nullptr;
    // Of the product before gelu with it: never where backward makes gelu's rows again from their kept input, and where
    // the bits must not depend on whether it does.
    ops::Fusion gelu = ops::Fusion::allowed;
    TensorGroup tensor;
    std::function<void()> progress;  // called between products; may be empty
    [[nodiscard]] i64 rows() const { return B * part_T; }
    [[nodiscard]] i64 all_rows() const { return B * T; }
    void move_on() const {
        if (progress) {
            progress();
        }
    }
};
enum class Site : u32 { embedding = 0, attention = 1, after_attention = 2, after_mlp = 3 };
ops::DropoutSpec dropout_at(const Pass& pass, double p, i64 layer, Site site);

// The halves of a backward pass: `input` makes the gradient of the layer's input and leaves in BranchGradients what
// `weights` needs, which makes the gradients of the weights. Apart they give the bits of `both`.
enum class Work { both, input, weights };

template <class T>
struct Norm {
    const T* gamma = nullptr;  // [C]
    const T* beta = nullptr;   // [C] or null
    GradientOf<T>* d_gamma = nullptr;
    GradientOf<T>* d_beta = nullptr;
    i64 C = 0;
    double epsilon = 0;
};
template <class T>
void norm_forward(Stream stream, const Norm<T>& norm, T* y, StatisticOf<T>* mean, StatisticOf<T>* rstd, const T* x,
                  i64 rows);

// Gradients inside a branch.
template <class T>
struct BranchGradients {
    T* out;   // [all rows, C] of the branch's output behind dropout; null: not kept (Work::both)
    T* wide;  // [all rows, (H + 2 K) D or F] of the column-parallel product's output
};
// What the calls of a pass share; nothing in it outlives a call, but for BranchGradients between the halves of a split
// backward pass.
template <class T>
struct Workspace {
    T* branch = nullptr;                  // [rows, C] gradient of the residual stream behind dropout; null where p = 0
    T* narrow = nullptr;                  // [all rows, max(C, H D)]
    T* gathered = nullptr;                // [all rows, C]; split sequence only
    StatisticOf<T>* attention = nullptr;  // attention_workspace
    BranchGradients<T> attention_gradients{}, mlp_gradients{};
};

// Rows of all positions: x itself, or gathered over tensor ranks into the workspace.
template <class T>
const T* rows_of_all(const T* x, i64 C, const Workspace<T>& workspace, const Pass& pass);
// y[rows, C] = dropout(x w^T + bias) + residual, x [all rows, in_local] of a row-parallel layer.
template <class T>
void join_branch(Stream stream, const Linear<T>& linear, i64 layer, Site site, T* y, const T* residual, const T* x,
                 const Workspace<T>& workspace, const Pass& pass);
// Backward of the joint: the branch's gradient [all rows, C] behind dropout; adds to the bias's gradient. `kept` as
// BranchGradients::out.
template <class T>
const T* leave_branch(Stream stream, const Linear<T>& linear, i64 layer, Site site, const T* d, T* kept,
                      const Workspace<T>& workspace, const Pass& pass);
// What a branch's norm saved: its input x, its output n and the statistics of each row.
template <class T>
struct NormSaved {
    const T* x;
    T* norm;
    StatisticOf<T>* mean;
    StatisticOf<T>* rstd;
};
// Backward of the branch's first, column-parallel linear and its norm, in the halves that `work` names:
//   dw += d_y^T n ; db += sum_rows d_y (weights) ; d += norm'(d_y w) (inputs), d_y w being a partial sum over tensor
//   ranks. n is made again first where recomputation is selective.
template <class T>
void enter_branch(Stream stream, const Linear<T>& linear, const Norm<T>& norm, const NormSaved<T>& saved, Work work,
                  Recompute recompute, T* d, const T* d_y, const Workspace<T>& workspace, const Pass& pass);

// ---- embedding: vocabulary-parallel
template <class T>
struct Embedding {
    const T* token_table = nullptr;     // [padded V, C], rows [first_row, first_row + rows) of the vocabulary
    const T* position_table = nullptr;  // [sequence, C]
    GradientOf<T>* d_token_table = nullptr;
    GradientOf<T>* d_position_table = nullptr;
    i64 C = 0, vocab = 0;
    i64 first_row = 0, rows = 0;
};
// y [rows, C].
template <class T>
void embedding_forward(Stream stream, const Embedding<T>& embedding, T* y, const std::int32_t* tokens,
                       const std::int32_t* positions, const Workspace<T>& workspace, const Pass& pass);
// d_y [rows, C]; overwritten where the sequence is split.
template <class T>
void embedding_backward(Stream stream, const Embedding<T>& embedding, T* d_y, const BatchView& batch,
                        const Workspace<T>& workspace, const Pass& pass);

// ---- attention branch: middle = input + dropout(out(attention(qkv(norm1(input)))) + bias)
template <class T>
struct Attention {
    i64 layer = 0;  // of the model
    i64 heads = 0, kv_heads = 0, head_dim = 0;
    i64 heads_total = 0, head0 = 0;  // of the model, and the first of this rank
    Norm<T> norm;
    Linear<T> qkv;  // column parallel: [(H + 2 K) D, C]
    Linear<T> out;  // row parallel: [C, H D]
};
template <class T>
struct AttentionSaved {
    StatisticOf<T>* mean;  // [rows]; null: not kept (inference)
    StatisticOf<T>* rstd;  // [rows]
    T* norm;               // [rows, C]
    T* qkv;                // [all rows, (H + 2 K) D], q | k | v, behind `past` earlier rows
    T* attention;          // [all rows, H D]
    StatisticOf<T>* lse;   // [B, H, T]; null: not kept
};
template <class T>
void attention_forward(Stream stream, const Attention<T>& layer, T* y, const T* x, const AttentionSaved<T>& saved,
                       const Workspace<T>& workspace, const Pass& pass);
// d [rows, C]: in, gradient of the middle stream; out, of the input (not touched by Work::weights).
template <class T>
void attention_backward(Stream stream, const Attention<T>& layer, Work work, Recompute recompute, T* d, const T* x,
                        const AttentionSaved<T>& saved, const Workspace<T>& workspace, const Pass& pass);

// ---- MLP branch: output = middle + dropout(down(gelu(up(norm2(middle)) + bias)) + bias)
template <class T>
struct Mlp {
    i64 layer = 0;
    Norm<T> norm;
    Linear<T> up;    // column parallel: [F, C]
    Linear<T> down;  // row parallel: [C, F]
};
template <class T>
struct MlpSaved {
    StatisticOf<T>* mean;  // [rows]; null: not kept
    StatisticOf<T>* rstd;  // [rows]
    T* norm;               // [rows, C]
    T* up;                 // [all rows, F] with its bias
    T* gelu;               // [all rows, F]
};
// Everything before the last product.
template <class T>
void mlp_inner(Stream stream, const Mlp<T>& layer, const T* x, const MlpSaved<T>& saved, const Workspace<T>& workspace,
               const Pass& pass);
template <class T>
void mlp_forward(Stream stream, const Mlp<T>& layer, T* y, const T* x, const MlpSaved<T>& saved,
                 const Workspace<T>& workspace, const Pass& pass);
template <class T>
void mlp_backward(Stream stream, const Mlp<T>& layer, Work work, Recompute recompute, T* d, const T* x,
                  const MlpSaved<T>& saved, const Workspace<T>& workspace, const Pass& pass);

// ---- block: both branches
template <class T>
struct Block {
    Attention<T> attention;
    Mlp<T> mlp;
};
template <class T>
struct BlockSaved {
    T* input;   // [rows, C]
    T* middle;  // [rows, C]
    AttentionSaved<T> attention;
    MlpSaved<T> mlp;
    // What backward has to make again. selective: the norms' rows by the half that has the weights, gelu by the one
    // that reads it; full: everything but `input`, by the half that makes the input's gradient.
    Recompute recompute = Recompute::none;
};
template <class T>
void block_forward(Stream stream, const Block<T>& block, T* output, const BlockSaved<T>& saved,
                   const Workspace<T>& workspace, const Pass& pass);
template <class T>
void block_backward(Stream stream, const Block<T>& block, Work work, T* d, const BlockSaved<T>& saved,
                    const Workspace<T>& workspace, const Pass& pass);
// Gradients that the input half makes (norms, and the biases behind row-parallel products) go to `side` [6, C] of their
// own in a split backward pass, and are added by the weight half.
template <class T>
void write_beside(Stream stream, Block<T>& block, GradientOf<T>* side);
template <class T>
void add_from_beside(Stream stream, const Block<T>& block, GradientOf<T>* side);

// ---- head: final norm, logits in chunks of rows, loss; vocabulary-parallel
template <class T>
struct Head {
    Norm<T> norm;
    const T* table = nullptr;  // [padded V, C]: the token table when tied
    GradientOf<T>* d_table = nullptr;
    i64 C = 0, vocab = 0;
    i64 first_column = 0, columns = 0, padded_columns = 0;  // of the vocabulary: true ones here, and with padding
    i64 logits_rows = 0;
};
template <class T>
struct HeadWorkspace {
    StatisticOf<T>* mean;  // [rows]
    StatisticOf<T>* rstd;  // [rows]
    T* logits;             // [logits_rows, padded V]
    StatisticOf<T>* max;   // [logits_rows]; more than one tensor rank only
    double* sums;          // [2, logits_rows]; likewise
};
// Adds the unmasked losses of the micro-batch to *loss_sum (where the kernels run), equal on all tensor ranks; x
// [rows, C] is the stream behind the last block. No gradient is written.
template <class T>
void head_evaluate(Stream stream, const Head<T>& head, double* loss_sum, const T* x, const HeadWorkspace<T>& own,
                   const Workspace<T>& workspace, const BatchView& batch, const Pass& pass);
// The same and the gradient: d [rows, C] (overwritten) of x.
template <class T>
void head_backward(Stream stream, const Head<T>& head, double* loss_sum, T* d, const T* x, const HeadWorkspace<T>& own,
                   const Workspace<T>& workspace, const BatchView& batch, double loss_scale, const Pass& pass);
// logits [rows, columns], stride padded_columns, of normed rows.
template <class T>
void head_logits(Stream stream, const Head<T>& head, T* logits, const T* norm, i64 rows);

}  // namespace ogrom
