// A unit source over full flat buffers that writes down how it was asked: weights [P], gradients [P + X].
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "kernels/common/error.h"

#include "src/model/bind.h"

namespace ogrom::test {

template <class T>
class FlatSource : public UnitSource<T> {
public:
    FlatSource(const ParameterLayout& layout, std::span<const T> weights, std::span<T> gradients)
        : layout_(layout), weights_(weights), gradients_(gradients) {
        OGROM_ASSERT(static_cast<i64>(weights.size()) == layout.size());
        OGROM_ASSERT(static_cast<i64>(gradients.size()) == layout.gradient_size());
    }
    UnitPointers<T> acquire(i64 unit, Use use) override {
        OGROM_ASSERT(in_use_ < 0);
        in_use_ = unit;
        used.push_back({unit, use});
        const Unit& row = layout_.units()[static_cast<std::size_t>(unit)];
        UnitPointers<T> at = pointers_in<T>(row, weights_.data(), gradients_.data());
        if (!reads_weights(row.kind, use)) {
            at.weights = {};
        }
        if (!writes_gradients(use)) {
            at.gradients = {};
        }
        return at;
    }
    void release(i64 unit, Use use) override {
        OGROM_ASSERT(in_use_ == unit);
        in_use_ = -1;
        if (released) {
            released(unit, use);
        }
    }
    void progress() override { ++progress_calls; }

    std::vector<UnitUse> used;
    std::function<void(i64 unit, Use use)> released;
    i64 progress_calls = 0;

private:
    const ParameterLayout& layout_;
    std::span<const T> weights_;
    std::span<T> gradients_;
    i64 in_use_ = -1;
};

// The flat gradient [P] with the tied head's part joined to the table's.
template <class T>
std::vector<T> joined(const ParameterLayout& layout, std::span<const T> gradients) {
    std::vector<T> flat(gradients.begin(), gradients.begin() + layout.size());
    for (i64 i = layout.size(); i < layout.gradient_size(); ++i) {
        flat[static_cast<std::size_t>(layout.tied_table().first + i - layout.size())] +=
            gradients[static_cast<std::size_t>(i)];
    }
    return flat;
}

}  // namespace ogrom::test
