// Where the parameters of a unit stand while they are used. The stage asks, optim answers (nothing lower names anything
// higher): the full flat buffers, or a unit buffer gathered for the use (ZeRO-3) or reduced after it (ZeRO-2).
#pragma once
#include <array>
#include <vector>

#include "src/model/parameters.h"

namespace ogrom {

enum class Use { forward, backward, backward_input, backward_weight };

// First element of each flat range of the unit; the second is null where there is one range.
template <class T>
struct UnitPointers {
    std::array<const T*, 2> weights{};          // null where the use reads none (reads_weights)
    std::array<GradientOf<T>*, 2> gradients{};  // added to; null where the use writes none (writes_gradients)
};

template <class T>
class UnitSource {
public:
    virtual ~UnitSource() = default;
    // Valid until release; one unit is in use at a time. May wait for a gather or for an earlier reduction.
    virtual UnitPointers<T> acquire(i64 unit, Use use) = 0;
    // After a use that writes gradients: those of this micro-batch are final.
    virtual void release(i64 unit, Use use) = 0;
    // Lets transfers under way move; called between the layers' products.
    virtual void progress() = 0;
};

// The backward pass of the embedding adds to its gradient and reads no weight; weight parts read none either.
constexpr bool reads_weights(UnitKind kind, Use use) {
    return use != Use::backward_weight && (kind != UnitKind::embedding || use == Use::forward);
}
constexpr bool writes_gradients(Use use) {
    return use == Use::backward || use == Use::backward_weight;
}

struct UnitUse {
    i64 unit = 0;  // index in layout.units()
    Use use = Use::forward;
};
// The units that a pass over a chunk uses, in order: forward [embedding], blocks upwards; backward [head], blocks
// downwards, [embedding]. The head is used in backward alone (loss and gradient are one pass) and in evaluation at the
// end of forward. In a split backward the input part uses head and embedding whole (Use::backward), the weight part the
// blocks alone.
enum class PassKind { forward, evaluate, backward, backward_input, backward_weight };
std::vector<UnitUse> unit_uses(const ParameterLayout& layout, i64 chunk, PassKind pass);

}  // namespace ogrom
