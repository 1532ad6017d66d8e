#include "src/model/tensor_traffic.h"

#include <algorithm>

namespace ogrom {
namespace {

i64 all_reduce_bytes(i64 count, i64 element, const TensorGroup& group) {
    const i64 part = ceil_div(count, i64{group.size});
    const i64 own = std::clamp<i64>(count - group.rank * part, 0, part);
    return (count - own + (group.size - 1) * own) * element;
}

// `sums` row-parallel sums, `gathers` of all positions, where the sequence is split; else `sums` all-reduces.
TensorTraffic streams(const TrafficShape& shape, i64 sums, i64 gathers) {
    const TensorGroup& group = shape.group;
    const i64 element = size_of(shape.type);
    TensorTraffic traffic;
    if (group.size == 1) {
        return traffic;
    }
    if (!group.splits_positions()) {
        traffic.all_reduce = sums * all_reduce_bytes(shape.rows * shape.hidden, element, group);
        return traffic;
    }
    const i64 part = (group.size - 1) * (shape.rows / group.size) * shape.hidden * element;
    traffic.all_gather = gathers * part;
    traffic.reduce_scatter = sums * part;
    return traffic;
}

TensorTraffic cross_entropy(const TrafficShape& shape) {
    TensorTraffic traffic;
    for (i64 first = 0; shape.group.size > 1 && first < shape.rows; first += shape.logits_rows) {
        const i64 rows = std::min(shape.logits_rows, shape.rows - first);
        const Dtype statistic = has_16_bits(shape.type) ? Dtype::fp32 : shape.type;
        traffic.all_reduce += all_reduce_bytes(rows, size_of(statistic), shape.group);
        traffic.all_reduce += all_reduce_bytes(2 * rows, size_of(Dtype::fp64), shape.group);
    }
    return traffic;
}

}  // namespace

TensorTraffic& TensorTraffic::operator+=(const TensorTraffic& other) {
    all_reduce += other.all_reduce;
    all_gather += other.all_gather;
    reduce_scatter += other.reduce_scatter;
    return *this;
}
TensorTraffic operator*(i64 times, const TensorTraffic& traffic) {
    return {times * traffic.all_reduce, times * traffic.all_gather, times * traffic.reduce_scatter};
}

TensorTraffic embedding_forward_traffic(const TrafficShape& shape) {
    return streams(shape, 1, 0);
}
TensorTraffic embedding_backward_traffic(const TrafficShape& shape) {
    return streams(shape, 0, 1);
}
TensorTraffic block_forward_traffic(const TrafficShape& shape) {
    return streams(shape, 2, 2);
}
TensorTraffic block_backward_traffic(const TrafficShape& shape) {
    return streams(shape, 2, 4);
}
TensorTraffic block_weight_traffic(const TrafficShape& shape) {
    return streams(shape, 0, 2);
}
TensorTraffic block_again_traffic(const TrafficShape& shape) {
    return streams(shape, 1, 2);
}
TensorTraffic head_evaluate_traffic(const TrafficShape& shape) {
    TensorTraffic traffic = streams(shape, 0, 1);
    traffic += cross_entropy(shape);
    return traffic;
}
TensorTraffic head_backward_traffic(const TrafficShape& shape) {
    TensorTraffic traffic = streams(shape, 1, 1);
    traffic += cross_entropy(shape);
    return traffic;
}

}  // namespace ogrom
