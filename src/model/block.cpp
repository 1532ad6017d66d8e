// Comes in: residual stream [rows, C] in saved.input (arena); backward: d [rows, C], gradient of the block's output.
// Goes out: output [rows, C], the next block's input; backward: d of the block's input, weight gradients added.
// Next: model/attention.cpp, then model/mlp.cpp (backward: the other way round)
#include <array>

#include "kernels/common/fault.h"
#include "kernels/ops/flat.h"

#include "src/model/layers.h"

namespace ogrom {
namespace {

// The block's forward pass once more, without the product whose result nothing in backward reads. Dropout is a function
// of place and step, so the masks are those of the first time.
template <class T>
void make_again(Stream stream, const Block<T>& block, const BlockSaved<T>& saved, const Workspace<T>& workspace,
                const Pass& pass) {
    Pass same = pass;
    if (fault_active("recompute_other_mask")) {
        ++same.step;
    }
    attention_forward(stream, block.attention, saved.middle, saved.input, saved.attention, workspace, same);
    mlp_inner(stream, block.mlp, saved.middle, saved.mlp, workspace, same);
}

// The gradients that the input half makes, in the order of the side buffer; null where the model has no bias.
template <class T>
std::array<GradientOf<T>**, 6> beside(Block<T>& block) {
    return {&block.attention.norm.d_gamma, &block.attention.norm.d_beta, &block.attention.out.d_bias,
            &block.mlp.norm.d_gamma,       &block.mlp.norm.d_beta,       &block.mlp.down.d_bias};
}

}  // namespace

template <class T>
void block_forward(Stream stream, const Block<T>& block, T* output, const BlockSaved<T>& saved,
                   const Workspace<T>& workspace, const Pass& pass) {
    // middle = input + attention(norm1(input))
    attention_forward(stream, block.attention, saved.middle, saved.input, saved.attention, workspace, pass);
    // output = middle + mlp(norm2(middle))
    mlp_forward(stream, block.mlp, output, saved.middle, saved.mlp, workspace, pass);
}

template <class T>
void block_backward(Stream stream, const Block<T>& block, Work work, T* d, const BlockSaved<T>& saved,
                    const Workspace<T>& workspace, const Pass& pass) {
    if (saved.recompute == Recompute::full && work != Work::weights) {
        make_again(stream, block, saved, workspace, pass);
    }
    // d_middle = d_output + mlp'(d_output)
    mlp_backward(stream, block.mlp, work, saved.recompute, d, saved.middle, saved.mlp, workspace, pass);
    // d_input = d_middle + attention'(d_middle)
    attention_backward(stream, block.attention, work, saved.recompute, d, saved.input, saved.attention, workspace,
                       pass);
}

template <class T>
void write_beside(Stream stream, Block<T>& block, GradientOf<T>* side) {
    const i64 C = block.mlp.norm.C;
    ops::fill<GradientOf<T>>(stream, side, 0, 6 * C);
    const bool biases = block.mlp.norm.beta != nullptr;
    for (GradientOf<T>** gradient : beside(block)) {
        const bool gain = gradient == &block.attention.norm.d_gamma || gradient == &block.mlp.norm.d_gamma;
        *gradient = biases || gain ? side : nullptr;
        side += C;
    }
}

template <class T>
void add_from_beside(Stream stream, const Block<T>& block, GradientOf<T>* side) {
    const i64 C = block.mlp.norm.C;
    Block<T> same = block;
    for (GradientOf<T>** gradient : beside(same)) {
        const bool lost = fault_active("split_norm_gradient_lost") && gradient == &same.mlp.norm.d_gamma;
        if (*gradient != nullptr && !lost) {
            ops::add<GradientOf<T>>(stream, *gradient, side, C);
        }
        side += C;
    }
}

#define OGROM_INSTANTIATE(T)                                                                                      \
    template void block_forward<T>(Stream, const Block<T>&, T*, const BlockSaved<T>&, const Workspace<T>&,        \
                                   const Pass&);                                                                  \
    template void block_backward<T>(Stream, const Block<T>&, Work, T*, const BlockSaved<T>&, const Workspace<T>&, \
                                    const Pass&);                                                                 \
    template void write_beside<T>(Stream, Block<T>&, GradientOf<T>*);                                             \
    template void add_from_beside<T>(Stream, const Block<T>&, GradientOf<T>*)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
