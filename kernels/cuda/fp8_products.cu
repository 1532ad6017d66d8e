// fp8_matmul of kernels/ops/fp8.h by cublasLt, alone and with a pass in it. The scales of both operands are read on the
// device.
#include <type_traits>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/products.cuh"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {
namespace {

template <class Y>
ProductShape shape_of(const ops::Fp8Matmul<Y>& op, Epilogue epilogue) {
    OGROM_ASSERT(op.m % 16 == 0 && op.n % 16 == 0 && op.k % 16 == 0 && op.k > 0);
    return {.operands = op.a.format,
            .operands_b = op.b.format,
            .result = dtype_of<Y>(),
            .m = op.m,
            .n = op.n,
            .k = op.k,
            .ldy = op.n,
            .lda = op.k,
            .ldb = op.k,
            .transpose_a = ops::Transpose::no,
            .transpose_b = ops::Transpose::yes,
            .mode = op.beta == 0 ? ops::Accumulate::overwrite : ops::Accumulate::add,
            .epilogue = epilogue,
            .sums = op.sums,
            .alignment = alignment_of(op.y, op.a.codes, op.b.codes)};
}

template <class Y>
ProductCall call_of(const ops::Fp8Matmul<Y>& op) {
    ProductCall call{op.y, op.a.codes, op.b.codes};
    call.beta = static_cast<double>(op.beta);
    call.a_scale = &op.a.scale->inverse;
    call.b_scale = &op.b.scale->inverse;
    return call;
}

template <class Y>
void make(Stream stream, const ops::Fp8Matmul<Y>& op, void* workspace) {
    ProductPlans& plans = ProductPlans::of_current_device();
    const ProductShape shape = shape_of(op, Epilogue::none);
    check(enqueue(plans.handle(), stream, shape, plans.plan(shape), call_of(op), workspace), "cublasLtMatmul");
}

// y at an address that the library's products do not take: by way of working memory.
template <class Y>
void by_way_of(Stream stream, const ops::Fp8Matmul<Y>& op) {
    OGROM_ASSERT(op.beta == 0 || (std::is_same_v<Y, float>));
    const i64 n = op.m * op.n;
    auto* const memory =
        static_cast<unsigned char*>(scratch(stream, product_workspace + n * static_cast<i64>(sizeof(Y))));
    ops::Fp8Matmul<Y> product = op;
    product.y = reinterpret_cast<Y*>(memory + product_workspace);
    product.beta = 0;
    make(stream, product, memory);
    if constexpr (std::is_same_v<Y, float>) {
        if (op.beta != 0) {
            add(stream, op.y, product.y, n);
            return;
        }
    }
    copy(stream, op.y, product.y, n);
}

template <class Y>
void plain(Stream stream, const ops::Fp8Matmul<Y>& op) {
    if (op.m == 0 || op.n == 0) {
        return;
    }
    if (alignment_of(op.y) == 16) {
        make(stream, op, scratch(stream, product_workspace));
    } else {
        by_way_of(stream, op);
    }
}

bool together(Stream stream, const ops::Fp8Matmul<Bf16>& op, Epilogue epilogue, const ProductCall& call) {
    const ProductShape shape = shape_of(op, epilogue);
    if (shape.alignment != 16 || alignment_of(static_cast<const char*>(call.y), static_cast<const char*>(call.bias),
                                              static_cast<const char*>(call.aux)) != 16) {
        return false;
    }
    ProductPlans& plans = ProductPlans::of_current_device();
    const ProductPlan& plan = plans.plan(shape);
    if (plan.way == ProductPlan::Way::apart) {
        return false;
    }
    check(enqueue(plans.handle(), stream, shape, plan, call, scratch(stream, product_workspace)), "cublasLtMatmul");
    return true;
}

}  // namespace

void fp8_matmul(Stream stream, const ops::Fp8Matmul<Bf16>& op) {
    plain(stream, op);
}

void fp8_matmul(Stream stream, const ops::Fp8Matmul<float>& op) {
    plain(stream, op);
}

bool fp8_matmul_bias(Stream stream, const ops::Fp8Matmul<Bf16>& op, const Bf16* bias) {
    ProductCall call = call_of(op);
    call.bias = bias;
    return together(stream, op, Epilogue::bias, call);
}

bool fp8_matmul_bias_gelu(Stream stream, const ops::Fp8Matmul<Bf16>& op, const Bf16* bias, Bf16* y) {
    ProductCall call = call_of(op);
    call.bias = bias;
    call.aux = op.y;
    call.y = y;
    return together(stream, op, Epilogue::bias_gelu, call);
}

bool fp8_matmul_gelu_backward(Stream stream, const ops::Fp8Matmul<Bf16>& op, const Bf16* u) {
    ProductCall call = call_of(op);
    call.aux = u;
    return together(stream, op, Epilogue::gelu_backward, call);
}

}  // namespace ogrom::cuda
