#include "kernels/ops/optimizer.h"

#include <cmath>

#include "kernels/common/fault.h"
#include "kernels/common/parallel.h"
#include "kernels/cuda/ops.h"

namespace ogrom::ops {
namespace {

template <class Op>
const StepScalars& scalars_of(const Op& op) {
    return op.scalars_at != nullptr ? *op.scalars_at : op.scalars;
}

// The scalars of an AdamW step as the loop uses them, rounded once:
//   w = keep w - rate m / (sqrt(v) root + epsilon), keep = 1 - lr decay, rate = lr / c1, root = 1 / sqrt(c2)
template <class T>
struct AdamWFactors {
    T clip, beta1, one_minus_beta1, beta2, one_minus_beta2, keep, rate, root, epsilon;
};

template <class T>
AdamWFactors<T> adamw_factors(const AdamW<T>& op) {
    const StepScalars& s = scalars_of(op);
    const double lr = s.lr * op.lr_factor;
    return {static_cast<T>(s.clip),
            static_cast<T>(s.beta1),
            static_cast<T>(1 - s.beta1),
            static_cast<T>(s.beta2),
            static_cast<T>(1 - s.beta2),
            static_cast<T>(1 - lr * op.decay),
            static_cast<T>(lr / s.correction1),
            static_cast<T>(1 / std::sqrt(s.correction2)),
            static_cast<T>(s.epsilon)};
}

template <class T>
void adamw_range(const AdamW<T>& op, const AdamWFactors<T>& f, i64 first, i64 last) {
    T* __restrict weight = op.weight;
    T* __restrict m = op.m;
    T* __restrict v = op.v;
    const T* __restrict gradient = op.gradient;
    const bool coupled = fault_active("adamw_decay_on_gradient");
    for (i64 i = first; i < last; ++i) {
        T g = f.clip * gradient[i];
        if (coupled) {
            g += static_cast<T>(op.decay) * weight[i];
        }
        const T moment = f.beta1 * m[i] + f.one_minus_beta1 * g;
        const T square = f.beta2 * v[i] + f.one_minus_beta2 * (g * g);
        m[i] = moment;
        v[i] = square;
        weight[i] = f.keep * weight[i] - f.rate * (moment / (std::sqrt(square) * f.root + f.epsilon));
    }
}

template <class T>
void sgd_range(const Sgd<T>& op, i64 first, i64 last) {
    const StepScalars& s = scalars_of(op);
    const T clip = static_cast<T>(s.clip);
    const T momentum = static_cast<T>(s.momentum);
    const T lr = static_cast<T>(s.lr * op.lr_factor);
    const T keep = static_cast<T>(1 - s.lr * op.lr_factor * op.decay);
    T* __restrict weight = op.weight;
    T* __restrict m = op.m;
    const T* __restrict gradient = op.gradient;
    if (m == nullptr) {
        for (i64 i = first; i < last; ++i) {
            weight[i] = keep * weight[i] - lr * (clip * gradient[i]);
        }
        return;
    }
    for (i64 i = first; i < last; ++i) {
        const T u = momentum * m[i] + clip * gradient[i];
        m[i] = u;
        weight[i] = keep * weight[i] - lr * u;
    }
}

}  // namespace

template <class T>
void adamw(Stream stream, const AdamW<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::adamw(stream, op);
        return;
    }
    if (scalars_of(op).skip != 0 && !fault_active("skip_ignored")) {
        return;
    }
    const AdamWFactors<T> factors = adamw_factors(op);
    parallel_ranges(op.n, parallel_grain, [&](i64 first, i64 last) { adamw_range(op, factors, first, last); });
}

template <class T>
void sgd(Stream stream, const Sgd<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::sgd(stream, op);
        return;
    }
    if (scalars_of(op).skip != 0 && !fault_active("skip_ignored")) {
        return;
    }
    OGROM_ASSERT(op.m != nullptr || scalars_of(op).momentum == 0);
    parallel_ranges(op.n, parallel_grain, [&](i64 first, i64 last) { sgd_range(op, first, last); });
}

template void adamw<float>(Stream, const AdamW<float>&);
template void adamw<double>(Stream, const AdamW<double>&);
template void sgd<float>(Stream, const Sgd<float>&);
template void sgd<double>(Stream, const Sgd<double>&);

}  // namespace ogrom::ops
