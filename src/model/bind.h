// The layers of a unit from where its tensors stand. Places inside a unit are looked up by name once: every block of a
// stage has the same ones.
#pragma once
#include "src/model/layers.h"
#include "src/model/unit.h"

namespace ogrom {

template <class T>
class UnitBinder {
public:
    // `model` must outlive the binder.
    UnitBinder(const ModelConfig& model, const ParameterLayout& layout);
    [[nodiscard]] Embedding<T> embedding(const UnitPointers<T>& at) const;
    [[nodiscard]] Block<T> block(const UnitPointers<T>& at, i64 layer) const;
    [[nodiscard]] Head<T> head(const UnitPointers<T>& at, i64 logits_rows) const;

private:
    // Elements from the start of the unit's first range to the layer's weight and bias (-1: none).
    struct Place {
        i64 weight = -1, bias = -1;
    };
    [[nodiscard]] Norm<T> norm(const UnitPointers<T>& at, Place place) const;
    [[nodiscard]] Linear<T> linear(const UnitPointers<T>& at, Place place, i64 out, i64 in) const;
    void find_block(const ParameterLayout& layout, const Unit& unit);
    void find_head(const ParameterLayout& layout, const Unit& unit);

    const ModelConfig& model_;
    TensorPart part_;
    Place norm1_, qkv_, out_, norm2_, up_, down_;
    i64 position_table_ = -1;
    Place final_norm_;
    i64 head_table_ = -1;         // of the head's range head_range_
    std::size_t head_range_ = 0;  // 1: the table is the embedding's, a range of its own
};

// Weights [P] and gradients [P + X] in full flat buffers; gradients null: none.
template <class T>
UnitPointers<T> pointers_in(const Unit& unit, const T* weights, GradientOf<T>* gradients);

}  // namespace ogrom
