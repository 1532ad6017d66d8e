// bias_gradient of kernels/ops/matmul.h.
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {
namespace {

template <class T, int V>
struct RowTerm {
    const T* d_y;
    i64 ldy;

    __device__ void operator()(i64 row, i64 column, Values<Math<T>, V> (&sums)[1]) const {
        const Values<T, V> g = load<V>(d_y + row * ldy + column);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            sums[0].at[v] += g.at[v];
        }
    }
};

}  // namespace

template <class T>
void bias_gradient(Stream stream, const ops::BiasGradient<T>& op) {
    if (op.rows == 0 || op.cols == 0) {
        return;
    }
    const bool fits = op.cols % wide<T> == 0 && op.ldy % wide<T> == 0 && aligned16(op.d_y);
    with_width<T>(fits, [&](auto width) {
        constexpr int V = decltype(width)::value;
        const RowSplits splits = row_splits(op.rows, op.cols, V);
        using M = Math<T>;
        M* partial = static_cast<M*>(scratch(stream, splits.count * op.cols * static_cast<i64>(sizeof(M))));
        make_splits<V, 1>(stream, partial, op.rows, op.cols, splits, RowTerm<T, V>{op.d_y, op.ldy}, "bias_gradient");
        add_splits(stream, Gradients<GradientOf<T>, 1>{{op.d_bias}}, partial, splits.count, op.cols, "bias_gradient");
    });
}

template void bias_gradient(Stream, const ops::BiasGradient<float>&);
template void bias_gradient(Stream, const ops::BiasGradient<double>&);
template void bias_gradient(Stream, const ops::BiasGradient<Bf16>&);
template void bias_gradient(Stream, const ops::BiasGradient<Fp16>&);

}  // namespace ogrom::cuda
