// Sums over rows, column by column, in two steps: rows are cut into splits (a function of the shape), each split's sum
// is made by 8 threads a column and kept in partial[split][K][columns]; then the splits are added to the gradient in
// double, in a fixed order.
#pragma once
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace ogrom::cuda {

inline constexpr int column_lanes = 32;  // threads side by side, V columns each
inline constexpr int row_lanes = 8;
inline constexpr int join_lanes = 16;

struct RowSplits {
    i64 count, rows;  // rows of a split; the last may be shorter
};

// Enough splits to fill a large device, at least 64 rows each.
inline RowSplits row_splits(i64 rows, i64 columns, int width) {
    constexpr i64 blocks_wanted = 1056;
    constexpr i64 fewest_rows = 64;
    const i64 column_blocks = std::max<i64>(1, ceil_div(columns, column_lanes * width));
    const i64 splits =
        std::clamp<i64>(ceil_div(blocks_wanted, column_blocks), 1, std::max<i64>(1, ceil_div(rows, fewest_rows)));
    const i64 per_split = std::max<i64>(1, ceil_div(rows, splits));
    return {ceil_div(rows, per_split), per_split};
}

// term(row, column, sums): adds the row's V columns from `column` on to sums[K]; then term.finish() by every thread,
// where it has one.
template <int V, int K, class T, class Term>
__global__ void __launch_bounds__(column_lanes* row_lanes)
    split_sums(T* partial, i64 rows, i64 columns, i64 rows_per_split, Term term) {
    __shared__ T shared[row_lanes][K][V][column_lanes];
    const i64 column = (static_cast<i64>(blockIdx.y) * column_lanes + threadIdx.x) * V;
    const i64 first = static_cast<i64>(blockIdx.x) * rows_per_split;
    const i64 last = min(rows, first + rows_per_split);
    Values<T, V> sums[K] = {};
    if (column < columns) {
#pragma unroll 4
        for (i64 row = first + threadIdx.y; row < last; row += row_lanes) {
            term(row, column, sums);
        }
    }
    if constexpr (requires { term.finish(); }) {
        term.finish();
    }
#pragma unroll
    for (int k = 0; k < K; ++k) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            shared[threadIdx.y][k][v][threadIdx.x] = sums[k].at[v];
        }
    }
    __syncthreads();
    if (threadIdx.y < K && column < columns) {
        const int k = static_cast<int>(threadIdx.y);
        Values<T, V> total;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            T sum = 0;
#pragma unroll
            for (int lane = 0; lane < row_lanes; ++lane) {
                sum += shared[lane][k][v][threadIdx.x];
            }
            total.at[v] = sum;
        }
        store<V>(partial + (static_cast<i64>(blockIdx.x) * K + k) * columns + column, total);
    }
}

template <class G, int K>
struct Gradients {
    G* at[K];
};

// at[k][c] += sum over parts p, in order inside each of 16 lanes, of partial[p][k][c]; a null gradient is passed over.
template <class G, int K, class T>
__global__ void __launch_bounds__(column_lanes* join_lanes)
    join_splits(Gradients<G, K> gradients, const T* partial, i64 parts, i64 columns) {
    __shared__ double shared[join_lanes][column_lanes];
    G* gradient = gradients.at[0];
#pragma unroll
    for (int k = 1; k < K; ++k) {
        gradient = static_cast<int>(blockIdx.y) == k ? gradients.at[k] : gradient;
    }
    if (gradient == nullptr) {
        return;
    }
    const i64 stride = K * columns;
    partial += static_cast<i64>(blockIdx.y) * columns;
    const i64 column = static_cast<i64>(blockIdx.x) * column_lanes + threadIdx.x;
    double sum = 0;
    if (column < columns) {
#pragma unroll 8
        for (i64 part = threadIdx.y; part < parts; part += join_lanes) {
            sum += static_cast<double>(partial[part * stride + column]);
        }
    }
    shared[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < columns) {
        double total = 0;
#pragma unroll
        for (int lane = 0; lane < join_lanes; ++lane) {
            total += shared[lane][threadIdx.x];
        }
        gradient[column] += static_cast<G>(total);
    }
}

template <int V, int K, class T, class Term>
void make_splits(Stream stream, T* partial, i64 rows, i64 columns, const RowSplits& splits, const Term& term,
                 const char* operation) {
    const dim3 grid(grid_of(splits.count), grid_of(ceil_div(columns, column_lanes * V)));
    split_sums<V, K>
        <<<grid, dim3(column_lanes, row_lanes), 0, native(stream)>>>(partial, rows, columns, splits.rows, term);
    check_launch(operation);
}

template <class G, int K, class T>
void add_splits(Stream stream, const Gradients<G, K>& gradients, const T* partial, i64 parts, i64 columns,
                const char* operation) {
    join_splits<<<dim3(grid_of(ceil_div(columns, column_lanes)), K), dim3(column_lanes, join_lanes), 0,
                  native(stream)>>>(gradients, partial, parts, columns);
    check_launch(operation);
}

}  // namespace ogrom::cuda
