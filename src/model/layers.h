// The layers that a stage is made of: what each reads, saves and writes. Explicit forward and backward per layer; every
// pointer is into the flat weights, the flat gradients or the activation table. Gradients of weights are added to.
// Letters: B T C H D V F as in config/model.h, K key heads; rows = B T. Extents are local ones (tp = cp = 1 here).
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "kernels/common/stream.h"
#include "kernels/ops/dropout.h"

#include "src/config/model.h"
#include "src/data/batch.h"
#include "src/model/linear.h"
#include "src/model/parameters.h"

namespace ogrom {

// What holds for one pass over one micro-batch.
struct Pass {
    i64 B = 0, T = 0;
    i64 past = 0;  // positions whose packed q|k|v rows lie just before this pass's (generation; B = 1)
    const std::int32_t* segments = nullptr;  // [B, T] or null
    const i64* sample = nullptr;             // [B]
    double dropout_embedding = 0, dropout_attention = 0, dropout_residual = 0;
    u64 seed = 0;
    u32 step = 0;
    [[nodiscard]] i64 rows() const { return B * T; }
};
enum class Site : u32 { embedding = 0, attention = 1, after_attention = 2, after_mlp = 3 };
ops::DropoutSpec dropout_at(const Pass& pass, double p, i64 layer, Site site);

// Flat range of gradients that became final; called at once, so that its reduction can start.
struct Range {
    i64 first = 0, last = 0;
};
using Ready = std::function<void(Range)>;

template <class T>
struct Norm {
    const T* gamma = nullptr;  // [C]
    const T* beta = nullptr;   // [C] or null
    T* d_gamma = nullptr;
    T* d_beta = nullptr;
    i64 C = 0;
    double epsilon = 0;
};
template <class T>
void norm_forward(Stream stream, const Norm<T>& norm, T* y, T* mean, T* rstd, const T* x, i64 rows);

// ---- embedding
template <class T>
struct Embedding {
    const T* token_table = nullptr;     // [padded V, C]
    const T* position_table = nullptr;  // [sequence, C]
    T* d_token_table = nullptr;
    T* d_position_table = nullptr;
    i64 C = 0, vocab = 0;
    Range range;  // both tables
};
template <class T>
void embedding_forward(Stream stream, const Embedding<T>& embedding, T* y, const std::int32_t* tokens,
                       const std::int32_t* positions, const Pass& pass);
template <class T>
void embedding_backward(Stream stream, const Embedding<T>& embedding, const T* d_y, const Batch& batch,
                        const Pass& pass);

// ---- attention branch: middle = input + dropout(out(attention(qkv(norm1(input)))) + bias)
template <class T>
struct Attention {
    i64 layer = 0;  // of the model
    i64 heads = 0, kv_heads = 0, head_dim = 0;
    Norm<T> norm;
    Linear<T> qkv;  // column parallel: [(H + 2 K) D, C]
    Linear<T> out;  // row parallel: [C, H D]
    Range norm_range, out_range;
};
template <class T>
struct AttentionSaved {
    T* mean;       // [rows]; null: not kept (inference)
    T* rstd;       // [rows]
    T* norm;       // [rows, C]
    T* qkv;        // [rows, (H + 2 K) D], q | k | v, behind `past` earlier rows
    T* attention;  // [rows, H D]
    T* lse;        // [B, H, T]; null: not kept
};
template <class T>
struct Workspace {
    T* branch;     // [rows, C] gradient of the residual stream behind dropout; null where p = 0
    T* narrow;     // [rows, max(C, H D)]
    T* wide;       // [rows, max(F, (H + 2 K) D)]
    T* attention;  // attention_workspace
};
template <class T>
void attention_forward(Stream stream, const Attention<T>& layer, T* y, const T* x, const AttentionSaved<T>& saved,
                       T* workspace, const Pass& pass);
// d [rows, C]: in, gradient of the middle stream; out, of the input.
template <class T>
void attention_backward(Stream stream, const Attention<T>& layer, T* d, const T* x, const AttentionSaved<T>& saved,
                        const Workspace<T>& workspace, const Pass& pass, const Ready& ready);

// ---- MLP branch: output = middle + dropout(down(gelu(up(norm2(middle)) + bias)) + bias)
template <class T>
struct Mlp {
    i64 layer = 0;
    Norm<T> norm;
    Linear<T> up;    // column parallel: [F, C]
    Linear<T> down;  // row parallel: [C, F]
    Range up_range, down_range;
};
template <class T>
struct MlpSaved {
    T* mean;  // [rows]; null: not kept
    T* rstd;  // [rows]
    T* norm;  // [rows, C]
    T* up;    // [rows, F] with its bias
    T* gelu;  // [rows, F]
};
template <class T>
void mlp_forward(Stream stream, const Mlp<T>& layer, T* y, const T* x, const MlpSaved<T>& saved, const Pass& pass);
template <class T>
void mlp_backward(Stream stream, const Mlp<T>& layer, T* d, const T* x, const MlpSaved<T>& saved,
                  const Workspace<T>& workspace, const Pass& pass, const Ready& ready);

// ---- block: both branches
template <class T>
struct Block {
    Attention<T> attention;
    Mlp<T> mlp;
    Range range;
};
template <class T>
struct BlockSaved {
    T* input;   // [rows, C]
    T* middle;  // [rows, C]
    AttentionSaved<T> attention;
    MlpSaved<T> mlp;
};
template <class T>
void block_forward(Stream stream, const Block<T>& block, T* output, const BlockSaved<T>& saved, T* workspace,
                   const Pass& pass);
template <class T>
void block_backward(Stream stream, const Block<T>& block, T* d, const BlockSaved<T>& saved,
                    const Workspace<T>& workspace, const Pass& pass, const Ready& ready);

// ---- head: final norm, logits in chunks of rows, loss
template <class T>
struct Head {
    Norm<T> norm;
    const T* table = nullptr;  // [padded V, C]: the token table when tied
    T* d_table = nullptr;
    i64 C = 0, vocab = 0, padded_vocab = 0;
    i64 logits_rows = 0;
    Range norm_range, table_range;  // table_range empty when tied: final only after the embedding's part
};
template <class T>
struct HeadSaved {
    T* mean;    // [rows]
    T* rstd;    // [rows]
    T* norm;    // [rows, C]
    T* logits;  // [logits_rows, padded V] workspace
};
// Sum of the unmasked losses of the micro-batch; nothing else is written.
template <class T>
double head_evaluate(Stream stream, const Head<T>& head, const HeadSaved<T>& saved, const Batch& batch);
// The same and the gradient: d [rows, C] (overwritten) of the residual stream behind the last block.
template <class T>
double head_backward(Stream stream, const Head<T>& head, T* d, const T* x, const HeadSaved<T>& saved,
                     const Batch& batch, double loss_scale, const Ready& ready);
// logits [rows, vocab], stride padded_vocab, of normed rows.
template <class T>
void head_logits(Stream stream, const Head<T>& head, T* logits, const T* norm, i64 rows);

// ---- the layers of a stage bound to this rank's flat buffers (model/bind.cpp)
template <class T>
struct StageLayers {
    Embedding<T> embedding;
    std::vector<Block<T>> blocks;
    Head<T> head;
};
// `gradients` empty: inference, every gradient pointer null. logits_rows is left 0.
template <class T>
StageLayers<T> bind_layers(const ModelConfig& model, const StageSpan& span, const ParameterLayout& layout,
                           std::span<const T> weights, std::span<T> gradients);

}  // namespace ogrom
