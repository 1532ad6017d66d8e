// Loss scaling of fp16 runs (Micikevicius et al. 2018). Gradients of activations that are kept in fp16 are lost below
// 2^-24 and infinite from 65520 on, so the pass begins with S dloss, S a power of two: every gradient is S times the
// true one, exactly, and is divided by S where it leaves the pass (norm, update). Dynamic: S halves where the norm is
// not finite, which costs that step, and doubles after `window` steps in a row that were.
// Comes in: loss and norm of a step, equal on all ranks, so that S is. Goes out: S; whether the step counts.
#pragma once
#include <map>
#include <string>

#include "src/config/run.h"

namespace ogrom {

class LossScaling {
public:
    LossScaling() = default;  // S = 1 for ever
    // As the keys say for fp16 weights, else S = 1 for ever: other types have the exponents of a float.
    explicit LossScaling(const PrecisionConfig& precision);

    static constexpr double largest = 16'777'216;  // 2^24

    [[nodiscard]] double factor() const { return factor_; }
    // good: to be applied. overflow: S was too large and is smaller now, the step is left out. fault: the loss itself,
    // or the gradient at the smallest (or fixed) S, is not finite; S stays.
    enum class Outcome { good, overflow, fault };
    // `loss` and `norm` of a step; S of the next one.
    Outcome judge(double loss, double norm);

    // Named run state of a checkpoint; nothing where S never moves. Throws Error(checkpoint) for what is no S.
    void save(std::map<std::string, std::string>& state) const;
    void load(const std::map<std::string, std::string>& state);

private:
    double factor_ = 1, smallest_ = 1;
    i64 window_ = 0;      // 0: S never moves
    i64 good_steps_ = 0;  // since S moved
};

}  // namespace ogrom
