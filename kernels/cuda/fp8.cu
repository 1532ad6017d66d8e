// quantise of kernels/ops/fp8.h: one pass for the largest value (and the sums over rows), one for the codes. The second
// walks backwards: what the first has read last is still in the cache.
#include <type_traits>

#include "kernels/common/fp8.h"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {
namespace {

constexpr u32 sizes_of_pair = 0x7FFF7FFFU;

// Numbers without sign are ordered as their bits are, NaN above infinity, so the largest is found in integers and in
// any order.
__device__ void keep_largest(Fp8Scale* scale, u32 size_bits) {
    const u32 of_warp = __reduce_max_sync(0xFFFFFFFFU, size_bits);
    u32* const kept = reinterpret_cast<u32*>(&scale->largest);
    if (threadIdx.x % 32 == 0 && of_warp > *static_cast<volatile u32*>(kept)) {
        atomicMax(kept, of_warp);
    }
}

// The larger half, as the bits of a float.
__device__ u32 larger_half(u32 pair) {
    return max(pair << 16, pair & 0xFFFF0000U);
}

template <int V>
__global__ void __launch_bounds__(flat_threads) find_largest(Fp8Scale* scale, const Bf16* x, i64 packs) {
    const i64 step = static_cast<i64>(gridDim.x) * flat_threads;
    u32 pair = 0;
#pragma unroll 4
    for (i64 i = static_cast<i64>(blockIdx.x) * flat_threads + threadIdx.x; i < packs; i += step) {
        if constexpr (V == 1) {
            pair = max(pair, static_cast<u32>(x[i].bits & 0x7FFF));
        } else {
            const Pack<Bf16, V> pack = load_packed<V>(x + i * V);
#pragma unroll
            for (int j = 0; j < V / 2; ++j) {
                pair = __vmaxu2(pair, pack.pairs[j] & sizes_of_pair);
            }
        }
    }
    keep_largest(scale, larger_half(pair));
}

// Columns' sums with the largest value beside.
template <int V>
struct SumTerm {
    const Bf16* x;
    i64 columns;
    Fp8Scale* scale;
    u32 largest = 0;

    __device__ void operator()(i64 row, i64 column, Values<float, V> (&sums)[1]) {
        const Values<Bf16, V> g = load<V>(x + row * columns + column);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            sums[0].at[v] += g.at[v];
            largest = max(largest, __float_as_uint(g.at[v]) & 0x7FFFFFFFU);
        }
    }
    __device__ void finish() const {
        keep_largest(scale, largest);
    }
};

template <Dtype F>
__device__ u32 code_pair(float low, float high) {
#if __CUDA_ARCH__ >= 890
    std::uint16_t pair;
    if constexpr (F == Dtype::fp8_e4m3) {
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    } else {
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    }
    return pair;
#else
    return static_cast<u32>(to_fp8(low, F)) | static_cast<u32>(to_fp8(high, F)) << 8;
#endif
}

// Four codes of two pairs of bf16, the first in the lowest byte.
template <Dtype F>
__device__ u32 four_codes(u32 first, u32 second, float factor) {
    const u32 low = code_pair<F>(__uint_as_float(first << 16) * factor, __uint_as_float(first & 0xFFFF0000U) * factor);
    const u32 high =
        code_pair<F>(__uint_as_float(second << 16) * factor, __uint_as_float(second & 0xFFFF0000U) * factor);
    return low | high << 16;
}

// The factor; one thread of the grid writes its inverse. NaN codes are 0x7F on every device, whatever the NaN.
template <Dtype F>
__device__ float factor_of(Fp8Scale* scale, bool first) {
    const float factor = fp8_factor(scale->largest, F);
    if (first) {
        scale->inverse = 1.0F / factor;
    }
    return factor;
}

// 16 codes a thread.
template <Dtype F>
__global__ void __launch_bounds__(flat_threads)
    codes_in_rows(Fp8Code* codes, Fp8Scale* scale, const Bf16* x, i64 packs) {
    const i64 i = static_cast<i64>(gridDim.x - 1 - blockIdx.x) * flat_threads + threadIdx.x;
    const float factor = factor_of<F>(scale, i == 0);
    if (i < packs) {
        const Pack<Bf16, 8> low = load_packed<8>(x + 16 * i), high = load_packed<8>(x + 16 * i + 8);
        uint4 out;
        out.x = four_codes<F>(low.pairs[0], low.pairs[1], factor);
        out.y = four_codes<F>(low.pairs[2], low.pairs[3], factor);
        out.z = four_codes<F>(high.pairs[0], high.pairs[1], factor);
        out.w = four_codes<F>(high.pairs[2], high.pairs[3], factor);
        *reinterpret_cast<uint4*>(codes + 16 * i) = out;
    }
}

// One code a thread: shapes and addresses that do not fit 16 bytes.
template <Dtype F>
__global__ void __launch_bounds__(flat_threads)
    codes_one_by_one(Fp8Code* codes, Fp8Code* transposed, Fp8Scale* scale, const Bf16* x, i64 rows, i64 cols) {
    const i64 step = static_cast<i64>(gridDim.x) * flat_threads;
    const i64 start = static_cast<i64>(blockIdx.x) * flat_threads + threadIdx.x;
    const float factor = factor_of<F>(scale, start == 0);
    for (i64 i = start; i < rows * cols; i += step) {
        const auto code = static_cast<Fp8Code>(code_pair<F>(to_float(x[i]) * factor, 0));
        if (codes != nullptr) {
            codes[i] = code;
        }
        if (transposed != nullptr) {
            transposed[i % cols * rows + i / cols] = code;
        }
    }
}

// A tile of 128 x 128 codes, which lie in shared memory by columns: words of four rows. Groups of four words, 16 bytes
// of a column, are moved by the column's number, so that neither side meets itself in a bank.
constexpr int tile = 128;
constexpr int tile_threads = 256;
constexpr int words = tile / 4;

__device__ int word_place(int column, int word) {
    return column * words + (word / 4 ^ column / 8 % 8) * 4 + word % 4;
}

// Four rows of four codes to four columns of four codes.
__device__ void transpose_bytes(u32 (&r)[4]) {
    const u32 a = __byte_perm(r[0], r[1], 0x5140), b = __byte_perm(r[2], r[3], 0x5140);
    const u32 c = __byte_perm(r[0], r[1], 0x7362), d = __byte_perm(r[2], r[3], 0x7362);
    r[0] = __byte_perm(a, b, 0x5410);
    r[1] = __byte_perm(a, b, 0x7632);
    r[2] = __byte_perm(c, d, 0x5410);
    r[3] = __byte_perm(c, d, 0x7632);
}

// A thread's part of the tile: 8 columns of 4 rows. A warp has 64 columns of 16 rows, a block all columns of 64 rows;
// each does it twice.
template <Dtype F, bool Rows>
__global__ void __launch_bounds__(tile_threads, 4)
    codes_both_ways(Fp8Code* codes, Fp8Code* transposed, Fp8Scale* scale, const Bf16* x, i64 rows, i64 cols) {
    __shared__ __align__(16) u32 shared[tile * words];
    const i64 row0 = static_cast<i64>(gridDim.y - 1 - blockIdx.y) * tile;
    const i64 column0 = static_cast<i64>(gridDim.x - 1 - blockIdx.x) * tile;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int column = warp % 2 * 64 + lane % 8 * 8;
    Pack<Bf16, 8> packs[2][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const i64 row = row0 + half * 64 + warp / 2 * 16 + lane / 8 * 4 + i;
            packs[half][i] = row < rows && column0 + column < cols ? load_packed<8>(x + row * cols + column0 + column)
                                                                   : Pack<Bf16, 8>{};
        }
    }
    const float factor = factor_of<F>(scale, threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int word = half * 16 + warp / 2 * 4 + lane / 8;
        u32 left[4], right[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            left[i] = four_codes<F>(packs[half][i].pairs[0], packs[half][i].pairs[1], factor);
            right[i] = four_codes<F>(packs[half][i].pairs[2], packs[half][i].pairs[3], factor);
            const i64 row = row0 + word * 4 + i;
            if (Rows && row < rows && column0 + column < cols) {
                *reinterpret_cast<uint2*>(codes + row * cols + column0 + column) = make_uint2(left[i], right[i]);
            }
        }
        transpose_bytes(left);
        transpose_bytes(right);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            shared[word_place(column + j, word)] = left[j];
            shared[word_place(column + 4 + j, word)] = right[j];
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int unit = i * tile_threads + static_cast<int>(threadIdx.x);
        const int mine = unit / 8, group = unit % 8;
        const i64 row = row0 + group * 16;
        if (row < rows && column0 + mine < cols) {
            *reinterpret_cast<uint4*>(transposed + (column0 + mine) * rows + row) =
                *reinterpret_cast<const uint4*>(&shared[word_place(mine, group * 4)]);
        }
    }
}

void measure(Stream stream, const ops::Quantise<Bf16>& op) {
    check(cudaMemsetAsync(op.scale, 0, sizeof(Fp8Scale), native(stream)), "quantise");
    const bool fits = op.cols % wide<Bf16> == 0 && aligned16(op.x);
    with_width<Bf16>(fits, [&](auto width) {
        constexpr int V = decltype(width)::value;
        if (op.column_sums != nullptr) {
            const RowSplits splits = row_splits(op.rows, op.cols, V);
            auto* const partial =
                static_cast<float*>(scratch(stream, splits.count * op.cols * static_cast<i64>(sizeof(float))));
            make_splits<V, 1>(stream, partial, op.rows, op.cols, splits, SumTerm<V>{op.x, op.cols, op.scale},
                              "quantise");
            add_splits(stream, Gradients<float, 1>{{op.column_sums}}, partial, splits.count, op.cols, "quantise");
        } else {
            constexpr i64 most_blocks = 2112;  // 16 for each multiprocessor of a large device
            const i64 packs = op.rows * op.cols / V;
            find_largest<V>
                <<<grid_of(ceil_div(packs, 4 * flat_threads), most_blocks), flat_threads, 0, native(stream)>>>(
                    op.scale, op.x, packs);
            check_launch("quantise");
        }
    });
}

template <Dtype F>
void encode(Stream stream, const ops::Quantise<Bf16>& op) {
    const i64 n = op.rows * op.cols;
    if (op.transposed == nullptr && n % 16 == 0 && aligned16(op.x, op.codes)) {
        codes_in_rows<F><<<grid_of(ceil_div(n / 16, flat_threads)), flat_threads, 0, native(stream)>>>(
            op.codes, op.scale, op.x, n / 16);
    } else if (op.cols % 8 == 0 && op.rows % 16 == 0 && aligned16(op.x, op.codes, op.transposed)) {
        const dim3 grid(static_cast<unsigned>(ceil_div(op.cols, tile)), static_cast<unsigned>(ceil_div(op.rows, tile)));
        const auto kernel = op.codes != nullptr ? codes_both_ways<F, true> : codes_both_ways<F, false>;
        kernel<<<grid, tile_threads, 0, native(stream)>>>(op.codes, op.transposed, op.scale, op.x, op.rows, op.cols);
    } else {
        codes_one_by_one<F><<<grid_of(ceil_div(n, flat_threads)), flat_threads, 0, native(stream)>>>(
            op.codes, op.transposed, op.scale, op.x, op.rows, op.cols);
    }
    check_launch("quantise");
}

}  // namespace

void quantise(Stream stream, const ops::Quantise<Bf16>& op) {
    if (op.rows == 0 || op.cols == 0) {
        return;
    }
    if (op.largest == ops::Largest::measured) {
        measure(stream, op);
    }
    if (op.format == Dtype::fp8_e4m3) {
        encode<Dtype::fp8_e4m3>(stream, op);
    } else {
        encode<Dtype::fp8_e5m2>(stream, op);
    }
}

}  // namespace ogrom::cuda
