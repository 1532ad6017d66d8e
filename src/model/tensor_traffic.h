// Bytes that one tensor rank sends, by label, for one micro-batch: sums of the formulas of comm/communicator.h. With
// R = B T rows of C columns, p ranks, e bytes an element; an all-reduce of n elements on rank r sends
// (n - own + (p - 1) own) e with own = elements r owns of n in parts of ceil(n / p); a gather and a scatter of whole
// positions send (p - 1) R/p C e.
//                     whole sequence                    split sequence
//   block forward     2 all-reduces of R C              2 gathers, 2 scatters
//   block backward    2 all-reduces of R C              4 gathers (d twice, normed rows twice), 2 scatters
//     split backward  the same, its weight half only the gathers of normed rows
//     full recompute  1 all-reduce of R C more          2 gathers, 1 scatter more (the last product is left out)
//   embedding         forward: 1 all-reduce of R C      forward: 1 scatter; backward: 1 gather
//   head              backward: 1 all-reduce of R C     1 gather, 1 scatter
//                     and for each chunk of logits (rows r): all-reduces of r maxima (e) and 2 r sums (8 bytes)
#pragma once
#include "kernels/common/dtype.h"

#include "src/model/tensor_group.h"

namespace ogrom {

struct TensorTraffic {
    i64 all_reduce = 0, all_gather = 0, reduce_scatter = 0;  // bytes sent, by label
    TensorTraffic& operator+=(const TensorTraffic& other);
};
TensorTraffic operator*(i64 times, const TensorTraffic& traffic);

// What the formulas depend on.
struct TrafficShape {
    TensorGroup group;  // size, rank, sequence
    i64 rows = 0;       // B T, all positions
    i64 hidden = 0;     // C
    i64 logits_rows = 0;
    Dtype type = Dtype::fp32;
};

TensorTraffic embedding_forward_traffic(const TrafficShape& shape);
TensorTraffic embedding_backward_traffic(const TrafficShape& shape);
TensorTraffic block_forward_traffic(const TrafficShape& shape);
TensorTraffic block_backward_traffic(const TrafficShape& shape);  // both halves
TensorTraffic block_weight_traffic(const TrafficShape& shape);    // of those, the weight half of a split backward
TensorTraffic block_again_traffic(const TrafficShape& shape);     // full recomputation, beside the backward pass
TensorTraffic head_evaluate_traffic(const TrafficShape& shape);
TensorTraffic head_backward_traffic(const TrafficShape& shape);

}  // namespace ogrom
