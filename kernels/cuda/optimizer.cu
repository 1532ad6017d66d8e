#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace ogrom::cuda {
namespace {

// Sums of two products name the one that is rounded: left to the compiler, packs and single elements came out with
// different bits, and then an element's update depends on where a range of its owner begins and ends.

// Scalars of the range's loop, rounded once, as in kernels/cpu/optimizer.cpp.
template <class T>
struct AdamWFactors {
    T clip, beta1, one_minus_beta1, beta2, one_minus_beta2, keep, rate, root, epsilon;

    __device__ AdamWFactors(const ops::StepScalars& s, double lr_factor, double decay) {
        const double lr = s.lr * lr_factor;
        clip = static_cast<T>(s.clip);
        beta1 = static_cast<T>(s.beta1);
        one_minus_beta1 = static_cast<T>(1 - s.beta1);
        beta2 = static_cast<T>(s.beta2);
        one_minus_beta2 = static_cast<T>(1 - s.beta2);
        keep = static_cast<T>(1 - lr * decay);
        rate = static_cast<T>(lr / s.correction1);
        root = static_cast<T>(1 / sqrt(s.correction2));
        epsilon = static_cast<T>(s.epsilon);
    }
};

// The numbers that the update is made on: the master of 16-bit weights, else the weights.
template <int V, class Op>
__device__ auto load_master(const Op& op, i64 i) {
    if constexpr (is_16_bit<std::remove_pointer_t<decltype(op.weight)>>) {
        return load<V>(op.master + i);
    } else {
        return load<V>(op.weight + i);
    }
}

template <int V, class Op, class M>
__device__ void store_master(const Op& op, i64 i, const Values<M, V>& w) {
    if constexpr (is_16_bit<std::remove_pointer_t<decltype(op.weight)>>) {
        store<V>(op.master + i, w);
    }
    store<V>(op.weight + i, w);
}

template <class T, int V>
struct AdamWRule {
    using M = GradientOf<T>;
    using Factors = AdamWFactors<M>;
    ops::AdamW<T> op;

    __device__ void operator()(i64 i, const Factors& f) const {
        auto w = load_master<V>(op, i);
        auto m = load<V>(op.m + i);
        auto s = load<V>(op.v + i);
        const auto gradient = load<V>(op.gradient + i);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const M g = f.clip * gradient.at[v];
            m.at[v] = fma(f.beta1, m.at[v], f.one_minus_beta1 * g);
            s.at[v] = fma(f.beta2, s.at[v], f.one_minus_beta2 * (g * g));
            const M root = fma(sqrt(s.at[v]), f.root, f.epsilon);
            w.at[v] = fma(f.keep, w.at[v], -(f.rate * (m.at[v] / root)));
        }
        store_master<V>(op, i, w);
        store<V>(op.m + i, m);
        store<V>(op.v + i, s);
    }
};

template <class T>
struct SgdFactors {
    T clip, momentum, lr, keep;

    __device__ SgdFactors(const ops::StepScalars& s, double lr_factor, double decay) {
        clip = static_cast<T>(s.clip);
        momentum = static_cast<T>(s.momentum);
        lr = static_cast<T>(s.lr * lr_factor);
        keep = static_cast<T>(1 - s.lr * lr_factor * decay);
    }
};

template <class T, int V>
struct SgdRule {
    using Factors = SgdFactors<GradientOf<T>>;
    ops::Sgd<T> op;

    __device__ void operator()(i64 i, const Factors& f) const {
        auto w = load_master<V>(op, i);
        auto u = load<V>(op.gradient + i);
        if (op.m != nullptr) {
            const auto m = load<V>(op.m + i);
#pragma unroll
            for (int v = 0; v < V; ++v) {
                u.at[v] = fma(f.momentum, m.at[v], f.clip * u.at[v]);
            }
            store<V>(op.m + i, u);
        } else {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                u.at[v] *= f.clip;
            }
        }
#pragma unroll
        for (int v = 0; v < V; ++v) {
            w.at[v] = fma(f.keep, w.at[v], -(f.lr * u.at[v]));
        }
        store_master<V>(op, i, w);
    }
};

constexpr int update_threads = 256;
constexpr i64 update_blocks = 2048;  // each makes the factors once and strides over the rest

// Packs of the range [0, packs * V), then its last elements one by one.
template <class T, int V, template <class, int> class Rule, class Op>
__global__ void __launch_bounds__(update_threads) update(Op op, i64 packs) {
    using Factors = typename Rule<T, V>::Factors;
    __shared__ alignas(Factors) unsigned char memory[sizeof(Factors)];
    const ops::StepScalars* at = op.scalars_at != nullptr ? op.scalars_at : &op.scalars;
    if (at->skip != 0) {
        return;
    }
    if (threadIdx.x == 0) {
        *reinterpret_cast<Factors*>(memory) = Factors(*at, op.lr_factor, op.decay);
    }
    __syncthreads();
    const Factors factors = *reinterpret_cast<const Factors*>(memory);
    const i64 thread = static_cast<i64>(blockIdx.x) * update_threads + threadIdx.x;
    const i64 step = static_cast<i64>(gridDim.x) * update_threads;
    const Rule<T, V> packed{op};
    for (i64 i = thread; i < packs; i += step) {
        packed(i * V, factors);
    }
    const Rule<T, 1> single{op};
    for (i64 i = packs * V + thread; i < op.n; i += step) {
        single(i, factors);
    }
}

template <class T, template <class, int> class Rule, class Op>
void run_update(Stream stream, const Op& op, bool aligned, const char* operation) {
    if (op.n == 0) {
        return;
    }
    OGROM_ASSERT((op.master != nullptr) == is_16_bit<T>);
    with_width<GradientOf<T>>(aligned, [&](auto width) {
        constexpr int V = decltype(width)::value;
        const unsigned blocks = grid_of(ceil_div(ceil_div(op.n, V), update_threads), update_blocks);
        update<T, V, Rule><<<blocks, update_threads, 0, native(stream)>>>(op, op.n / V);
        check_launch(operation);
    });
}

}  // namespace

template <class T>
void adamw(Stream stream, const ops::AdamW<T>& op) {
    run_update<T, AdamWRule>(stream, op, aligned16(op.weight, op.master, op.m, op.v, op.gradient), "adamw");
}

template <class T>
void sgd(Stream stream, const ops::Sgd<T>& op) {
    OGROM_ASSERT(op.m != nullptr || op.scalars_at != nullptr || op.scalars.momentum == 0);
    run_update<T, SgdRule>(stream, op, aligned16(op.weight, op.master, op.m, op.gradient), "sgd");
}

template void adamw(Stream, const ops::AdamW<float>&);
template void adamw(Stream, const ops::AdamW<double>&);
template void adamw(Stream, const ops::AdamW<Bf16>&);
template void adamw(Stream, const ops::AdamW<Fp16>&);
template void sgd(Stream, const ops::Sgd<float>&);
template void sgd(Stream, const ops::Sgd<double>&);
template void sgd(Stream, const ops::Sgd<Bf16>&);
template void sgd(Stream, const ops::Sgd<Fp16>&);

}  // namespace ogrom::cuda
