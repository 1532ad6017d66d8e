// Reference of the optimizer updates of one element, in double, as the formulas are printed.
#pragma once
#include <cmath>

#include "kernels/ops/optimizer.h"

namespace ogrom::reference {

struct State {
    double w, m, v;
};

inline State adamw(State s, double gradient, const ops::StepScalars& k, double lr_factor, double decay) {
    const double g = k.clip * gradient;
    s.m = k.beta1 * s.m + (1 - k.beta1) * g;
    s.v = k.beta2 * s.v + (1 - k.beta2) * g * g;
    const double update = (s.m / k.correction1) / (std::sqrt(s.v / k.correction2) + k.epsilon);
    s.w -= k.lr * lr_factor * (update + decay * s.w);
    return s;
}

inline State sgd(State s, double gradient, const ops::StepScalars& k, double lr_factor, double decay) {
    s.m = k.momentum * s.m + k.clip * gradient;
    s.w -= k.lr * lr_factor * (s.m + decay * s.w);
    return s;
}

}  // namespace ogrom::reference
