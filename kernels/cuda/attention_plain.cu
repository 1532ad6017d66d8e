// Attention of floats and doubles in plain arithmetic: any shape, all of kernels/ops/attention.h. A block of 16 x 16
// threads owns a tile of output rows (queries: o, dq; keys: dk and dv) and walks over the others in ascending order, so
// the sums are repeatable; the backward pass makes the scores twice (seven products). in: rows of q, k, v (and do, lse,
// o); out: o, lse (and dq, dk, dv). Thread (tx, ty) holds rows ty + 16 a and columns tx + 16 c.
#include <cmath>

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ogrom::cuda {
namespace {

constexpr int side = 16;

// Tiles in shared memory; head_dim <= side * Columns, odd pitch against bank conflicts.
template <class T, int Columns>
struct Tiles {
    static constexpr int rows = sizeof(T) == 8 ? 16 : 32;
    static constexpr int per_thread = rows / side;
    static constexpr int width = side * Columns;
    static constexpr int pitch = width + 1;
    static constexpr int elements = rows * pitch;
    static constexpr int pairs = rows * (rows + 1);
    static constexpr i64 forward_bytes = static_cast<i64>(sizeof(T)) * (2 * elements + pairs);
    static constexpr i64 backward_bytes = static_cast<i64>(sizeof(T)) * (4 * elements + 2 * pairs + 2 * rows);
};

__device__ int thread_x() {
    return static_cast<int>(threadIdx.x) % side;
}
__device__ int thread_y() {
    return static_cast<int>(threadIdx.x) / side;
}

// Rows first, first + 1, ... of one head; zeros where there are none.
template <class T, int Columns>
__device__ void fetch(T* tile, const T* from, i64 stride, int first, int count, int head_dim) {
    using S = Tiles<T, Columns>;
    for (int i = static_cast<int>(threadIdx.x); i < S::rows * S::width; i += side * side) {
        const int row = i / S::width, column = i % S::width;
        const bool there = first + row < count && column < head_dim;
        tile[row * S::pitch + column] = there ? from[(first + row) * stride + column] : T(0);
    }
}

// products[a][b] = row ty + 16 a of x . row tx + 16 b of y
template <class T, int Columns>
__device__ void dot_rows(T (&products)[Tiles<T, Columns>::per_thread][Tiles<T, Columns>::per_thread], const T* x,
                         const T* y, int head_dim) {
    using S = Tiles<T, Columns>;
    for (int a = 0; a < S::per_thread; ++a) {
        for (int b = 0; b < S::per_thread; ++b) {
            products[a][b] = T(0);
        }
    }
    for (int d = 0; d < head_dim; ++d) {
#pragma unroll
        for (int a = 0; a < S::per_thread; ++a) {
#pragma unroll
            for (int b = 0; b < S::per_thread; ++b) {
                products[a][b] += x[(thread_y() + side * a) * S::pitch + d] * y[(thread_x() + side * b) * S::pitch + d];
            }
        }
    }
}

// sums[a][c] += sum_r weight(ty + 16 a, r) rows[r][tx + 16 c]; weights lie row_step and column_step apart.
template <class T, int Columns>
__device__ void add_weighted(T (&sums)[Tiles<T, Columns>::per_thread][Columns], const T* weights, int row_step,
                             int column_step, const T* rows) {
    using S = Tiles<T, Columns>;
    for (int r = 0; r < S::rows; ++r) {
#pragma unroll
        for (int a = 0; a < S::per_thread; ++a) {
            const T weight = weights[(thread_y() + side * a) * row_step + r * column_step];
#pragma unroll
            for (int c = 0; c < Columns; ++c) {
                sums[a][c] += weight * rows[r * S::pitch + thread_x() + side * c];
            }
        }
    }
}

template <class T, int Columns>
__device__ void write_rows(T* to, i64 stride, int first, int count, int head_dim,
                           const T (&sums)[Tiles<T, Columns>::per_thread][Columns], T factor) {
    for (int a = 0; a < Tiles<T, Columns>::per_thread; ++a) {
        const int row = first + thread_y() + side * a;
        for (int c = 0; c < Columns; ++c) {
            const int column = thread_x() + side * c;
            if (row < count && column < head_dim) {
                to[row * stride + column] = sums[a][c] * factor;
            }
        }
    }
}

// Over the 16 threads that share a row.
template <class T>
__device__ T row_max(T value) {
    for (int distance = side / 2; distance > 0; distance /= 2) {
        value = max(value, __shfl_xor_sync(all_lanes, value, distance));
    }
    return value;
}
template <class T>
__device__ T row_sum(T value) {
    for (int distance = side / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(all_lanes, value, distance);
    }
    return value;
}

template <class T, int Columns>
__global__ void __launch_bounds__(side* side) plain_forward(ops::AttentionForward<T> op, AttentionView view) {
    using S = Tiles<T, Columns>;
    extern __shared__ double shared[];
    T* const q = reinterpret_cast<T*>(shared);
    T* const kv = q + S::elements;
    T* const weights = kv + S::elements;
    const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * S::rows;  // long tiles first
    const int h = static_cast<int>(blockIdx.y), b = static_cast<int>(blockIdx.z), dim = view.head_dim;
    const u32 step = view.drops() ? ops::dropout_step(view.dropout) : 0;
    const T scale = static_cast<T>(view.scale), none = -static_cast<T>(INFINITY);
    fetch<T, Columns>(q, op.q + b * view.q.batch + h * dim, view.q.row, first, view.queries, dim);
    T sums[S::per_thread][Columns] = {};
    T top[S::per_thread], total[S::per_thread] = {};
    for (T& m : top) {
        m = none;
    }
    for (int key = 0; key < view.reach(first + S::rows); key += S::rows) {
        __syncthreads();
        fetch<T, Columns>(kv, op.k + b * view.k.batch + h / view.group * dim, view.k.row, key, view.keys, dim);
        __syncthreads();
        T score[S::per_thread][S::per_thread];
        dot_rows<T, Columns>(score, q, kv, dim);
        for (int a = 0; a < S::per_thread; ++a) {
            const int i = first + thread_y() + side * a;
            T tile_top = none;
            for (int c = 0; c < S::per_thread; ++c) {
                const bool allowed = view.allowed(b, i, key + thread_x() + side * c);
                score[a][c] = allowed ? score[a][c] * scale : none;
                tile_top = max(tile_top, score[a][c]);
            }
            const T new_top = max(top[a], row_max(tile_top));
            const T shift = new_top == none ? T(0) : new_top;
            const T correction = exp(top[a] - shift);
            T sum = 0;
            for (int c = 0; c < S::per_thread; ++c) {
                const int j = key + thread_x() + side * c;
                const T p = exp(score[a][c] - shift);
                sum += p;
                const bool kept = !view.drops() || dropout_keeps(view, step, view.element(b, h, i, j));
                weights[(thread_y() + side * a) * (S::rows + 1) + thread_x() + side * c] = kept ? p : T(0);
            }
            total[a] = total[a] * correction + row_sum(sum);
            top[a] = new_top;
            for (T& value : sums[a]) {
                value *= correction;
            }
        }
        __syncthreads();
        fetch<T, Columns>(kv, op.v + b * view.v.batch + h / view.group * dim, view.v.row, key, view.keys, dim);
        __syncthreads();
        add_weighted<T, Columns>(sums, weights, S::rows + 1, 1, kv);
    }
    const T kept = static_cast<T>(1.0 / (1.0 - view.dropout.p));
    for (int a = 0; a < S::per_thread; ++a) {
        const int i = first + thread_y() + side * a;
        for (T& value : sums[a]) {
            value = total[a] == T(0) ? T(0) : value / total[a] * kept;
        }
        if (op.lse != nullptr && i < view.queries && thread_x() == 0) {
            op.lse[(static_cast<i64>(b) * view.heads + h) * view.queries + i] =
                total[a] == T(0) ? none : top[a] + log(total[a]);
        }
    }
    write_rows<T, Columns>(op.out + b * view.o.batch + h * dim, view.o.row, first, view.queries, dim, sums, T(1));
}

// One tile of pairs in shared memory.
template <class T>
struct BackwardTile {
    T *q, *k, *v, *d_out, *p, *ds, *lse, *delta;
};

template <class T, int Columns>
__device__ BackwardTile<T> backward_tile(void* shared) {
    using S = Tiles<T, Columns>;
    T* const start = static_cast<T*>(shared);
    T* const pairs = start + 4 * S::elements;
    return {start, start + S::elements, start + 2 * S::elements, start + 3 * S::elements,
            pairs, pairs + S::pairs,    pairs + 2 * S::pairs,    pairs + 2 * S::pairs + S::rows};
}

template <class T, int Columns>
__device__ void fetch_queries(const BackwardTile<T>& t, const ops::AttentionBackward<T>& op, const AttentionView& view,
                              const T* delta, int b, int h, int first) {
    const int dim = view.head_dim;
    fetch<T, Columns>(t.q, op.q + b * view.q.batch + h * dim, view.q.row, first, view.queries, dim);
    fetch<T, Columns>(t.d_out, op.d_out + b * view.o.batch + h * dim, view.o.row, first, view.queries, dim);
    const i64 row = (static_cast<i64>(b) * view.heads + h) * view.queries + first;
    for (int i = static_cast<int>(threadIdx.x); i < Tiles<T, Columns>::rows; i += side * side) {
        t.lse[i] = first + i < view.queries ? op.lse[row + i] : T(0);
        t.delta[i] = first + i < view.queries ? delta[row + i] : T(0);
    }
}

template <class T, int Columns>
__device__ void fetch_keys(const BackwardTile<T>& t, const ops::AttentionBackward<T>& op, const AttentionView& view,
                           int b, int kv_head, int first) {
    const int dim = view.head_dim;
    fetch<T, Columns>(t.k, op.k + b * view.k.batch + kv_head * dim, view.k.row, first, view.keys, dim);
    fetch<T, Columns>(t.v, op.v + b * view.v.batch + kv_head * dim, view.v.row, first, view.keys, dim);
}

// p = dropped probabilities, ds = gradients of the scores, both [query, key].
template <class T, int Columns>
__device__ void make_pairs(const BackwardTile<T>& t, const AttentionView& view, int b, int h, int query, int key) {
    using S = Tiles<T, Columns>;
    const u32 step = view.drops() ? ops::dropout_step(view.dropout) : 0;
    const T kept = static_cast<T>(1.0 / (1.0 - view.dropout.p)), scale = static_cast<T>(view.scale);
    T score[S::per_thread][S::per_thread], d_p[S::per_thread][S::per_thread];
    dot_rows<T, Columns>(score, t.q, t.k, view.head_dim);
    dot_rows<T, Columns>(d_p, t.d_out, t.v, view.head_dim);
    for (int a = 0; a < S::per_thread; ++a) {
        for (int c = 0; c < S::per_thread; ++c) {
            const int row = thread_y() + side * a, column = thread_x() + side * c;
            T p = 0, factor = 1;
            if (view.allowed(b, query + row, key + column)) {
                p = exp(score[a][c] * scale - t.lse[row]);
                if (view.drops()) {
                    const u64 element = view.element(b, h, query + row, key + column);
                    factor = dropout_keeps(view, step, element) ? kept : T(0);
                }
            }
            t.p[row * (S::rows + 1) + column] = p * factor;
            t.ds[row * (S::rows + 1) + column] = p * (factor * d_p[a][c] - t.delta[row]);
        }
    }
}

template <class T, int Columns>
__global__ void __launch_bounds__(side* side)
    plain_backward_keys(ops::AttentionBackward<T> op, AttentionView view, const T* delta) {
    using S = Tiles<T, Columns>;
    extern __shared__ double shared[];
    const auto t = backward_tile<T, Columns>(shared);
    const int key = static_cast<int>(blockIdx.x) * S::rows, dim = view.head_dim;
    const int kv_head = static_cast<int>(blockIdx.y), b = static_cast<int>(blockIdx.z);
    fetch_keys<T, Columns>(t, op, view, b, kv_head, key);
    T d_k[S::per_thread][Columns] = {}, d_v[S::per_thread][Columns] = {};
    for (int h = kv_head * view.group; h < (kv_head + 1) * view.group; ++h) {
        for (int query = view.first_query(key) / S::rows * S::rows; query < view.queries; query += S::rows) {
            __syncthreads();
            fetch_queries<T, Columns>(t, op, view, delta, b, h, query);
            __syncthreads();
            make_pairs<T, Columns>(t, view, b, h, query, key);
            __syncthreads();
            add_weighted<T, Columns>(d_v, t.p, 1, S::rows + 1, t.d_out);
            add_weighted<T, Columns>(d_k, t.ds, 1, S::rows + 1, t.q);
        }
    }
    write_rows<T, Columns>(op.d_k + b * view.k.batch + kv_head * dim, view.k.row, key, view.keys, dim, d_k,
                           static_cast<T>(view.scale));
    write_rows<T, Columns>(op.d_v + b * view.v.batch + kv_head * dim, view.v.row, key, view.keys, dim, d_v, T(1));
}

template <class T, int Columns>
__global__ void __launch_bounds__(side* side)
    plain_backward_queries(ops::AttentionBackward<T> op, AttentionView view, const T* delta) {
    using S = Tiles<T, Columns>;
    extern __shared__ double shared[];
    const auto t = backward_tile<T, Columns>(shared);
    const int query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * S::rows, dim = view.head_dim;
    const int h = static_cast<int>(blockIdx.y), b = static_cast<int>(blockIdx.z);
    fetch_queries<T, Columns>(t, op, view, delta, b, h, query);
    T d_q[S::per_thread][Columns] = {};
    for (int key = 0; key < view.reach(query + S::rows); key += S::rows) {
        __syncthreads();
        fetch_keys<T, Columns>(t, op, view, b, h / view.group, key);
        __syncthreads();
        make_pairs<T, Columns>(t, view, b, h, query, key);
        __syncthreads();
        add_weighted<T, Columns>(d_q, t.ds, S::rows + 1, 1, t.k);
    }
    write_rows<T, Columns>(op.d_q + b * view.q.batch + h * dim, view.q.row, query, view.queries, dim, d_q,
                           static_cast<T>(view.scale));
}

// delta_i = do_i . o_i, one warp a row.
template <class T>
__global__ void __launch_bounds__(flat_threads)
    plain_delta(ops::AttentionBackward<T> op, AttentionView view, T* delta) {
    const i64 rows = static_cast<i64>(view.batch) * view.heads * view.queries;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const i64 step = static_cast<i64>(gridDim.x) * (flat_threads / 32);
    for (i64 row = (static_cast<i64>(blockIdx.x) * flat_threads + threadIdx.x) / 32; row < rows; row += step) {
        const i64 i = row % view.queries, h = row / view.queries % view.heads, b = row / view.queries / view.heads;
        const i64 start = b * view.o.batch + i * view.o.row + h * view.head_dim;
        T sum = 0;
        for (int d = lane; d < view.head_dim; d += 32) {
            sum += op.out[start + d] * op.d_out[start + d];
        }
        sum = warp_sum(sum);
        if (lane == 0) {
            delta[row] = sum;
        }
    }
}

template <class Kernel>
void allow_shared(Kernel* kernel, i64 bytes) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
          "shared memory of an attention kernel");
}

dim3 grid(i64 extent, int tile, i64 heads, i64 batch) {
    return {static_cast<unsigned>(ceil_div(extent, i64{tile})), static_cast<unsigned>(heads),
            static_cast<unsigned>(batch)};
}

template <class T, int Columns>
void launch_forward(Stream stream, const ops::AttentionForward<T>& op) {
    using S = Tiles<T, Columns>;
    allow_shared(plain_forward<T, Columns>, S::forward_bytes);
    plain_forward<T, Columns><<<grid(op.shape.queries, S::rows, op.shape.heads, op.shape.batch), side * side,
                                S::forward_bytes, native(stream)>>>(op, AttentionView(op.shape));
    check_launch("attention_forward");
}

template <class T, int Columns>
void launch_backward(Stream stream, const ops::AttentionBackward<T>& op, T* delta) {
    using S = Tiles<T, Columns>;
    const AttentionView view(op.shape);
    if (op.shape.keys > 0) {
        allow_shared(plain_backward_keys<T, Columns>, S::backward_bytes);
        plain_backward_keys<T, Columns><<<grid(op.shape.keys, S::rows, op.shape.kv_heads, op.shape.batch), side * side,
                                          S::backward_bytes, native(stream)>>>(op, view, delta);
        check_launch("attention_backward of keys");
    }
    if (op.shape.queries > 0) {
        allow_shared(plain_backward_queries<T, Columns>, S::backward_bytes);
        plain_backward_queries<T, Columns><<<grid(op.shape.queries, S::rows, op.shape.heads, op.shape.batch),
                                             side * side, S::backward_bytes, native(stream)>>>(op, view, delta);
        check_launch("attention_backward of queries");
    }
}

}  // namespace

template <class T>
void attention_forward_plain(Stream stream, const ops::AttentionForward<T>& op) {
    if (op.shape.head_dim <= 64) {
        launch_forward<T, 4>(stream, op);
    } else {
        launch_forward<T, 16>(stream, op);
    }
}

template <class T>
void attention_backward_plain(Stream stream, const ops::AttentionBackward<T>& op, T* delta) {
    const i64 rows = op.shape.batch * op.shape.heads * op.shape.queries;
    if (rows > 0) {
        plain_delta<T><<<grid_of(ceil_div(rows * 32, flat_threads)), flat_threads, 0, native(stream)>>>(
            op, AttentionView(op.shape), delta);
        check_launch("attention_backward of delta");
    }
    if (op.shape.head_dim <= 64) {
        launch_backward<T, 4>(stream, op, delta);
    } else {
        launch_backward<T, 16>(stream, op, delta);
    }
}

template void attention_forward_plain(Stream, const ops::AttentionForward<float>&);
template void attention_forward_plain(Stream, const ops::AttentionForward<double>&);
template void attention_backward_plain(Stream, const ops::AttentionBackward<float>&, float*);
template void attention_backward_plain(Stream, const ops::AttentionBackward<double>&, double*);

}  // namespace ogrom::cuda
