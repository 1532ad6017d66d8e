// The table of activations: every tensor that a stage keeps between forward and backward, and every workspace that its
// calls share. Ledger lines (Stage::declare) and pointers (ActivationSet) are both derived from it. Letters: S slots of
// a chunk, L its layers, W weight slots, B T C H D V F as in config/model.h, K key heads; tp where tensor ranks split.
//
// Which copy of a row a layer uses is decided here alone (CopyMap): a kept row has one copy per slot and layer; a row
// that backward makes again has a scratch copy that all such layers share, or one per weight slot and layer where the
// weight half of a split backward pass reads what the input half made.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/common/dtype.h"
#include "kernels/common/error.h"

#include "src/config/model.h"
#include "src/device/arena.h"
#include "src/device/ledger.h"
#include "src/model/stage.h"

namespace ogrom {

enum class ActivationName {
    // per slot and layer (`residual` has one more: the output of the last block)
    residual,       // [B, T, C] input of the block
    norm1_mean,     // [B, T]
    norm1_rstd,     // [B, T]
    norm1,          // [B, T, C]
    qkv,            // [B, T, (H + 2 K) D]
    attention,      // [B, T, H D]
    attention_lse,  // [B, H, T]
    middle,         // [B, T, C] residual stream between attention and MLP
    norm2_mean,     // [B, T]
    norm2_rstd,     // [B, T]
    norm2,          // [B, T, C]
    up,             // [B, T, F] with its bias
    gelu,           // [B, T, F]
    // per weight slot and layer: from the input half of a split backward pass to the weight half
    kept_d_attention,  // [B, T, C] gradient of the attention branch's output
    kept_d_qkv,        // [B, T, (H + 2 K) D]
    kept_d_mlp,        // [B, T, C]
    kept_d_up,         // [B, T, F]
    kept_d_small,      // [6, C] gradients of norms and of biases behind row-parallel products
    fp8_scales,        // [4, 8] per slot and layer: kernels/ops/linear_fp8.h, LinearFp8Scales of each linear layer
    // one copy per gradient buffer
    d_residual,  // [B, T, C] gradient of the residual stream
    // workspaces, one copy
    d_branch,             // [B, T, C] the same behind dropout; only where dropout_residual > 0
    d_narrow,             // [B, T, max(C, H D)]
    d_wide,               // [B, T, max(F, (H + 2 K) D)]
    gathered,             // [B, T, C] of all positions; only where the sequence is split
    final_mean,           // [B, T]; this and what follows up to head_sums only with the head
    final_rstd,           // [B, T]
    logits,               // [logits_rows, padded V]
    head_max,             // [logits_rows]; only with tensor ranks
    head_sums,            // [2, logits_rows] in double; likewise
    attention_workspace,  // kernels/ops/attention.h
    tensor_scratch,       // fixed order of sums over tensor ranks
    fp8_workspace,        // operands in fp8 of one linear layer
    count
};

struct Extent {
    std::string letters;
    i64 value = 0;
};

// Where a layer stands: chunk of the stage, activation slot, layer counted from the chunk's first, weight slot.
struct CopyPlace {
    i64 chunk = 0, slot = 0, layer = 0;
    i64 weight_slot = -1;  // -1: a pass whose rows nobody waits for (forward, unsplit backward)
};

// From a place to the number of the copy.
struct CopyMap {
    struct Chunk {
        i64 first = 0, per_slot = 0, slots = 0;  // kept copies of the chunk
        std::vector<i64> place;                  // of each layer, among the kept or among the others
        std::vector<bool> kept;
    };
    std::vector<Chunk> chunks;  // empty: no slots and layers, `place.slot` is the number
    i64 scratch = 0;            // first copy that is not kept
    i64 per_weight_slot = 0;    // copies of a weight slot; 0: one copy for all
    i64 passing = 0;            // copy of passes without a weight slot: a waiting one must not be overwritten
    i64 count = 0;              // of all copies
    std::string letters;        // of the formula of `count`
    [[nodiscard]] i64 at(const CopyPlace& place) const;
};

struct Activation {
    ActivationName id = ActivationName::count;
    std::string name;  // of the ledger line
    CopyMap copies;
    std::vector<Extent> extents;  // of one copy
    Dtype type = Dtype::fp32;

    [[nodiscard]] i64 elements() const;  // of one copy
    [[nodiscard]] i64 stride() const;    // elements from one copy to the next: rounded up to 64 bytes
    [[nodiscard]] i64 bytes() const;     // of all copies
    [[nodiscard]] std::string formula() const;
};

// Throws Error(usage) where heads or positions cannot be split over the tensor ranks.
std::vector<Activation> make_activations(const ModelConfig& model, const StageShape& shape, Dtype compute);

// The memory of the table, taken from the arena line by line.
template <class T>
class ActivationSet {
public:
    ActivationSet(const std::vector<Activation>& table, Arena& arena);
    [[nodiscard]] T* at(ActivationName name, const CopyPlace& place = {}) const { return of<T>(name, place); }
    // Rows of statistics and of small gradients, which 16 bits are too coarse for.
    [[nodiscard]] StatisticOf<T>* statistic(ActivationName name, const CopyPlace& place = {}) const {
        return of<StatisticOf<T>>(name, place);
    }
    // Null where the table has no such row.
    [[nodiscard]] std::byte* find(ActivationName name) const { return row(name).base; }

private:
    struct Row {
        std::byte* base = nullptr;
        i64 stride = 0;  // bytes
        CopyMap copies;
        Dtype type = Dtype::fp32;
    };
    [[nodiscard]] const Row& row(ActivationName name) const { return rows_[static_cast<std::size_t>(name)]; }
    template <class Element>
    [[nodiscard]] Element* of(ActivationName name, const CopyPlace& place) const {
        const Row& found = row(name);
        OGROM_ASSERT(found.base != nullptr && found.type == dtype_of<Element>());
        return reinterpret_cast<Element*>(found.base + found.copies.at(place) * found.stride);
    }
    std::vector<Row> rows_;
};

}  // namespace ogrom
