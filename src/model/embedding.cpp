// Comes in: tokens, positions [B, T] (host batch), token table [padded V, C], position table [sequence, C].
// Goes out: residual stream y [B T, C] (arena); backward: both tables' gradients, added to the flat gradients.
// Next: model/block.cpp (backward: optim/gradients.cpp)
#include "kernels/ops/embedding.h"

#include <algorithm>

#include "kernels/common/fault.h"

#include "src/model/layers.h"

namespace ogrom {

ops::DropoutSpec dropout_at(const Pass& pass, double p, i64 layer, Site site) {
    return {p, pass.seed, static_cast<u32>(layer * 4) + static_cast<u32>(site), pass.step};
}

template <class T>
void embedding_forward(Stream stream, const Embedding<T>& embedding, T* y, const std::int32_t* tokens,
                       const std::int32_t* positions, const Pass& pass) {
    // y = dropout(token_table[tokens] + position_table[positions])
    ops::embedding_forward<T>(stream, {.y = y,
                                       .token_table = embedding.token_table,
                                       .position_table = embedding.position_table,
                                       .tokens = tokens,
                                       .positions = positions,
                                       .B = pass.B,
                                       .T_ = pass.T,
                                       .C = embedding.C,
                                       .sample = pass.sample,
                                       .dropout = dropout_at(pass, pass.dropout_embedding, 0, Site::embedding)});
}

template <class T>
void embedding_backward(Stream stream, const Embedding<T>& embedding, const T* d_y, const Batch& batch,
                        const Pass& pass) {
    T* d_position_table = embedding.d_position_table;
    if (fault_active("tied_gradient_missed")) {
        std::fill_n(embedding.d_token_table, embedding.vocab * embedding.C, T(0));
    }
    if (fault_active("position_gradient_lost")) {
        d_position_table = nullptr;
    }
    // d_token_table[tokens] += dropout'(dy) ; d_position_table[positions] += dropout'(dy)
    ops::embedding_backward<T>(stream, {.d_token_table = embedding.d_token_table,
                                        .d_position_table = d_position_table,
                                        .d_y = d_y,
                                        .tokens = batch.tokens.data(),
                                        .positions = batch.positions.data(),
                                        .B = pass.B,
                                        .T_ = pass.T,
                                        .C = embedding.C,
                                        .vocabulary = embedding.vocab,
                                        .sample = pass.sample,
                                        .dropout = dropout_at(pass, pass.dropout_embedding, 0, Site::embedding)});
}

template void embedding_forward<float>(Stream, const Embedding<float>&, float*, const std::int32_t*,
                                       const std::int32_t*, const Pass&);
template void embedding_forward<double>(Stream, const Embedding<double>&, double*, const std::int32_t*,
                                        const std::int32_t*, const Pass&);
template void embedding_backward<float>(Stream, const Embedding<float>&, const float*, const Batch&, const Pass&);
template void embedding_backward<double>(Stream, const Embedding<double>&, const double*, const Batch&, const Pass&);

}  // namespace ogrom
