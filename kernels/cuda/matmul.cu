// Products by cublasLt, each by the plan of its shape (products.h).
#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/products.cuh"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {
namespace {

// y = beta y for an empty sum; beta = 0 stores zeros, so that a NaN in y does not live on.
template <class Y>
struct ScaleBody {
    Y* y;
    i64 n, ldy;
    Math<Y> beta;

    __device__ void operator()(i64 i) const {
        Y& one = y[i / n * ldy + i % n];
        one = static_cast<Y>(beta == 0 ? Math<Y>(0) : beta * static_cast<Math<Y>>(one));
    }
};

template <class T, class Y>
void check_strides(const ops::Matmul<T, Y>& op) {
    OGROM_ASSERT(op.m >= 0 && op.n >= 0 && op.k >= 0);
    const i64 columns_a = op.transpose_a == ops::Transpose::yes ? op.m : op.k;
    const i64 columns_b = op.transpose_b == ops::Transpose::yes ? op.k : op.n;
    OGROM_ASSERT(op.lda >= columns_a && op.ldb >= columns_b && op.ldy >= op.n);
}

}  // namespace

template <class T, class Y>
void matmul(Stream stream, const ops::Matmul<T, Y>& op) {
    if (op.m == 0 || op.n == 0) {
        return;
    }
    if (op.k == 0 || op.alpha == 0) {
        for_each(stream, op.m * op.n, ScaleBody<Y>{op.y, op.n, op.ldy, op.beta}, "matmul");
        return;
    }
    check_strides(op);
    ProductPlans& plans = ProductPlans::of_current_device();
    const ProductShape shape{.operands = dtype_of<T>(),
                             .result = dtype_of<Y>(),
                             .floats = std::is_same_v<T, float> ? float_products() : FloatProducts::fp32,
                             .m = op.m,
                             .n = op.n,
                             .k = op.k,
                             .ldy = op.ldy,
                             .lda = op.lda,
                             .ldb = op.ldb,
                             .transpose_a = op.transpose_a,
                             .transpose_b = op.transpose_b,
                             .mode = op.beta == 0 ? ops::Accumulate::overwrite : ops::Accumulate::add,
                             .alignment = alignment_of(op.y, op.a, op.b)};
    const ProductCall call{op.y, op.a, op.b, static_cast<double>(op.alpha), static_cast<double>(op.beta)};
    check(enqueue(plans.handle(), stream, shape, plans.plan(shape), call, scratch(stream, product_workspace)),
          "cublasLtMatmul");
}

template void matmul(Stream, const ops::Matmul<float>&);
template void matmul(Stream, const ops::Matmul<double>&);
template void matmul(Stream, const ops::Matmul<Bf16>&);
template void matmul(Stream, const ops::Matmul<Fp16>&);
template void matmul(Stream, const ops::Matmul<Bf16, float>&);
template void matmul(Stream, const ops::Matmul<Fp16, float>&);

}  // namespace ogrom::cuda
