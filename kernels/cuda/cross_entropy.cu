// kernels/ops/cross_entropy.h, a block for each row: the largest logit, the sum of exponentials, the gradient. The
// fused way keeps a row that fits in shared memory; where two fit and there is a copy engine (sm_90), the next one
// comes while one is worked on (ahead_rows); else a row is read three times, from L2 after the first. All ways (fused,
// in parts) make the same sums in the same order; in parts, the logits stay until finish. Losses of rows are kept and
// added by one block in a fixed order.
#include <limits>

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {
namespace {

constexpr int most_threads = 1024;
constexpr int most_warps = most_threads / 32;
static_assert(most_warps == 32);  // block_max and block_sum end with one warp
constexpr int loss_threads = 1024;
constexpr i64 staged_bytes = i64{110} << 10;  // of a row in shared memory
constexpr unsigned full_warp = 0xFFFFFFFFU;

int threads_for(i64 columns) {
    return columns < 4096 ? 128 : most_threads;
}

// A NaN may be passed over here: the sum of exponentials shows it.
template <class T>
__device__ T block_max(T value, T* slots) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        const T other = __shfl_xor_sync(full_warp, value, distance);
        value = other > value ? other : value;
    }
    if (threadIdx.x % 32 == 0) {
        slots[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = slots[threadIdx.x % (blockDim.x / 32)];  // a warp reads all of them, some twice
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        const T other = __shfl_xor_sync(full_warp, value, distance);
        value = other > value ? other : value;
    }
    __syncthreads();
    return value;
}

__device__ double block_sum(double value, double* slots) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(full_warp, value, distance);
    }
    if (threadIdx.x % 32 == 0) {
        slots[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = threadIdx.x % 32 < blockDim.x / 32 ? slots[threadIdx.x % 32] : 0.0;
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(full_warp, value, distance);
    }
    __syncthreads();
    return value;
}

// body(values, column) over the packs of [0, columns) that this thread takes, then over single columns of the rest.
// `kept`: a copy of the packs, or z itself; each thread reads the packs that it wrote there.
template <int V, class T, class Body>
__device__ void over_columns(const T* kept, const T* z, i64 columns, const Body& body) {
    const i64 packs = columns / V;
#pragma unroll 4
    for (i64 p = threadIdx.x; p < packs; p += blockDim.x) {
        body(load<V>(kept + p * V), p * V);
    }
    for (i64 c = packs * V + threadIdx.x; c < columns; c += blockDim.x) {
        body(load<1>(z + c), c);
    }
}

// keep: where the packs are copied to, or null; kept: where they are read.
template <int V, class T>
__device__ Math<T> row_max(T* keep, const T* kept, const T* z, i64 columns, Math<T>* slots) {
    Math<T> top = -std::numeric_limits<Math<T>>::infinity();
    over_columns<V>(kept, z, columns, [&]<int N>(const Values<T, N>& x, i64 c) {
        if (N == V && keep != nullptr) {
            store<N>(keep + c, x);  // what was read, exactly
        }
#pragma unroll
        for (int v = 0; v < N; ++v) {
            top = x.at[v] > top ? x.at[v] : top;
        }
    });
    return block_max(top, slots);
}

template <int V, class T>
__device__ double row_sum(const T* kept, const T* z, i64 columns, Math<T> top, double* slots) {
    Math<T> sum = 0;
    over_columns<V>(kept, z, columns, [&]<int N>(const Values<T, N>& x, i64) {
#pragma unroll
        for (int v = 0; v < N; ++v) {
            sum += exponential_of<T>(x.at[v] - top);
        }
    });
    return block_sum(static_cast<double>(sum), slots);
}

template <class T>
__device__ void fill_zero(T* z, i64 first, i64 last) {
    for (i64 c = first + threadIdx.x; c < last; c += blockDim.x) {
        z[c] = static_cast<T>(Math<T>(0));
    }
}

// z_v := scale (exp(z_v - top) / sum - [v == target]); a target elsewhere is < 0 or >= columns.
template <int V, class T>
__device__ void row_gradient(const T* kept, T* z, i64 columns, i64 target, Math<T> top, double scale, double sum) {
    const auto factor = static_cast<Math<T>>(scale / sum);
    over_columns<V>(kept, z, columns, [&]<int N>(Values<T, N> x, i64 c) {
    // p - 1 in double: near p = 1 the difference would lose its digits in fp32.
#pragma unroll
        for (int v = 0; v < N; ++v) {
            const Math<T> e = exponential_of<T>(x.at[v] - top);
            x.at[v] = c + v == target ? static_cast<Math<T>>(scale * (static_cast<double>(e) / sum - 1.0)) : factor * e;
        }
        store<N>(z + c, x);
    });
}

template <class Op>
__device__ bool counts(const Op& op, i64 row) {
    return op.mask == nullptr || op.mask[row] != 0;
}

template <class Op>
__device__ double scale_of(const Op& op) {
    return op.scale_at != nullptr ? *op.scale_at : op.scale;
}

enum class Keep { nothing, row };

// loss[row]: 0 where the row does not count, NaN where its target is outside. keep: where the packs go, or null; first,
// kept: where the first pass and the others read them.
template <int V, class T>
__device__ void fused_row(const ops::CrossEntropy<T>& op, double* loss, i64 row, T* keep, const T* first,
                          const T* kept) {
    __shared__ Math<T> tops[most_warps];
    __shared__ double sums[most_warps];
    T* z = op.logits + row * op.ld;
    const bool counted = counts(op, row);
    if (counted) {
        const i64 target = op.targets[row];
        const bool inside = target >= 0 && target < op.vocabulary;
        const auto of_target = inside ? static_cast<Math<T>>(z[target]) : std::numeric_limits<Math<T>>::quiet_NaN();
        const Math<T> top = row_max<V>(keep, first, z, op.vocabulary, tops);
        const double sum = row_sum<V>(kept, z, op.vocabulary, top, sums);
        if (threadIdx.x == 0) {
            loss[row] = log(sum) - (static_cast<double>(of_target) - static_cast<double>(top));
        }
        if (op.gradient == ops::Gradient::in_place) {
            row_gradient<V>(kept, z, op.vocabulary, target, top, scale_of(op), sum);
        }
    } else if (threadIdx.x == 0) {
        loss[row] = 0;
    }
    if (op.gradient == ops::Gradient::in_place) {
        fill_zero(z, counted ? op.vocabulary : 0, op.padded_vocabulary);
    }
}

template <class T, int V>
__global__ void __launch_bounds__(most_threads) fused_rows(ops::CrossEntropy<T> op, double* loss, Keep keeping) {
    extern __shared__ uint4 memory[];
    for (i64 row = blockIdx.x; row < op.rows; row += gridDim.x) {
        T* const z = op.logits + row * op.ld;
        T* const keep = keeping == Keep::row ? reinterpret_cast<T*>(memory) : nullptr;
        fused_row<V>(op, loss, row, keep, z, keep != nullptr ? keep : z);
    }
}

// A block on each processor, with two rows in shared memory: while one is worked on, the copy engine brings the next.
// bytes: of the packs of a row.
template <class T, int V>
__global__ void __launch_bounds__(most_threads) ahead_rows(ops::CrossEntropy<T> op, double* loss, u32 bytes) {
#ifndef OGROM_NO_BULK_COPY
    extern __shared__ uint4 memory[];
    __shared__ u64 arrived[2];
    const auto buffer = [&](int turn) { return reinterpret_cast<T*>(memory + turn * (bytes / sizeof(uint4))); };
    const auto bring = [&](i64 row, int turn) {
        if (threadIdx.x == 0 && row < op.rows) {
            barrier_expect(&arrived[turn], bytes);
            bulk_copy(buffer(turn), op.logits + row * op.ld, bytes, &arrived[turn]);
        }
    };
    if (threadIdx.x == 0) {
        barrier_init(&arrived[0], 1);
        barrier_init(&arrived[1], 1);
        barriers_ready();
    }
    __syncthreads();
    bring(blockIdx.x, 0);
    int turn = 0;
    u32 parity = 0;
    for (i64 row = blockIdx.x; row < op.rows; row += gridDim.x) {
        bring(row + gridDim.x, 1 - turn);
        barrier_wait(&arrived[turn], parity);
        fused_row<V>(op, loss, row, static_cast<T*>(nullptr), buffer(turn), buffer(turn));
        __syncthreads();  // nobody reads what the engine writes next
        parity ^= static_cast<u32>(turn);
        turn = 1 - turn;
    }
#endif
}

template <class T, int V>
__global__ void __launch_bounds__(most_threads) max_rows(ops::CrossEntropyPart<T> op) {
    __shared__ Math<T> tops[most_warps];
    for (i64 row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const i64 columns = counts(op, row) ? op.columns : 0;
        const T* const z = op.logits + row * op.ld;
        const Math<T> top = row_max<V>(static_cast<T*>(nullptr), z, z, columns, tops);
        if (threadIdx.x == 0) {
            op.max[row] = top;
        }
    }
}

template <class T, int V>
__global__ void __launch_bounds__(most_threads) sum_rows(ops::CrossEntropyPart<T> op) {
    __shared__ double sums[most_warps];
    for (i64 row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const T* z = op.logits + row * op.ld;
        const bool counted = counts(op, row);
        const double sum = row_sum<V>(z, z, counted ? op.columns : 0, op.max[row], sums);
        if (threadIdx.x == 0) {
            const i64 target = op.targets[row] - op.first_column;
            const bool outside = op.targets[row] < 0 || op.targets[row] >= op.vocabulary;
            const bool here = !outside && target >= 0 && target < op.columns;
            const double elsewhere = outside ? std::numeric_limits<double>::quiet_NaN() : 0.0;
            op.sums[row] = sum;
            op.sums[op.rows + row] =
                !counted ? 0.0 : (here ? static_cast<double>(static_cast<Math<T>>(z[target])) : elsewhere);
        }
    }
}

template <class T, int V>
__global__ void __launch_bounds__(most_threads) finish_rows(ops::CrossEntropyPart<T> op, double* loss) {
    for (i64 row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const bool counted = counts(op, row);
        const double sum = op.sums[row];
        const Math<T> top = op.max[row];
        if (threadIdx.x == 0) {
            loss[row] = counted ? log(sum) - (op.sums[op.rows + row] - static_cast<double>(top)) : 0.0;
        }
        if (op.gradient == ops::Gradient::in_place) {
            T* z = op.logits + row * op.ld;
            if (counted) {
                row_gradient<V>(z, z, op.columns, op.targets[row] - op.first_column, top, scale_of(op), sum);
            }
            fill_zero(z, counted ? op.columns : 0, op.padded_columns);
        }
    }
}

// *loss_sum += the sum of loss[rows]: each thread adds neighbouring rows in ascending order, then the threads' sums are
// added in ascending order.
__global__ void __launch_bounds__(loss_threads) add_losses(double* loss_sum, const double* loss, i64 rows) {
    __shared__ double sums[loss_threads];
    const i64 each = (rows + loss_threads - 1) / loss_threads;
    const i64 first = min(rows, threadIdx.x * each);
    const i64 last = min(rows, first + each);
    double sum = 0;
#pragma unroll 8
    for (i64 row = first; row < last; ++row) {
        sum += loss[row];
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        double total = *loss_sum;
        for (int thread = 0; thread < loss_threads; ++thread) {
            total += sums[thread];
        }
        *loss_sum = total;
    }
}

template <class Op>
double* losses_of(Stream stream, const Op& op) {
    return static_cast<double*>(scratch(stream, op.rows * static_cast<i64>(sizeof(double))));
}

void add_losses_of(Stream stream, double* loss_sum, const double* loss, i64 rows) {
    add_losses<<<1, loss_threads, 0, native(stream)>>>(loss_sum, loss, rows);
    check_launch("cross_entropy");
}

i64 attribute(cudaDeviceAttr which) {
    int device = 0, value = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
    return value;
}

// Bytes beside the few that the kernels have of their own.
i64 shared_memory() {
    return attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) - 1024;
}

template <class Kernel>
std::size_t take_shared(Kernel* kernel, i64 bytes) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
          "cudaFuncSetAttribute");
    return static_cast<std::size_t>(bytes);
}

template <class T, class Op, class Run>
void with_rows(const Op& op, i64 columns, const char* operation, const Run& run) {
    if (op.rows > 0) {
        with_width<T>(aligned16(op.logits) && op.ld % wide<T> == 0, [&](auto width) {
            run(width, grid_of(op.rows), static_cast<unsigned>(threads_for(columns)));
            check_launch(operation);
        });
    }
}

}  // namespace

template <class T>
void cross_entropy(Stream stream, const ops::CrossEntropy<T>& op) {
    with_rows<T>(op, op.vocabulary, "cross_entropy", [&](auto width, unsigned blocks, unsigned threads) {
        double* loss = losses_of(stream, op);
        constexpr int V = decltype(width)::value;
        const i64 row_bytes = op.vocabulary * static_cast<i64>(sizeof(T));
        const i64 packs_bytes = row_bytes / 16 * 16;
        const bool ahead = V > 1 && threads == most_threads && 2 * packs_bytes <= shared_memory() && is_hopper();
        if (ahead) {
            const std::size_t shared = take_shared(ahead_rows<T, V>, 2 * packs_bytes);
            const auto processors = static_cast<unsigned>(attribute(cudaDevAttrMultiProcessorCount));
            ahead_rows<T, V><<<std::min(blocks, processors), threads, shared, native(stream)>>>(
                op, loss, static_cast<u32>(packs_bytes));
        } else {
            const bool fits = V > 1 && row_bytes <= std::min(staged_bytes, shared_memory());
            const std::size_t shared = fits ? take_shared(fused_rows<T, V>, row_bytes) : 0;
            fused_rows<T, V><<<blocks, threads, shared, native(stream)>>>(op, loss, fits ? Keep::row : Keep::nothing);
        }
        check_launch("cross_entropy");
        add_losses_of(stream, op.loss_sum, loss, op.rows);
    });
}

template <class T>
void cross_entropy_max(Stream stream, const ops::CrossEntropyPart<T>& op) {
    with_rows<T>(op, op.columns, "cross_entropy_max", [&](auto width, unsigned blocks, unsigned threads) {
        max_rows<T, decltype(width)::value><<<blocks, threads, 0, native(stream)>>>(op);
    });
}

template <class T>
void cross_entropy_sum(Stream stream, const ops::CrossEntropyPart<T>& op) {
    with_rows<T>(op, op.columns, "cross_entropy_sum", [&](auto width, unsigned blocks, unsigned threads) {
        sum_rows<T, decltype(width)::value><<<blocks, threads, 0, native(stream)>>>(op);
    });
}

template <class T>
void cross_entropy_finish(Stream stream, const ops::CrossEntropyPart<T>& op) {
    with_rows<T>(op, op.columns, "cross_entropy_finish", [&](auto width, unsigned blocks, unsigned threads) {
        double* loss = losses_of(stream, op);
        finish_rows<T, decltype(width)::value><<<blocks, threads, 0, native(stream)>>>(op, loss);
        check_launch("cross_entropy_finish");
        add_losses_of(stream, op.loss_sum, loss, op.rows);
    });
}

template void cross_entropy(Stream, const ops::CrossEntropy<float>&);
template void cross_entropy(Stream, const ops::CrossEntropy<double>&);
template void cross_entropy(Stream, const ops::CrossEntropy<Bf16>&);
template void cross_entropy(Stream, const ops::CrossEntropy<Fp16>&);
template void cross_entropy_max(Stream, const ops::CrossEntropyPart<float>&);
template void cross_entropy_max(Stream, const ops::CrossEntropyPart<double>&);
template void cross_entropy_max(Stream, const ops::CrossEntropyPart<Bf16>&);
template void cross_entropy_max(Stream, const ops::CrossEntropyPart<Fp16>&);
template void cross_entropy_sum(Stream, const ops::CrossEntropyPart<float>&);
template void cross_entropy_sum(Stream, const ops::CrossEntropyPart<double>&);
template void cross_entropy_sum(Stream, const ops::CrossEntropyPart<Bf16>&);
template void cross_entropy_sum(Stream, const ops::CrossEntropyPart<Fp16>&);
template void cross_entropy_finish(Stream, const ops::CrossEntropyPart<float>&);
template void cross_entropy_finish(Stream, const ops::CrossEntropyPart<double>&);
template void cross_entropy_finish(Stream, const ops::CrossEntropyPart<Bf16>&);
template void cross_entropy_finish(Stream, const ops::CrossEntropyPart<Fp16>&);

}  // namespace ogrom::cuda
