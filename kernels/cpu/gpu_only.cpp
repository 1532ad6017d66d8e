// Operations on types of 16 bits: a GPU computes them; the CPU computes in fp32 and fp64 alone.
#include "kernels/common/dtype.h"
#include "kernels/cuda/ops.h"

namespace ogrom::ops {
namespace {

template <class T>
void need_gpu(Stream stream, const char* operation) {
    if (stream.backend != Backend::cuda) {
        fail(ExitCode::usage, std::string(operation) + ": " + std::string(name_of(dtype_of<T>())) + " needs a GPU");
    }
}

}  // namespace

#define OGROM_GPU_ONLY(T, operation, ...)                  \
    template <>                                            \
    void operation(Stream stream, const __VA_ARGS__& op) { \
        need_gpu<T>(stream, #operation);                   \
        cuda::operation(stream, op);                       \
    }

#define OGROM_GPU_ONLY_TYPE(T)                                            \
    OGROM_GPU_ONLY(T, embedding_forward, EmbeddingForward<T>)             \
    OGROM_GPU_ONLY(T, embedding_backward, EmbeddingBackward<T>)           \
    OGROM_GPU_ONLY(T, position_forward, PositionForward<T>)               \
    OGROM_GPU_ONLY(T, layernorm_forward, LayerNormForward<T>)             \
    OGROM_GPU_ONLY(T, layernorm_backward, LayerNormBackward<T>)           \
    OGROM_GPU_ONLY(T, add_bias, AddBias<T>)                               \
    OGROM_GPU_ONLY(T, residual_forward, ResidualForward<T>)               \
    OGROM_GPU_ONLY(T, dropout_backward, DropoutBackward<T>)               \
    OGROM_GPU_ONLY(T, bias_gelu_forward, BiasGeluForward<T>)              \
    OGROM_GPU_ONLY(T, gelu_forward, GeluForward<T>)                       \
    OGROM_GPU_ONLY(T, gelu_backward, GeluBackward<T>)                     \
    OGROM_GPU_ONLY(T, cross_entropy, CrossEntropy<T>)                     \
    OGROM_GPU_ONLY(T, cross_entropy_max, CrossEntropyPart<T>)             \
    OGROM_GPU_ONLY(T, cross_entropy_sum, CrossEntropyPart<T>)             \
    OGROM_GPU_ONLY(T, cross_entropy_finish, CrossEntropyPart<T>)          \
    OGROM_GPU_ONLY(T, adamw, AdamW<T>)                                    \
    OGROM_GPU_ONLY(T, sgd, Sgd<T>)                                        \
    OGROM_GPU_ONLY(T, bias_gradient, BiasGradient<T>)                     \
    OGROM_GPU_ONLY(T, matmul, Matmul<T>)                                  \
    OGROM_GPU_ONLY(T, matmul, Matmul<T, float>)                           \
    template <>                                                           \
    double sum_of_squares(Stream stream, const T* x, i64 n) {             \
        need_gpu<T>(stream, "sum_of_squares");                            \
        return cuda::sum_of_squares(stream, x, n);                        \
    }                                                                     \
    template <>                                                           \
    void block_squares(Stream stream, const T* x, i64 n, ExactSum& sum) { \
        need_gpu<T>(stream, "block_squares");                             \
        const SquaresRange<T> one{x, n};                                  \
        cuda::block_squares<T>(stream, {&one, 1}, sum);                   \
    }                                                                     \
    template <>                                                           \
    bool all_finite(Stream stream, const T* x, i64 n) {                   \
        need_gpu<T>(stream, "all_finite");                                \
        return cuda::all_finite(stream, x, n);                            \
    }
OGROM_GPU_ONLY_TYPE(Bf16)
OGROM_GPU_ONLY_TYPE(Fp16)
#undef OGROM_GPU_ONLY_TYPE
#undef OGROM_GPU_ONLY

}  // namespace ogrom::ops
