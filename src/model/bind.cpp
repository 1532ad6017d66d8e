#include "src/model/bind.h"

#include <algorithm>
#include <fmt/format.h>

namespace ogrom {
namespace {

i64 place_of(const ParameterLayout& layout, const Unit& unit, const std::string& name) {
    return layout.tensor(name).offset - unit.weights[0].first;
}

template <class T>
T* behind(T* start, i64 elements) {
    return start == nullptr || elements < 0 ? nullptr : start + elements;
}

}  // namespace

template <class T>
UnitBinder<T>::UnitBinder(const ModelConfig& model, const ParameterLayout& layout)
    : model_(model), part_(layout.part()) {
    require(model.heads % part_.size == 0 && model.kv_heads % part_.size == 0, ExitCode::usage,
            fmt::format("model.heads = {} and model.kv_heads = {} cannot be split over parallel.tensor = {} ranks",
                        model.heads, model.kv_heads, part_.size));
    bool have_block = false;
    for (const Unit& unit : layout.units()) {
        if (unit.kind == UnitKind::embedding) {
            OGROM_ASSERT(place_of(layout, unit, "embedding.token.weight") == 0);
            position_table_ = place_of(layout, unit, "embedding.position.weight");
        } else if (unit.kind == UnitKind::head) {
            find_head(layout, unit);
        } else if (!have_block) {
            have_block = true;
            find_block(layout, unit);
        }
    }
}

template <class T>
void UnitBinder<T>::find_block(const ParameterLayout& layout, const Unit& unit) {
    const std::string prefix = fmt::format("block.{}.", unit.layer);
    const auto place = [&](const char* name) {
        const std::string full = prefix + name;
        return Place{place_of(layout, unit, full + ".weight"),
                     model_.bias ? place_of(layout, unit, full + ".bias") : -1};
    };
    norm1_ = place("norm1");
    qkv_ = place("attention.query");
    out_ = place("attention.out");
    norm2_ = place("norm2");
    up_ = place("mlp.up");
    down_ = place("mlp.down");
    // One product of q, k and v needs their weights, and their biases, without a gap.
    const LocalTensor& value = layout.tensor(prefix + "attention.value.weight");
    const i64 columns = (model_.heads + 2 * model_.kv_heads) * model_.head_dim / part_.size;
    OGROM_ASSERT(unit.weights[0].first + qkv_.weight + columns * model_.hidden == value.offset + value.count);
}

template <class T>
void UnitBinder<T>::find_head(const ParameterLayout& layout, const Unit& unit) {
    final_norm_ = {place_of(layout, unit, "final_norm.weight"),
                   model_.bias ? place_of(layout, unit, "final_norm.bias") : -1};
    head_range_ = unit.weights.size() - 1;
    head_table_ = head_range_ == 1 ? 0 : place_of(layout, unit, "head.weight");
}

template <class T>
Norm<T> UnitBinder<T>::norm(const UnitPointers<T>& at, Place place) const {
    return {behind(at.weights[0], place.weight),
            behind(at.weights[0], place.bias),
            behind(at.gradients[0], place.weight),
            behind(at.gradients[0], place.bias),
            model_.hidden,
            model_.norm_epsilon};
}

template <class T>
Linear<T> UnitBinder<T>::linear(const UnitPointers<T>& at, Place place, i64 out, i64 in) const {
    return {behind(at.weights[0], place.weight),
            behind(at.weights[0], place.bias),
            behind(at.gradients[0], place.weight),
            behind(at.gradients[0], place.bias),
            out,
            in};
}

template <class T>
Embedding<T> UnitBinder<T>::embedding(const UnitPointers<T>& at) const {
    const i64 rows = model_.padded_vocab / part_.size;
    return {at.weights[0],     behind(at.weights[0], position_table_),
            at.gradients[0],   behind(at.gradients[0], position_table_),
            model_.hidden,     model_.vocab,
            rows * part_.rank, rows};
}

template <class T>
Block<T> UnitBinder<T>::block(const UnitPointers<T>& at, i64 layer) const {
    const i64 heads = model_.heads / part_.size;
    const i64 kv_heads = model_.kv_heads / part_.size;
    const i64 query_columns = heads * model_.head_dim;
    const i64 ffn = model_.ffn_hidden / part_.size;
    Block<T> block;
    block.attention = {layer,
                       heads,
                       kv_heads,
                       model_.head_dim,
                       model_.heads,
                       heads * part_.rank,
                       norm(at, norm1_),
                       linear(at, qkv_, query_columns + 2 * kv_heads * model_.head_dim, model_.hidden),
                       linear(at, out_, model_.hidden, query_columns)};
    block.mlp = {layer, norm(at, norm2_), linear(at, up_, ffn, model_.hidden), linear(at, down_, model_.hidden, ffn)};
    return block;
}

template <class T>
Head<T> UnitBinder<T>::head(const UnitPointers<T>& at, i64 logits_rows) const {
    const i64 padded = model_.padded_vocab / part_.size;
    const i64 first = padded * part_.rank;
    return {norm(at, final_norm_),
            behind(at.weights[head_range_], head_table_),
            behind(at.gradients[head_range_], head_table_),
            model_.hidden,
            model_.vocab,
            first,
            std::clamp<i64>(model_.vocab - first, 0, padded),
            padded,
            logits_rows};
}

template <class T>
UnitPointers<T> pointers_in(const Unit& unit, const T* weights, GradientOf<T>* gradients) {
    UnitPointers<T> at;
    for (std::size_t r = 0; r < unit.weights.size(); ++r) {
        at.weights[r] = weights + unit.weights[r].first;
        at.gradients[r] = gradients == nullptr ? nullptr : gradients + unit.gradients[r].first;
    }
    return at;
}

template class UnitBinder<float>;
template class UnitBinder<double>;
template class UnitBinder<Bf16>;
template class UnitBinder<Fp16>;
template UnitPointers<float> pointers_in<float>(const Unit&, const float*, float*);
template UnitPointers<double> pointers_in<double>(const Unit&, const double*, double*);

}  // namespace ogrom
