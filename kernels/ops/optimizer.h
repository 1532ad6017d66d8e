// Optimizer updates over a flat range. Step scalars come in one struct (device memory on a GPU).
//   AdamW (Loshchilov & Hutter 2019): m = b1 m + (1-b1) g ; v = b2 v + (1-b2) g^2 ;
//     w = w - lr ( (m/c1) / (sqrt(v/c2) + eps) + decay w ),  c1 = 1 - b1^t, c2 = 1 - b2^t,  g = clip * gradient
//   SGD: u = momentum u + g ; w = w - lr (u + decay w)          (u kept in m; momentum 0 needs no m)
// lr and decay of the range are lr * lr_factor and decay * decay_factor. 12 flops and 28 bytes (fp32) an element.
#pragma once
#include "kernels/common/dtype.h"
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom::ops {

struct StepScalars {
    double lr = 0;
    double clip = 1;  // factor on the gradient
    double beta1 = 0.9, beta2 = 0.95;
    double correction1 = 1, correction2 = 1;  // 1 - beta^t
    double epsilon = 1e-8;
    double momentum = 0;
    u32 skip = 0;  // 1: the update leaves weights and moments alone (a step with a non-finite gradient)
};

template <class T>
struct AdamW {
    T* weight;
    GradientOf<T>* m;
    GradientOf<T>* v;
    const GradientOf<T>* gradient;
    i64 n;
    StepScalars scalars;
    double lr_factor = 1;
    double decay = 0;                         // weight decay of this range (0 on biases and norms)
    const StepScalars* scalars_at = nullptr;  // where the kernel runs; overrides `scalars` when set
    GradientOf<T>* master = nullptr;          // of 16 bits: updated, and rounded into weight; else null, weight is it
};
template <class T>
void adamw(Stream stream, const AdamW<T>& op);

template <class T>
struct Sgd {
    T* weight;
    GradientOf<T>* m;  // null when momentum = 0
    const GradientOf<T>* gradient;
    i64 n;
    StepScalars scalars;
    double lr_factor = 1;
    double decay = 0;
    const StepScalars* scalars_at = nullptr;  // as above
    GradientOf<T>* master = nullptr;          // as above
};
template <class T>
void sgd(Stream stream, const Sgd<T>& op);

}  // namespace ogrom::ops
