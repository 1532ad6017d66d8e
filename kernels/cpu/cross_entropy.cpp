#include "kernels/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/common/fastmath.h"
#include "kernels/common/fault.h"
#include "kernels/common/parallel.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cuda/ops.h"

namespace ogrom::ops {
namespace {

constexpr i64 rows_at_a_time = 1024;  // losses held before they are added in order

// Largest of z, several vectors side by side (no compiler vectorises this loop by itself without -ffast-math). A NaN
// may be passed over here: the sum of exponentials shows it.
template <class T>
T largest(const T* z, i64 n) {
    typedef T Vector __attribute__((vector_size(32)));
    constexpr int vectors = 4;
    constexpr i64 step = vectors * static_cast<i64>(sizeof(Vector) / sizeof(T));
    T top = z[0];
    i64 i = 0;
    if (n >= step) {
        Vector lanes[vectors];
        std::memcpy(lanes, z, sizeof(lanes));
        for (i = step; i + step <= n; i += step) {
            Vector next[vectors];
            std::memcpy(next, z + i, sizeof(next));
            for (int v = 0; v < vectors; ++v) {
                lanes[v] = next[v] > lanes[v] ? next[v] : lanes[v];
            }
        }
        T all[step];
        std::memcpy(all, lanes, sizeof(all));
        top = *std::max_element(all, all + step);
    }
    for (; i < n; ++i) {
        top = z[i] > top ? z[i] : top;
    }
    return top;
}

// sum of exp(z - top) in double; with Store the exponentials replace the logits.
template <Gradient Store, class T>
double sum_of_exponentials(T* z, T top, i64 n) {
    return cpu::lane_sum(n, [&](i64 v) {
        const T e = exp_nonpositive(z[v] - top);
        if constexpr (Store == Gradient::in_place) {
            z[v] = e;
        }
        return static_cast<double>(e);
    });
}

template <class Op>
bool counts(const Op& op, i64 row) {
    return op.mask == nullptr || op.mask[row] != 0 || fault_active("ce_mask_ignored");
}

template <class Op>
double scale_of(const Op& op) {
    return op.scale_at != nullptr ? *op.scale_at : op.scale;
}

// A target outside would take its logit from the padding, or from nowhere.
template <class Op>
bool targets_hold(const Op& op) {
    for (i64 row = 0; row < op.rows; ++row) {
        const bool inside = op.targets[row] >= 0 && op.targets[row] < op.vocabulary;
        if (!inside && (op.mask == nullptr || op.mask[row] != 0)) {
            return false;
        }
    }
    return true;
}

// Exponentials to gradient: z[v] := scale (z[v] / sum - [v == target]), target < 0 or >= n where it is elsewhere.
template <class T>
void gradient_row(T* z, i64 n, i64 target, double scale, double sum) {
    const T factor = static_cast<T>(scale / sum);
    const bool here = target >= 0 && target < n;
    const double probability = here ? static_cast<double>(z[target]) / sum : 0;
    for (i64 v = 0; v < n; ++v) {
        z[v] *= factor;
    }
    if (here) {
        // p - 1 in double: near p = 1 the difference would lose its digits in fp32.
        z[target] = static_cast<T>(scale * (probability - 1.0));
    }
}

// Loss of one unmasked row; with a gradient asked for, the row becomes scale * (softmax - one-hot).
template <class T>
double unmasked_row(const CrossEntropy<T>& op, i64 row) {
    T* z = op.logits + row_offset(row, op.ld);
    const i64 columns = fault_active("ce_padding_counted") ? op.padded_vocabulary : op.vocabulary;
    const i64 target = op.targets[row];
    const T top = largest(z, columns);
    const double of_target = static_cast<double>(z[target]) - static_cast<double>(top);
    if (op.gradient == Gradient::none) {
        return std::log(sum_of_exponentials<Gradient::none>(z, top, columns)) - of_target;
    }
    const double sum = sum_of_exponentials<Gradient::in_place>(z, top, columns);
    gradient_row(z, columns, target, scale_of(op), sum);
    std::fill(z + columns, z + op.padded_vocabulary, T{0});
    return std::log(sum) - of_target;
}

template <class T>
double one_row(const CrossEntropy<T>& op, i64 row) {
    if (counts(op, row)) {
        return unmasked_row(op, row);
    }
    if (op.gradient == Gradient::in_place) {
        std::fill_n(op.logits + row_offset(row, op.ld), op.padded_vocabulary, T{0});
    }
    return 0;
}

// Loss of one row of a part, after both reductions; the row becomes this rank's columns of the gradient.
template <class T>
double finish_row(const CrossEntropyPart<T>& op, i64 row) {
    const bool counted = counts(op, row);
    if (op.gradient == Gradient::in_place) {
        T* z = op.logits + row_offset(row, op.ld);
        if (counted) {
            const i64 target = op.targets[row] - (fault_active("ce_first_column_lost") ? 0 : op.first_column);
            gradient_row(z, op.columns, target, scale_of(op), op.sums[row]);
        }
        std::fill(z + (counted ? op.columns : 0), z + op.padded_columns, T{0});
    }
    return counted ? std::log(op.sums[row]) - (op.sums[op.rows + row] - static_cast<double>(op.max[row])) : 0;
}

// loss_sum += loss_of(row) of the rows that count, in ascending order.
template <class Op, class Loss>
void add_losses(const Op& op, const Loss& loss_of) {
    double loss[rows_at_a_time];
    for (i64 start = 0; start < op.rows; start += rows_at_a_time) {
        const i64 rows = std::min(rows_at_a_time, op.rows - start);
        parallel_pieces(rows, [&](i64 r) { loss[r] = loss_of(start + r); });
        for (i64 r = 0; r < rows; ++r) {
            if (counts(op, start + r)) {
                *op.loss_sum += loss[r];
            }
        }
    }
}

}  // namespace

template <class T>
void cross_entropy(Stream stream, const CrossEntropy<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::cross_entropy(stream, op);
        return;
    }
    OGROM_ASSERT(targets_hold(op));
    add_losses(op, [&](i64 row) { return one_row(op, row); });
}

template <class T>
void cross_entropy_max(Stream stream, const CrossEntropyPart<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::cross_entropy_max(stream, op);
        return;
    }
    parallel_pieces(op.rows, [&](i64 row) {
        const bool any = op.columns > 0 && counts(op, row);
        op.max[row] =
            any ? largest(op.logits + row_offset(row, op.ld), op.columns) : -std::numeric_limits<T>::infinity();
    });
}

template <class T>
void cross_entropy_sum(Stream stream, const CrossEntropyPart<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::cross_entropy_sum(stream, op);
        return;
    }
    OGROM_ASSERT(targets_hold(op));
    parallel_pieces(op.rows, [&](i64 row) {
        T* z = op.logits + row_offset(row, op.ld);
        op.sums[row] = 0;
        op.sums[op.rows + row] = 0;
        if (!counts(op, row)) {
            return;
        }
        const i64 target = op.targets[row] - op.first_column;
        if (target >= 0 && target < op.columns) {
            op.sums[op.rows + row] = static_cast<double>(z[target]);
        }
        op.sums[row] = op.gradient == Gradient::none
                           ? sum_of_exponentials<Gradient::none>(z, op.max[row], op.columns)
                           : sum_of_exponentials<Gradient::in_place>(z, op.max[row], op.columns);
    });
}

template <class T>
void cross_entropy_finish(Stream stream, const CrossEntropyPart<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda::cross_entropy_finish(stream, op);
        return;
    }
    add_losses(op, [&](i64 row) { return finish_row(op, row); });
}

template void cross_entropy<float>(Stream, const CrossEntropy<float>&);
template void cross_entropy<double>(Stream, const CrossEntropy<double>&);
template void cross_entropy_max<float>(Stream, const CrossEntropyPart<float>&);
template void cross_entropy_max<double>(Stream, const CrossEntropyPart<double>&);
template void cross_entropy_sum<float>(Stream, const CrossEntropyPart<float>&);
template void cross_entropy_sum<double>(Stream, const CrossEntropyPart<double>&);
template void cross_entropy_finish<float>(Stream, const CrossEntropyPart<float>&);
template void cross_entropy_finish<double>(Stream, const CrossEntropyPart<double>&);

}  // namespace ogrom::ops
