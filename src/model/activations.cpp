#include "src/model/activations.h"

#include <algorithm>
#include <fmt/format.h>

#include "kernels/common/error.h"
#include "kernels/ops/attention.h"

namespace ogrom {
namespace {

constexpr i64 line_bytes = 64;  // of a cache line: no two copies share one

i64 product(const std::vector<Extent>& extents) {
    i64 n = 1;
    for (const Extent& extent : extents) {
        n *= extent.value;
    }
    return n;
}

// Elements of the attention workspace for the largest micro-batch.
i64 attention_elements(const ModelConfig& model, const StageExtents& extents) {
    ops::AttentionShape shape{};
    shape.batch = extents.micro_batch;
    shape.queries = shape.keys = extents.sequence;
    shape.heads = shape.heads_total = model.heads;
    shape.kv_heads = model.kv_heads;
    shape.head_dim = model.head_dim;
    return ops::attention_workspace(shape, extents.threads);
}

}  // namespace

i64 Activation::elements() const {
    return product(extents);
}
i64 Activation::stride() const {
    return round_up(elements() * size_of(type), line_bytes) / size_of(type);
}
i64 Activation::bytes() const {
    return product(copies) * stride() * size_of(type);
}
std::string Activation::formula() const {
    std::string text;
    for (const std::vector<Extent>* part : {&copies, &extents}) {
        for (const Extent& extent : *part) {
            text += extent.letters + " ";
        }
    }
    return text + fmt::format("* {}", size_of(type));
}

std::vector<Activation> make_activations(const ModelConfig& model, const StageSpan& span, const StageExtents& extents,
                                         Dtype compute) {
    const i64 qkv_columns = (model.heads + 2 * model.kv_heads) * model.head_dim;
    const i64 query_columns = model.heads * model.head_dim;
    const Extent S{"S", extents.slots};
    const Extent L{"L", span.last_layer - span.first_layer};
    const Extent L1{"(L+1)", span.last_layer - span.first_layer + 1};
    const Extent one{"1", 1};
    const Extent B{"B", extents.micro_batch};
    const Extent T{"(T/cp)", extents.sequence};
    const Extent C{"C", model.hidden};
    const Extent F{"F", model.ffn_hidden};
    const Extent H{"H", model.heads};
    const Extent query{"(H D)", query_columns};
    const Extent qkv{"((H+2K) D)", qkv_columns};
    std::vector<Activation> table;
    const auto add = [&](ActivationName id, const char* name, std::vector<Extent> copies, std::vector<Extent> shape) {
        table.push_back({id, name, std::move(copies), std::move(shape), compute});
    };
    using A = ActivationName;
    add(A::residual, "activations.residual", {S, L1}, {B, T, C});
    add(A::norm1_mean, "activations.norm1_mean", {S, L}, {B, T});
    add(A::norm1_rstd, "activations.norm1_rstd", {S, L}, {B, T});
    add(A::norm1, "activations.norm1", {S, L}, {B, T, C});
    add(A::qkv, "activations.qkv", {S, L}, {B, T, qkv});
    add(A::attention, "activations.attention", {S, L}, {B, T, query});
    add(A::attention_lse, "activations.attention_lse", {S, L}, {B, H, T});
    add(A::middle, "activations.middle", {S, L}, {B, T, C});
    add(A::norm2_mean, "activations.norm2_mean", {S, L}, {B, T});
    add(A::norm2_rstd, "activations.norm2_rstd", {S, L}, {B, T});
    add(A::norm2, "activations.norm2", {S, L}, {B, T, C});
    add(A::up, "activations.up", {S, L}, {B, T, F});
    add(A::gelu, "activations.gelu", {S, L}, {B, T, F});
    add(A::final_mean, "activations.final_mean", {S, one}, {B, T});
    add(A::final_rstd, "activations.final_rstd", {S, one}, {B, T});
    add(A::final_norm, "activations.final_norm", {S, one}, {B, T, C});
    add(A::d_residual, "workspace.d_residual", {one, one}, {B, T, C});
    if (model.dropout_residual > 0) {
        add(A::d_branch, "workspace.d_branch", {one, one}, {B, T, C});
    }
    add(A::d_narrow, "workspace.d_narrow", {one, one}, {B, T, {"max(C,H D)", std::max(model.hidden, query_columns)}});
    add(A::d_wide, "workspace.d_wide", {one, one},
        {B, T, {"max(F,(H+2K) D)", std::max(model.ffn_hidden, qkv_columns)}});
    add(A::logits, "workspace.logits", {one, one},
        {{"logits_rows", extents.logits_rows}, {"padded V", model.padded_vocab}});
    add(A::attention_workspace, "workspace.attention", {one, one},
        {{"attention_workspace(B,T,H,D,threads)", std::max<i64>(1, attention_elements(model, extents))}});
    return table;
}

template <class T>
ActivationSet<T>::ActivationSet(const std::vector<Activation>& table, Arena& arena)
    : rows_(static_cast<std::size_t>(ActivationName::count)) {
    for (const Activation& row : table) {
        OGROM_ASSERT(row.type == dtype_of<T>());
        const std::span<T> memory = arena.take<T>(row.name);
        OGROM_ASSERT(static_cast<i64>(memory.size()) == product(row.copies) * row.stride());
        rows_[static_cast<std::size_t>(row.id)] = {memory.data(), row.stride(), row.copies[0].value,
                                                   row.copies[1].value};
    }
}

template <class T>
T* ActivationSet<T>::find(ActivationName name) const {
    return rows_[static_cast<std::size_t>(name)].base;
}

template <class T>
T* ActivationSet<T>::at(ActivationName name, i64 slot, i64 layer) const {
    const Row& row = rows_[static_cast<std::size_t>(name)];
    OGROM_ASSERT(row.base != nullptr && slot >= 0 && slot < row.slots && layer >= 0 && layer < row.layers);
    return row.base + (slot * row.layers + layer) * row.stride;
}

template class ActivationSet<float>;
template class ActivationSet<double>;

}  // namespace ogrom
