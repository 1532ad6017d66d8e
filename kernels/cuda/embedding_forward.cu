// embedding_forward and position_forward of kernels/ops/embedding.h.
#include "kernels/cuda/dropout.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"

namespace ogrom::cuda {
namespace {

// y = dropout(token + position) for packs; a null row is 0.
template <int V, class T>
__device__ void join(T* y, const T* token, const T* position, const Mask& mask, i64 row, i64 column) {
    Values<T, V> sum = token != nullptr ? load<V>(token) : Values<T, V>{};
    if (position != nullptr) {
        const Values<T, V> added = load<V>(position);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            sum.at[v] = token != nullptr ? sum.at[v] + added.at[v] : added.at[v];
        }
    }
    if (mask.spec.p > 0) {
        mask.apply(sum, mask.row_element(row) + column);
    }
    store<V>(y, sum);
}

template <class T, int V>
struct TokenBody {
    ops::EmbeddingForward<T> op;
    RowPacks<V> packs;
    Mask mask;

    __device__ void operator()(i64 i) const {
        const auto place = packs.place(i);
        const i64 row = op.tokens[place.row] - op.first_row;
        const bool held = op.rows == 0 || (row >= 0 && row < op.rows);
        const T* token = held ? op.token_table + row * op.C + place.column : nullptr;
        const T* position =
            op.position_table == nullptr ? nullptr : op.position_table + op.positions[place.row] * op.C + place.column;
        join<V>(op.y + place.row * op.C + place.column, token, position, mask, place.row, place.column);
    }
};

template <class T, int V>
struct PositionBody {
    ops::PositionForward<T> op;
    RowPacks<V> packs;
    Mask mask;

    __device__ void operator()(i64 i) const {
        const auto place = packs.place(i);
        T* y = op.y + place.row * op.C + place.column;
        const T* position =
            op.position_table == nullptr ? nullptr : op.position_table + op.positions[place.row] * op.C + place.column;
        join<V, T>(y, y, position, mask, place.row, place.column);
    }
};

}  // namespace

template <class T>
void embedding_forward(Stream stream, const ops::EmbeddingForward<T>& op) {
    with_width<T>(aligned16(op.y, op.token_table, op.position_table) && op.C % wide<T> == 0, [&](auto width) {
        constexpr int V = decltype(width)::value;
        const RowPacks<V> packs(op.B * op.T_, op.C);
        for_each(stream, packs.count, TokenBody<T, V>{op, packs, Mask(op)}, "embedding_forward");
    });
}

template <class T>
void position_forward(Stream stream, const ops::PositionForward<T>& op) {
    if (op.position_table == nullptr && op.dropout.p == 0) {
        return;
    }
    with_width<T>(aligned16(op.y, op.position_table) && op.C % wide<T> == 0, [&](auto width) {
        constexpr int V = decltype(width)::value;
        const RowPacks<V> packs(op.B * op.T_, op.C);
        for_each(stream, packs.count, PositionBody<T, V>{op, packs, Mask(op)}, "position_forward");
    });
}

template void embedding_forward(Stream, const ops::EmbeddingForward<float>&);
template void embedding_forward(Stream, const ops::EmbeddingForward<double>&);
template void embedding_forward(Stream, const ops::EmbeddingForward<Bf16>&);
template void embedding_forward(Stream, const ops::EmbeddingForward<Fp16>&);
template void position_forward(Stream, const ops::PositionForward<float>&);
template void position_forward(Stream, const ops::PositionForward<double>&);
template void position_forward(Stream, const ops::PositionForward<Bf16>&);
template void position_forward(Stream, const ops::PositionForward<Fp16>&);

}  // namespace ogrom::cuda
