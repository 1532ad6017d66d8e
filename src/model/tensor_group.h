// The tensor ranks of one layer and the collectives between its products (Shoeybi et al. 2019; sequence parallelism:
// Korthikanti et al. 2022). On tensor rank t of tp: heads [t H/tp, (t+1) H/tp), ffn columns and vocabulary rows alike.
//   whole  the residual stream [B, T, C] stands on every rank: behind a row-parallel product an all-reduce of y, behind
//          the backward of a column-parallel one an all-reduce of dx.
//   split  rank t holds positions [t T/tp, (t+1) T/tp): an all-gather before a column-parallel product and a
//          reduce-scatter behind a row-parallel one; backward the other way round.
// Each call waits for its end: the next product reads what it made. Bytes sent: model/tensor_traffic.h.
#pragma once
#include "src/comm/communicator.h"

namespace ogrom {

enum class Sequence { whole, split };

struct TensorGroup {
    Communicator* comm = nullptr;  // null with one rank
    int size = 1, rank = 0;
    Sequence sequence = Sequence::whole;
    ReduceOrder order = ReduceOrder::any;
    void* scratch = nullptr;  // tensor_scratch_bytes; fixed order only

    [[nodiscard]] bool splits_positions() const { return size > 1 && sequence == Sequence::split; }
};

inline constexpr std::string_view tensor_sum_label = "tensor all-reduce";
inline constexpr std::string_view tensor_gather_label = "tensor all-gather";
inline constexpr std::string_view tensor_scatter_label = "tensor reduce-scatter";

// data[count] of all ranks, summed or their maximum, on every rank. Nothing happens with one rank.
template <class T>
void sum_over(const TensorGroup& group, T* data, i64 count);
template <class T>
void max_over(const TensorGroup& group, T* data, i64 count);
// whole[B, size * part_T, C] from part[B, part_T, C] of each rank. More than one rank.
template <class T>
void gather_positions(const TensorGroup& group, T* whole, const T* part, i64 B, i64 part_T, i64 C);
// The reverse with a sum: part[B, part_T, C] = this rank's positions of the sum of whole[B, size * part_T, C].
template <class T>
void scatter_positions(const TensorGroup& group, T* part, const T* whole, i64 B, i64 part_T, i64 C);

// Scratch that the calls above need in the fixed order for at most `elements` of `element_bytes` and `rows` logits.
constexpr i64 tensor_scratch_bytes(i64 elements, i64 element_bytes, i64 rows, int size) {
    const i64 sums = fixed_order_scratch(2 * rows, size) * 8;  // of the cross-entropy, in double
    const i64 streams = fixed_order_scratch(elements, size) * element_bytes;
    return streams > sums ? streams : sums;
}

}  // namespace ogrom
