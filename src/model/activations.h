// The table of activations: every tensor that a stage keeps between forward and backward (one copy per layer and slot),
// and every workspace that its calls share. Ledger lines (Stage::declare) and pointers (ActivationSet) are both derived
// from it. Letters: S slots, L layers of the stage, B T C H D V F as in config/model.h, K key heads; T is T/cp.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "kernels/common/dtype.h"

#include "src/config/model.h"
#include "src/device/arena.h"
#include "src/device/ledger.h"
#include "src/model/stage.h"

namespace ogrom {

enum class ActivationName {
    // saved, one copy per slot and layer (`residual` has one more: the output of the last block)
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
    // saved, one copy per slot
    final_mean,  // [B, T]
    final_rstd,  // [B, T]
    final_norm,  // [B, T, C]
    // workspaces, one copy
    d_residual,           // [B, T, C] gradient of the residual stream
    d_branch,             // [B, T, C] the same behind dropout; only where dropout_residual > 0
    d_narrow,             // [B, T, max(C, H D)]
    d_wide,               // [B, T, max(F, (H + 2 K) D)]
    logits,               // [logits_rows, padded V]
    attention_workspace,  // kernels/ops/attention.h
    count
};

struct Extent {
    std::string letters;
    i64 value = 0;
};

struct Activation {
    ActivationName id = ActivationName::count;
    std::string name;             // of the ledger line
    std::vector<Extent> copies;   // slots, layers
    std::vector<Extent> extents;  // of one copy
    Dtype type = Dtype::fp32;

    [[nodiscard]] i64 elements() const;  // of one copy
    [[nodiscard]] i64 stride() const;    // elements from one copy to the next: rounded up to 64 bytes
    [[nodiscard]] i64 bytes() const;     // of all copies
    [[nodiscard]] std::string formula() const;
};

std::vector<Activation> make_activations(const ModelConfig& model, const StageSpan& span, const StageExtents& extents,
                                         Dtype compute);

// The memory of the table, taken from the arena line by line.
template <class T>
class ActivationSet {
public:
    ActivationSet(const std::vector<Activation>& table, Arena& arena);
    // Copy of `layer` (counted from the stage's first) in `slot`; workspaces have slot = layer = 0.
    [[nodiscard]] T* at(ActivationName name, i64 slot = 0, i64 layer = 0) const;
    // Null where the table has no such row.
    [[nodiscard]] T* find(ActivationName name) const;

private:
    struct Row {
        T* base = nullptr;
        i64 stride = 0, slots = 0, layers = 0;
    };
    std::vector<Row> rows_;
};

}  // namespace ogrom
