// Compares a training under any layout with that of one rank: by logical
// element, whatever holds it.
#pragma once
#include <vector>

#include "src/train/engine.h"

namespace ogrom {

// Largest relative difference of two series; infinite where a value is not
// finite or a length differs.
double series_deviation(const std::vector<double>& a, const std::vector<double>& b);

// Largest over the tensors, of those parts of the weights that this rank holds, of
//   || here - there || / || there - before ||
// `there`, `before`: flat weights of one rank that holds the whole model (before empty: 0). Key biases, whose exact
// change is 0, are compared with `key_bias_share` of the change of the whole model instead. Infinite where a value is
// not finite.
inline constexpr double key_bias_share = 0.05;
template <class T>
double weight_deviation(const Engine<T>& engine, const ModelConfig& model, std::span<const T> there,
                        std::span<const T> before = {});

// All bits of weights and moments by tensor and global index, summed over the
// ranks that write them: equal under two layouts exactly when all bits are.
// Collective.
template <class T>
u64 state_bits(const Engine<T>& engine);

}  // namespace ogrom
