// Operations on bf16: a GPU computes them; the CPU computes in fp32 and fp64 alone.
#include "kernels/common/bf16.h"

#include "kernels/cuda/ops.h"

namespace ogrom::ops {
namespace {

void need_gpu(Stream stream, const char* operation) {
    if (stream.backend != Backend::cuda) {
        fail(ExitCode::usage, std::string(operation) + ": bf16 needs a GPU");
    }
}

}  // namespace

#define OGROM_GPU_ONLY(operation, ...)                     \
    template <>                                            \
    void operation(Stream stream, const __VA_ARGS__& op) { \
        need_gpu(stream, #operation);                      \
        cuda::operation(stream, op);                       \
    }

OGROM_GPU_ONLY(embedding_forward, EmbeddingForward<Bf16>)
OGROM_GPU_ONLY(embedding_backward, EmbeddingBackward<Bf16>)
OGROM_GPU_ONLY(position_forward, PositionForward<Bf16>)
OGROM_GPU_ONLY(layernorm_forward, LayerNormForward<Bf16>)
OGROM_GPU_ONLY(layernorm_backward, LayerNormBackward<Bf16>)
OGROM_GPU_ONLY(add_bias, AddBias<Bf16>)
OGROM_GPU_ONLY(residual_forward, ResidualForward<Bf16>)
OGROM_GPU_ONLY(dropout_backward, DropoutBackward<Bf16>)
OGROM_GPU_ONLY(bias_gelu_forward, BiasGeluForward<Bf16>)
OGROM_GPU_ONLY(gelu_forward, GeluForward<Bf16>)
OGROM_GPU_ONLY(gelu_backward, GeluBackward<Bf16>)
OGROM_GPU_ONLY(cross_entropy, CrossEntropy<Bf16>)
OGROM_GPU_ONLY(cross_entropy_max, CrossEntropyPart<Bf16>)
OGROM_GPU_ONLY(cross_entropy_sum, CrossEntropyPart<Bf16>)
OGROM_GPU_ONLY(cross_entropy_finish, CrossEntropyPart<Bf16>)
OGROM_GPU_ONLY(adamw, AdamW<Bf16>)
OGROM_GPU_ONLY(sgd, Sgd<Bf16>)
OGROM_GPU_ONLY(bias_gradient, BiasGradient<Bf16>)
OGROM_GPU_ONLY(matmul, Matmul<Bf16>)
OGROM_GPU_ONLY(matmul, Matmul<Bf16, float>)
#undef OGROM_GPU_ONLY

template <>
double sum_of_squares(Stream stream, const Bf16* x, i64 n) {
    need_gpu(stream, "sum_of_squares");
    return cuda::sum_of_squares(stream, x, n);
}

template <>
void block_squares(Stream stream, const Bf16* x, i64 n, ExactSum& sum) {
    need_gpu(stream, "block_squares");
    const SquaresRange<Bf16> one{x, n};
    cuda::block_squares<Bf16>(stream, {&one, 1}, sum);
}

template <>
bool all_finite(Stream stream, const Bf16* x, i64 n) {
    need_gpu(stream, "all_finite");
    return cuda::all_finite(stream, x, n);
}

}  // namespace ogrom::ops
