// Comes in: tokens, positions [B, T] (batch view), this rank's rows of the token table, position table [sequence, C].
// Goes out: residual stream y [rows, C] (arena); backward: both tables' gradients, added to the unit's gradients.
// Next: model/block.cpp (backward: back to model/stage.cpp)
#include "kernels/ops/embedding.h"

#include "kernels/common/fault.h"
#include "kernels/ops/residual.h"

#include "src/model/layers.h"

namespace ogrom {

ops::DropoutSpec dropout_at(const Pass& pass, double p, i64 layer, Site site) {
    return {p, pass.seed, static_cast<u32>(layer * 4) + static_cast<u32>(site), pass.step, pass.step_at};
}

namespace {

ops::DropoutSpec dropout_of(const Pass& pass) {
    return dropout_at(pass, pass.dropout_embedding, 0, Site::embedding);
}

// y = sum over tensor ranks of token_table[tokens], 0 where the row is another rank's
template <class T>
void look_up(Stream stream, const Embedding<T>& embedding, T* y, const std::int32_t* tokens,
             const Workspace<T>& workspace, const Pass& pass) {
    const bool split = pass.tensor.splits_positions();
    T* const all = split ? workspace.gathered : y;
    ops::embedding_forward<T>(stream, {.y = all,
                                       .token_table = embedding.token_table,
                                       .position_table = nullptr,
                                       .tokens = tokens,
                                       .positions = nullptr,
                                       .B = pass.B,
                                       .T_ = pass.T,
                                       .C = embedding.C,
                                       .sample = nullptr,
                                       .dropout = {},
                                       .first_row = embedding.first_row,
                                       .rows = embedding.rows});
    if (split) {
        scatter_positions(pass.tensor, y, all, pass.B, pass.part_T, embedding.C);
    } else {
        sum_over(pass.tensor, y, pass.rows() * embedding.C);
    }
}

// Calls of one sample each where a rank holds a part of its positions: those of the batch stand T apart.
i64 samples_at_once(const Pass& pass) {
    return pass.part_T == pass.T ? pass.B : 1;
}

}  // namespace

template <class T>
void embedding_forward(Stream stream, const Embedding<T>& embedding, T* y, const std::int32_t* tokens,
                       const std::int32_t* positions, const Workspace<T>& workspace, const Pass& pass) {
    if (pass.tensor.size == 1) {
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
                                           .dropout = dropout_of(pass)});
        return;
    }
    look_up(stream, embedding, y, tokens, workspace, pass);
    // y = dropout(y + position_table[positions])
    const i64 samples = samples_at_once(pass);
    for (i64 b = 0; b < pass.B; b += samples) {
        ops::position_forward<T>(stream, {.y = y + b * pass.part_T * embedding.C,
                                          .position_table = embedding.position_table,
                                          .positions = positions + b * pass.T + pass.position0,
                                          .B = samples,
                                          .T_ = pass.part_T,
                                          .C = embedding.C,
                                          .sample = pass.sample + b,
                                          .dropout = dropout_of(pass),
                                          .position0 = pass.position0,
                                          .T_total = pass.T});
    }
}

namespace {

// Positions split over ranks: dropout and the position table by this rank's rows, the token table by all of them.
template <class T>
void backward_of_parts(Stream stream, const Embedding<T>& embedding, GradientOf<T>* d_position_table, T* d_y,
                       const BatchView& batch, const Workspace<T>& workspace, const Pass& pass) {
    const i64 C = embedding.C;
    if (pass.dropout_embedding > 0) {
        ops::dropout_backward<T>(stream, {.d_branch = d_y,
                                          .d_y = d_y,
                                          .B = pass.B,
                                          .T_ = pass.part_T,
                                          .C = C,
                                          .sample = pass.sample,
                                          .dropout = dropout_of(pass),
                                          .position0 = pass.position0,
                                          .T_total = pass.T});
    }
    ops::EmbeddingBackward<T> op{.d_token_table = nullptr,
                                 .d_position_table = d_position_table,
                                 .d_y = nullptr,
                                 .tokens = nullptr,
                                 .positions = nullptr,
                                 .B = 1,
                                 .T_ = pass.part_T,
                                 .C = C,
                                 .vocabulary = embedding.vocab,
                                 .sample = nullptr,
                                 .dropout = {}};
    for (i64 b = 0; b < pass.B; ++b) {
        const i64 first = b * pass.T + pass.position0;
        op.d_y = d_y + b * pass.part_T * C;
        op.tokens = batch.tokens + first;
        op.positions = batch.positions + first;
        ops::embedding_backward<T>(stream, op);
    }
    op.d_token_table = embedding.d_token_table;
    op.d_position_table = nullptr;
    op.d_y = rows_of_all<T>(d_y, C, workspace, pass);
    op.tokens = batch.tokens;
    op.B = pass.B;
    op.T_ = pass.T;
    op.first_row = embedding.first_row;
    op.rows = embedding.rows;
    ops::embedding_backward<T>(stream, op);
}

}  // namespace

template <class T>
void embedding_backward(Stream stream, const Embedding<T>& embedding, T* d_y, const BatchView& batch,
                        const Workspace<T>& workspace, const Pass& pass) {
    GradientOf<T>* d_position_table = embedding.d_position_table;
    if (fault_active("position_gradient_lost")) {
        d_position_table = nullptr;
    }
    if (pass.tensor.splits_positions()) {
        backward_of_parts(stream, embedding, d_position_table, d_y, batch, workspace, pass);
        return;
    }
    // d_token_table[tokens] += dropout'(dy) ; d_position_table[positions] += dropout'(dy)
    ops::embedding_backward<T>(stream, {.d_token_table = embedding.d_token_table,
                                        .d_position_table = d_position_table,
                                        .d_y = d_y,
                                        .tokens = batch.tokens,
                                        .positions = batch.positions,
                                        .B = pass.B,
                                        .T_ = pass.T,
                                        .C = embedding.C,
                                        .vocabulary = embedding.vocab,
                                        .sample = pass.sample,
                                        .dropout = dropout_of(pass),
                                        .first_row = embedding.first_row,
                                        .rows = embedding.rows});
}

#define OGROM_INSTANTIATE(T)                                                                                      \
    template void embedding_forward<T>(Stream, const Embedding<T>&, T*, const std::int32_t*, const std::int32_t*, \
                                       const Workspace<T>&, const Pass&);                                         \
    template void embedding_backward<T>(Stream, const Embedding<T>&, T*, const BatchView&, const Workspace<T>&,   \
                                        const Pass&)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
