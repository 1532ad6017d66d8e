// Comes in: residual stream [B T, C] in saved.input (arena); backward: d [B T, C], gradient of the block's output.
// Goes out: output [B T, C], the next block's input; backward: d of the block's input, ranges ready from last to first.
// Next: model/attention.cpp, then model/mlp.cpp (backward: the other way round)
#include "src/model/layers.h"

namespace ogrom {

template <class T>
void block_forward(Stream stream, const Block<T>& block, T* output, const BlockSaved<T>& saved, T* workspace,
                   const Pass& pass) {
    // middle = input + attention(norm1(input))
    attention_forward(stream, block.attention, saved.middle, saved.input, saved.attention, workspace, pass);
    // output = middle + mlp(norm2(middle))
    mlp_forward(stream, block.mlp, output, saved.middle, saved.mlp, pass);
}

template <class T>
void block_backward(Stream stream, const Block<T>& block, T* d, const BlockSaved<T>& saved,
                    const Workspace<T>& workspace, const Pass& pass, const Ready& ready) {
    // d_middle = d_output + mlp'(d_output)
    mlp_backward(stream, block.mlp, d, saved.middle, saved.mlp, workspace, pass, ready);
    // d_input = d_middle + attention'(d_middle)
    attention_backward(stream, block.attention, d, saved.input, saved.attention, workspace, pass, ready);
}

#define OGROM_INSTANTIATE(T)                                                                                \
    template void block_forward<T>(Stream, const Block<T>&, T*, const BlockSaved<T>&, T*, const Pass&);     \
    template void block_backward<T>(Stream, const Block<T>&, T*, const BlockSaved<T>&, const Workspace<T>&, \
                                    const Pass&, const Ready&)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
