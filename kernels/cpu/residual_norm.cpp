#include "kernels/ops/residual_norm.h"

#include "kernels/cuda/ops.h"

namespace ogrom::ops {

template <class T>
void residual_norm_forward(Stream stream, const ResidualNormForward<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::residual_norm_forward(stream, op);
        return;
    }
    residual_forward(stream, op.residual);
    layernorm_forward(stream, norm_of(op));
}

template void residual_norm_forward(Stream, const ResidualNormForward<float>&);
template void residual_norm_forward(Stream, const ResidualNormForward<double>&);
template void residual_norm_forward(Stream, const ResidualNormForward<Bf16>&);
template void residual_norm_forward(Stream, const ResidualNormForward<Fp16>&);

}  // namespace ogrom::ops
