// What model: the fields that decide every tensor's shape. Values beyond GPT-2 have names and are refused by name.
// Letters used everywhere: B micro-batch, T sequence, C hidden, H heads, D head size, V vocabulary, L layers, F ffn.
#pragma once
#include <string>

#include "kernels/common/extents.h"

namespace ogrom {

enum class NormKind { layer, rms };
enum class PositionKind { learned, rope, none };
enum class MlpKind { gelu, swiglu };
enum class HeadKind { language };

struct ModelConfig {
    i64 layers = 0;        // L
    i64 hidden = 0;        // C
    i64 heads = 0;         // H
    i64 kv_heads = 0;      // = heads unless given
    i64 head_dim = 0;      // D = hidden / heads unless given
    i64 ffn_hidden = 0;    // F = 4 * hidden unless given
    i64 vocab = 0;         // V, the true vocabulary
    i64 padded_vocab = 0;  // stored rows: vocab rounded up to vocab_multiple
    i64 vocab_multiple = 64;
    i64 sequence = 0;  // T, the longest sequence (rows of the position table)
    bool tied = true;  // head shares the token table
    bool bias = true;  // linear layers and norms carry biases
    NormKind norm = NormKind::layer;
    PositionKind position = PositionKind::learned;
    MlpKind mlp = MlpKind::gelu;
    HeadKind head = HeadKind::language;
    double norm_epsilon = 1e-5;
    double dropout_embedding = 0, dropout_attention = 0, dropout_residual = 0;
    double init_std = 0.02;  // residual projections: init_std / sqrt(2 L)
};

// Which layers a pipeline stage's chunk owns: [first, last). Embedding on the first, final norm and head on the last.
struct StageSpan {
    i64 stage = 0, chunk = 0;
    i64 first_layer = 0, last_layer = 0;
    bool embeds = true, heads = true;
};

}  // namespace ogrom
