// kernels/ops/linear.h by the epilogues of cublasLt.
#include <type_traits>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/products.cuh"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {
namespace {

// The library wants 16-byte rows beside an epilogue; alignment_of of all pointers.
bool rows_fit(i64 in, i64 out, i64 alignment) {
    return in % 8 == 0 && out % 8 == 0 && alignment == 16;
}

// y[rows, out] of x[rows, in]
template <class T>
ProductShape forward_shape(i64 rows, i64 in, i64 out, Epilogue epilogue) {
    return {.operands = dtype_of<T>(),
            .result = dtype_of<T>(),
            .m = rows,
            .n = out,
            .k = in,
            .ldy = out,
            .lda = in,
            .ldb = in,
            .transpose_a = ops::Transpose::no,
            .transpose_b = ops::Transpose::yes,
            .epilogue = epilogue};
}

bool run(Stream stream, const ProductShape& shape, const ProductCall& call, void* workspace) {
    ProductPlans& plans = ProductPlans::of_current_device();
    const ProductPlan& plan = plans.plan(shape);
    if (plan.way == ProductPlan::Way::apart) {
        return false;
    }
    check(enqueue(plans.handle(), stream, shape, plan, call, workspace), "cublasLtMatmul");
    return true;
}

template <class Op>
bool empty(const Op& op) {
    return op.rows == 0 || op.in == 0 || op.out == 0;
}

}  // namespace

template <class T>
bool linear_bias(Stream stream, const ops::LinearBias<T>& op) {
    if constexpr (is_16_bit<T>) {
        if (op.bias == nullptr || empty(op) || !rows_fit(op.in, op.out, alignment_of(op.y, op.x, op.weight, op.bias))) {
            return false;
        }
        return run(stream, forward_shape<T>(op.rows, op.in, op.out, Epilogue::bias),
                   {.y = op.y, .a = op.x, .b = op.weight, .bias = op.bias}, scratch(stream, product_workspace));
    } else {
        return false;
    }
}

template <class T>
bool linear_bias_gelu(Stream stream, const ops::LinearBiasGelu<T>& op) {
    if constexpr (is_16_bit<T>) {
        if (op.bias == nullptr || empty(op) ||
            !rows_fit(op.in, op.out, alignment_of(op.y, op.u, op.x, op.weight, op.bias))) {
            return false;
        }
        return run(stream, forward_shape<T>(op.rows, op.in, op.out, Epilogue::bias_gelu),
                   {.y = op.y, .a = op.x, .b = op.weight, .bias = op.bias, .aux = op.u},
                   scratch(stream, product_workspace));
    } else {
        return false;
    }
}

template <class T>
bool linear_input_gelu(Stream stream, const ops::LinearInputGelu<T>& op) {
    if constexpr (is_16_bit<T>) {
        if (empty(op) || !rows_fit(op.in, op.out, alignment_of(op.d_u, op.d_y, op.weight, op.u))) {
            return false;
        }
        const ProductShape shape{.operands = dtype_of<T>(),
                                 .result = dtype_of<T>(),
                                 .m = op.rows,
                                 .n = op.in,
                                 .k = op.out,
                                 .ldy = op.in,
                                 .lda = op.out,
                                 .ldb = op.in,
                                 .transpose_a = ops::Transpose::no,
                                 .transpose_b = ops::Transpose::no,
                                 .epilogue = Epilogue::gelu_backward};
        return run(stream, shape, {.y = op.d_u, .a = op.d_y, .b = op.weight, .aux = op.u},
                   scratch(stream, product_workspace));
    } else {
        return false;
    }
}

template <class T>
bool linear_gradients(Stream stream, const ops::LinearGradients<T>& op) {
    if constexpr (is_16_bit<T>) {
        if (op.d_bias == nullptr || empty(op) || !rows_fit(op.in, op.out, alignment_of(op.d_weight, op.d_y, op.x))) {
            return false;
        }
        const ProductShape shape{.operands = dtype_of<T>(),
                                 .result = Dtype::fp32,
                                 .m = op.out,
                                 .n = op.in,
                                 .k = op.rows,
                                 .ldy = op.in,
                                 .lda = op.out,
                                 .ldb = op.in,
                                 .transpose_a = ops::Transpose::yes,
                                 .transpose_b = ops::Transpose::no,
                                 .mode = ops::Accumulate::add,
                                 .epilogue = Epilogue::bias_gradient};
        // The library overwrites its bias gradient: into working memory, then added.
        auto* memory =
            static_cast<unsigned char*>(scratch(stream, product_workspace + op.out * static_cast<i64>(sizeof(float))));
        auto* sums = reinterpret_cast<float*>(memory + product_workspace);
        if (!run(stream, shape, {.y = op.d_weight, .a = op.d_y, .b = op.x, .beta = 1, .bias = sums}, memory)) {
            return false;
        }
        add(stream, op.d_bias, sums, op.out);
        return true;
    } else {
        return false;
    }
}

#define OGROM_INSTANTIATE(T)                                                 \
    template bool linear_bias(Stream, const ops::LinearBias<T>&);            \
    template bool linear_bias_gelu(Stream, const ops::LinearBiasGelu<T>&);   \
    template bool linear_input_gelu(Stream, const ops::LinearInputGelu<T>&); \
    template bool linear_gradients(Stream, const ops::LinearGradients<T>&)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom::cuda
