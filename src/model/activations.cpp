#include "src/model/activations.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "kernels/common/error.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/linear_fp8.h"

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

// How long the rows of a layer live; the one place where that is decided.
enum class Life {
    slot,     // from forward to backward, whatever is made again
    forward,  // kept unless the block is made again
    weights,  // the same, and the weight half reads it
    norm,     // kept unless anything is made again, by the half that has the weights; the weight half reads it
    gelu,     // the same, but made again by the weight half while its input is kept
    weight_slot,
};
bool kept(Life life, Recompute recompute) {
    switch (life) {
        case Life::slot:
            return true;
        case Life::forward:
        case Life::weights:
            return recompute != Recompute::full;
        case Life::norm:
        case Life::gelu:
            return recompute == Recompute::none;
        case Life::weight_slot:
            return false;
    }
    return true;
}

// Whether what one half of a split backward pass makes again is read by the other.
bool crosses_halves(Life life, Recompute recompute) {
    const bool read = life == Life::weights || life == Life::gelu;
    return life == Life::weight_slot || life == Life::norm || (recompute == Recompute::full && read);
}

std::string subscript(const StageShape& shape, const char* letter, std::size_t chunk) {
    return shape.spans.size() == 1 ? letter : fmt::format("{}{}", letter, chunk);
}

// "a", "(a + b)"
std::string sum_text(const std::vector<std::string>& terms) {
    return terms.size() == 1 ? terms[0] : fmt::format("({})", fmt::join(terms, " + "));
}

CopyMap copies_of(Life life, const StageShape& shape) {
    const i64 W = shape.extents.weight_slots;
    CopyMap map;
    std::vector<std::string> terms;
    i64 again = 0;  // most layers of a chunk that are made again
    for (std::size_t c = 0; c < shape.spans.size(); ++c) {
        CopyMap::Chunk chunk;
        chunk.first = map.count;
        chunk.slots = shape.extents.slots[c];
        i64 others = 0;
        const i64 layers = shape.spans[c].last_layer - shape.spans[c].first_layer;
        for (i64 layer = 0; layer < layers; ++layer) {
            chunk.kept.push_back(kept(life, recompute_of(shape, shape.spans[c].first_layer + layer)));
            chunk.place.push_back(chunk.kept.back() ? chunk.per_slot++ : others++);
        }
        if (chunk.per_slot > 0) {
            const char* some = others > 0 ? "Lk" : "L";
            terms.push_back(fmt::format("{} {}", subscript(shape, "S", c), subscript(shape, some, c)));
        }
        again = std::max(again, others);
        map.count += chunk.slots * chunk.per_slot;
        map.chunks.push_back(std::move(chunk));
    }
    map.scratch = map.count;
    if (again > 0) {
        const bool crosses = W > 0 && crosses_halves(life, shape.recompute);
        map.per_weight_slot = crosses ? again : 0;
        map.passing = map.scratch + (crosses ? W * again : 0);
        const bool passes = life != Life::weight_slot;  // rows that a forward pass writes too
        map.count += (crosses ? W * again : 0) + (passes ? 1 : 0);
        terms.emplace_back(crosses ? (passes ? "W L + 1" : "W L") : "1");
    }
    map.letters = terms.empty() ? "0" : sum_text(terms);
    return map;
}

// Inputs of the blocks and the output of the last one, of every slot.
CopyMap residual_copies(const StageShape& shape) {
    CopyMap map;
    std::vector<std::string> terms;
    for (std::size_t c = 0; c < shape.spans.size(); ++c) {
        CopyMap::Chunk chunk;
        chunk.first = map.count;
        chunk.slots = shape.extents.slots[c];
        chunk.per_slot = shape.spans[c].last_layer - shape.spans[c].first_layer + 1;
        for (i64 layer = 0; layer < chunk.per_slot; ++layer) {
            chunk.kept.push_back(true);
            chunk.place.push_back(layer);
        }
        terms.push_back(fmt::format("{} ({}+1)", subscript(shape, "S", c), subscript(shape, "L", c)));
        map.count += chunk.slots * chunk.per_slot;
        map.chunks.push_back(std::move(chunk));
    }
    map.letters = sum_text(terms);
    return map;
}

CopyMap numbered(i64 count, const char* letters) {
    CopyMap map;
    map.count = count;
    map.letters = letters;
    return map;
}

void check(const ModelConfig& model, const StageShape& shape) {
    const i64 tp = shape.tensor.size;
    OGROM_ASSERT(!shape.spans.empty() && shape.extents.slots.size() == shape.spans.size());
    for (std::size_t c = 0; c < shape.spans.size(); ++c) {
        OGROM_ASSERT(shape.spans[c].chunk == static_cast<i64>(c) && shape.extents.slots[c] >= 1);
    }
    require(model.heads % tp == 0 && model.kv_heads % tp == 0, ExitCode::usage,
            fmt::format("model.heads = {} and model.kv_heads = {} cannot be split over parallel.tensor = {} ranks",
                        model.heads, model.kv_heads, tp));
    require(
        shape.sequence == Sequence::whole || shape.extents.sequence % tp == 0, ExitCode::usage,
        fmt::format("{} positions cannot be split over parallel.tensor = {} ranks: sequence_parallel needs a multiple",
                    shape.extents.sequence, tp));
}

// Elements of the attention workspace for the largest micro-batch.
i64 attention_elements(const ModelConfig& model, const StageShape& shape) {
    ops::AttentionShape attention{};
    attention.batch = shape.extents.micro_batch;
    attention.queries = attention.keys = shape.extents.sequence;
    attention.heads = model.heads / shape.tensor.size;
    attention.heads_total = model.heads;
    attention.kv_heads = model.kv_heads / shape.tensor.size;
    attention.head_dim = model.head_dim;
    return ops::attention_workspace(attention, shape.backend, shape.extents.threads);
}

// Rows that are kept in StatisticOf the type of the others.
bool is_statistic(ActivationName id) {
    using A = ActivationName;
    switch (id) {
        case A::norm1_mean:
        case A::norm1_rstd:
        case A::attention_lse:
        case A::norm2_mean:
        case A::norm2_rstd:
        case A::kept_d_small:
        case A::fp8_scales:
        case A::final_mean:
        case A::final_rstd:
        case A::head_max:
        case A::attention_workspace:
            return true;
        default:
            return false;
    }
}

// Writes the rows of the table. Extents of this rank, each with its letters.
class TableWriter {
public:
    TableWriter(const ModelConfig& model, const StageShape& shape, Dtype compute)
        : model_(model), shape_(shape), compute_(compute), statistic_(has_16_bits(compute) ? Dtype::fp32 : compute) {
        const i64 tp = shape.tensor.size;
        const char* over = tp > 1 ? "/tp" : "";
        const bool split = tp > 1 && shape.sequence == Sequence::split;
        const i64 heads = model.heads / tp;
        const i64 query_columns = heads * model.head_dim;
        const i64 qkv_columns = (model.heads + 2 * model.kv_heads) / tp * model.head_dim;
        const i64 ffn = model.ffn_hidden / tp;
        B = {"B", shape.extents.micro_batch};
        T = {"(T/cp)", shape.extents.sequence};
        part = split ? Extent{"(T/tp)", shape.extents.sequence / tp} : T;
        C = {"C", model.hidden};
        F = {tp > 1 ? "(F/tp)" : "F", ffn};
        H = {tp > 1 ? "(H/tp)" : "H", heads};
        query = {fmt::format("(H D{})", over), query_columns};
        qkv = {fmt::format("((H+2K) D{})", over), qkv_columns};
        narrow = {fmt::format("max(C,H D{})", over), std::max(model.hidden, query_columns)};
        wide = {tp > 1 ? "max(F,(H+2K) D)/tp" : "max(F,(H+2K) D)", std::max(ffn, qkv_columns)};
        V = {fmt::format("padded V{}", over), model.padded_vocab / tp};
        logits_rows = {"logits_rows", shape.extents.logits_rows};
    }
    void layer_rows() {
        using A = ActivationName;
        add(A::residual, "activations.residual", residual_copies(shape_), {B, part, C});
        layer(A::norm1_mean, "activations.norm1_mean", Life::forward, {B, part});
        layer(A::norm1_rstd, "activations.norm1_rstd", Life::forward, {B, part});
        layer(A::norm1, "activations.norm1", Life::norm, {B, part, C});
        layer(A::qkv, "activations.qkv", Life::forward, {B, T, qkv});
        layer(A::attention, "activations.attention", Life::weights, {B, T, query});
        layer(A::attention_lse, "activations.attention_lse", Life::forward, {B, H, T});
        layer(A::middle, "activations.middle", Life::forward, {B, part, C});
        layer(A::norm2_mean, "activations.norm2_mean", Life::forward, {B, part});
        layer(A::norm2_rstd, "activations.norm2_rstd", Life::forward, {B, part});
        layer(A::norm2, "activations.norm2", Life::norm, {B, part, C});
        layer(A::up, "activations.up", Life::forward, {B, T, F});
        layer(A::gelu, "activations.gelu", Life::gelu, {B, T, F});
        if (shape_.linears == LinearProducts::fp8) {
            static_assert(sizeof(ops::LinearFp8Scales) == 8 * sizeof(float));
            layer(A::fp8_scales, "activations.fp8_scales", Life::slot, {{"4", 4}, {"8", 8}});
        }
        if (shape_.extents.weight_slots > 0) {
            layer(A::kept_d_attention, "activations.kept_d_attention", Life::weight_slot, {B, T, C});
            layer(A::kept_d_qkv, "activations.kept_d_qkv", Life::weight_slot, {B, T, qkv});
            layer(A::kept_d_mlp, "activations.kept_d_mlp", Life::weight_slot, {B, T, C});
            layer(A::kept_d_up, "activations.kept_d_up", Life::weight_slot, {B, T, F});
            layer(A::kept_d_small, "activations.kept_d_small", Life::weight_slot, {{"6", 6}, C});
        }
    }
    void workspaces() {
        using A = ActivationName;
        const i64 buffers = shape_.extents.gradient_buffers;
        add(A::d_residual, "workspace.d_residual", numbered(buffers, buffers == 1 ? "1" : "buffers"), {B, part, C});
        if (model_.dropout_residual > 0) {
            one(A::d_branch, "workspace.d_branch", {B, part, C});
        }
        one(A::d_narrow, "workspace.d_narrow", {B, T, narrow});
        one(A::d_wide, "workspace.d_wide", {B, T, wide});
        if (part.value != T.value) {
            one(A::gathered, "workspace.gathered", {B, T, C});
        }
        if (std::any_of(shape_.spans.begin(), shape_.spans.end(), [](const StageSpan& span) { return span.heads; })) {
            head_rows();
        }
        one(A::attention_workspace, "workspace.attention",
            {{"attention_workspace(B,T,H,D,threads)", std::max<i64>(1, attention_elements(model_, shape_))}});
        if (shape_.linears == LinearProducts::fp8) {
            one(A::fp8_workspace, "workspace.fp8",
                {{"operands of a linear layer in fp8", ceil_div(fp8_bytes(), size_of(compute_))}});
        }
        if (shape_.tensor.size > 1 && shape_.reduce_order == ReduceOrder::fixed) {
            const i64 element = size_of(compute_);
            const i64 bytes =
                tensor_scratch_bytes(B.value * T.value * C.value, element, logits_rows.value, shape_.tensor.size);
            one(A::tensor_scratch, "workspace.tensor_scratch",
                {{"contributions of tensor ranks", ceil_div(bytes, element)}});
        }
    }
    std::vector<Activation> finish() { return std::move(table_); }

private:
    [[nodiscard]] i64 fp8_bytes() const {
        i64 bytes = 0;
        for (const BlockLinear& linear : block_linears(model_, shape_.tensor.size)) {
            bytes = std::max(bytes, ops::linear_fp8_workspace(B.value * T.value, linear.in, linear.out));
        }
        return bytes;
    }
    void head_rows() {
        using A = ActivationName;
        one(A::final_mean, "workspace.final_mean", {B, part});
        one(A::final_rstd, "workspace.final_rstd", {B, part});
        one(A::logits, "workspace.logits", {logits_rows, V});
        if (shape_.tensor.size > 1) {
            one(A::head_max, "workspace.head_max", {logits_rows});
            const i64 words = size_of(Dtype::fp64) / size_of(compute_);
            one(A::head_sums, "workspace.head_sums", {{"2", 2}, logits_rows, {fmt::format("{}", words), words}});
        }
    }
    void add(ActivationName id, const char* name, CopyMap copies, std::vector<Extent> extents) {
        table_.push_back({id, name, std::move(copies), std::move(extents), is_statistic(id) ? statistic_ : compute_});
    }
    void layer(ActivationName id, const char* name, Life life, std::vector<Extent> extents) {
        CopyMap copies = copies_of(life, shape_);
        if (copies.count > 0) {  // a stage without blocks has none
            add(id, name, std::move(copies), std::move(extents));
        }
    }
    void one(ActivationName id, const char* name, std::vector<Extent> extents) {
        add(id, name, numbered(1, "1"), std::move(extents));
    }

    const ModelConfig& model_;
    const StageShape& shape_;
    Dtype compute_, statistic_;
    Extent B, T, part, C, F, H, query, qkv, narrow, wide, V, logits_rows;
    std::vector<Activation> table_;
};

}  // namespace

std::array<BlockLinear, 4> block_linears(const ModelConfig& model, int tensor) {
    const i64 query_columns = model.heads / tensor * model.head_dim;
    const i64 key_columns = model.kv_heads / tensor * model.head_dim;
    const i64 ffn = model.ffn_hidden / tensor;
    return {{{"query, key and value", model.hidden, query_columns + 2 * key_columns},
             {"attention's output", query_columns, model.hidden},
             {"MLP up", model.hidden, ffn},
             {"MLP down", ffn, model.hidden}}};
}

Recompute recompute_of(const StageShape& shape, i64 layer) {
    const bool skipped = shape.recompute == Recompute::full && layer % shape.recompute_interval != 0;
    return skipped ? Recompute::none : shape.recompute;
}

i64 CopyMap::at(const CopyPlace& place) const {
    if (chunks.empty()) {
        OGROM_ASSERT(place.slot >= 0 && place.slot < count);
        return place.slot;
    }
    OGROM_ASSERT(place.chunk >= 0 && place.chunk < static_cast<i64>(chunks.size()));
    const Chunk& chunk = chunks[static_cast<std::size_t>(place.chunk)];
    OGROM_ASSERT(place.slot >= 0 && place.slot < chunk.slots && place.layer >= 0 &&
                 place.layer < static_cast<i64>(chunk.place.size()));
    const auto layer = static_cast<std::size_t>(place.layer);
    const bool waits = per_weight_slot > 0 && place.weight_slot >= 0;
    const i64 index = chunk.kept[layer] ? chunk.first + place.slot * chunk.per_slot + chunk.place[layer]
                      : waits           ? scratch + place.weight_slot * per_weight_slot + chunk.place[layer]
                                        : passing;
    OGROM_ASSERT(index >= 0 && index < count);
    return index;
}

i64 Activation::elements() const {
    return product(extents);
}
i64 Activation::stride() const {
    return round_up(elements() * size_of(type), line_bytes) / size_of(type);
}
i64 Activation::bytes() const {
    return copies.count * stride() * size_of(type);
}
std::string Activation::formula() const {
    std::string text = copies.letters + " ";
    for (const Extent& extent : extents) {
        text += extent.letters + " ";
    }
    return text + fmt::format("* {}", size_of(type));
}

std::vector<Activation> make_activations(const ModelConfig& model, const StageShape& shape, Dtype compute) {
    check(model, shape);
    TableWriter writer(model, shape, compute);
    writer.layer_rows();
    writer.workspaces();
    return writer.finish();
}

template <class T>
ActivationSet<T>::ActivationSet(const std::vector<Activation>& table, Arena& arena)
    : rows_(static_cast<std::size_t>(ActivationName::count)) {
    for (const Activation& row : table) {
        OGROM_ASSERT(row.type == dtype_of<T>() || row.type == dtype_of<StatisticOf<T>>());
        const std::span<std::byte> memory = arena.take<std::byte>(row.name);
        const i64 stride = row.stride() * size_of(row.type);
        OGROM_ASSERT(static_cast<i64>(memory.size()) == row.copies.count * stride);
        rows_[static_cast<std::size_t>(row.id)] = {memory.data(), stride, row.copies, row.type};
    }
}

template class ActivationSet<float>;
template class ActivationSet<double>;
template class ActivationSet<Bf16>;
template class ActivationSet<Fp16>;

}  // namespace ogrom
