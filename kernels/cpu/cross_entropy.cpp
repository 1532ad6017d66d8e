#include "kernels/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/common/fastmath.h"
#include "kernels/common/fault.h"
#include "kernels/common/parallel.h"
#include "kernels/cpu/lanes.h"

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

template <class T>
bool counts(const CrossEntropy<T>& op, i64 row) {
    return op.mask == nullptr || op.mask[row] != 0 || fault_active("ce_mask_ignored");
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
    const double factor = op.scale / sum;
    const double probability = static_cast<double>(z[target]) / sum;
    const T factor_t = static_cast<T>(factor);
    for (i64 v = 0; v < columns; ++v) {
        z[v] *= factor_t;
    }
    // p - 1 in double: near p = 1 the difference would lose its digits in fp32.
    z[target] = static_cast<T>(op.scale * (probability - 1.0));
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

}  // namespace

template <class T>
void cross_entropy(Stream stream, const CrossEntropy<T>& op) {
    if (stream.backend == Backend::cuda) {
        cuda_not_compiled("cross_entropy");
    }
    double loss[rows_at_a_time];
    for (i64 start = 0; start < op.rows; start += rows_at_a_time) {
        const i64 rows = std::min(rows_at_a_time, op.rows - start);
        parallel_pieces(rows, [&](i64 r) { loss[r] = one_row(op, start + r); });
        for (i64 r = 0; r < rows; ++r) {
            if (counts(op, start + r)) {
                *op.loss_sum += loss[r];
            }
        }
    }
}

template void cross_entropy<float>(Stream, const CrossEntropy<float>&);
template void cross_entropy<double>(Stream, const CrossEntropy<double>&);

}  // namespace ogrom::ops
