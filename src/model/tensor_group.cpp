// Comes in: partial sums or parts of positions of each tensor rank (arena). Goes out: sums or all positions.
// Next: back to the layer that called (attention.cpp, mlp.cpp, embedding.cpp, head.cpp)
#include "src/model/tensor_group.h"

namespace ogrom {

template <class T>
void sum_over(const TensorGroup& group, T* data, i64 count) {
    if (group.size > 1) {
        group.comm->all_reduce(data, count, dtype_of<T>(), ReduceOp::sum, group.order, group.scratch, tensor_sum_label)
            .wait();
    }
}

template <class T>
void max_over(const TensorGroup& group, T* data, i64 count) {
    if (group.size > 1) {
        group.comm->all_reduce(data, count, dtype_of<T>(), ReduceOp::max, group.order, group.scratch, tensor_sum_label)
            .wait();
    }
}

template <class T>
void gather_positions(const TensorGroup& group, T* whole, const T* part, i64 B, i64 part_T, i64 C) {
    group.comm->all_gather_batched(whole, part, part_T * C, B, dtype_of<T>(), tensor_gather_label).wait();
}

template <class T>
void scatter_positions(const TensorGroup& group, T* part, const T* whole, i64 B, i64 part_T, i64 C) {
    group.comm
        ->reduce_scatter_batched(part, whole, part_T * C, B, dtype_of<T>(), group.order, group.scratch,
                                 tensor_scatter_label)
        .wait();
}

#define OGROM_INSTANTIATE(T)                                                            \
    template void sum_over<T>(const TensorGroup&, T*, i64);                             \
    template void max_over<T>(const TensorGroup&, T*, i64);                             \
    template void gather_positions<T>(const TensorGroup&, T*, const T*, i64, i64, i64); \
    template void scatter_positions<T>(const TensorGroup&, T*, const T*, i64, i64, i64)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
