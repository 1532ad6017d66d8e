// Hopper's tensor cores: wgmma on tiles in shared memory that the copy engine (TMA) fills. sm_90a only; kernels are
// empty in code for other processors (OGROM_NO_WGMMA). A tile has rows of 64 elements (128 bytes) with the 128-byte
// swizzle; D = 128 has two such panels side by side. The columns of a row are the sum's direction ("by rows") or its
// rows are ("by columns", transposed by the hardware). Sums of a warpgroup of 128 threads: 64 rows, 16 a warp, laid out
// as in attention_mma.cuh.
#pragma once
#include <cuda.h>
#include <cudaTypedefs.h>

#include "kernels/cuda/attention_mma.cuh"
#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/launch.cuh"

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define OGROM_NO_WGMMA
#endif

namespace ogrom::cuda {

inline constexpr int panel = 64;  // columns of a tile in one piece
inline constexpr int warpgroup = 128;

// Barrier of `threads` threads of the block.
__device__ inline void barrier_of(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- Copies. Coordinates: column, head, row, sample; what lies outside the tensor arrives as zeros.
__device__ inline void copy_box(void* to, const CUtensorMap* map, u64* barrier, int column, int head, int row,
                                int sample) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
        "[%2];" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(head), "r"(row), "r"(sample)
        : "memory");
}
template <int Rows, int D, class T>
__device__ void copy_tile(T* to, const CUtensorMap* map, u64* barrier, int head, int row, int sample) {
#pragma unroll
    for (int column = 0; column < D; column += panel) {
        copy_box(to + column * Rows, map, barrier, column, head, row, sample);
    }
}

// Map of one tensor with boxes of `rows` rows and one panel of a head.
template <class T>
CUtensorMap map_of(const T* tensor, const AttentionRows& strides, i64 head_dim, i64 heads, i64 rows, i64 batch,
                   int box_rows) {
    static const auto encode = [] {
        void* entry = nullptr;
        cudaDriverEntryPointQueryResult found{};
        check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found),
              "cuTensorMapEncodeTiled");
        return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry);
    }();
    const auto bytes = [](i64 elements) { return static_cast<cuuint64_t>(elements) * sizeof(T); };
    const cuuint64_t extents[4] = {static_cast<cuuint64_t>(head_dim), static_cast<cuuint64_t>(heads),
                                   static_cast<cuuint64_t>(rows), static_cast<cuuint64_t>(batch)};
    const i64 row = std::max(strides.row, head_dim * heads);  // one row alone may have no stride
    const cuuint64_t steps[3] = {bytes(head_dim), bytes(row),
                                 bytes(batch > 1 ? strides.batch : std::max(strides.batch, row * rows))};
    const cuuint32_t box[4] = {panel, 1, static_cast<cuuint32_t>(box_rows), 1};
    const cuuint32_t every[4] = {1, 1, 1, 1};
    constexpr CUtensorMapDataType type =
        std::is_same_v<T, Fp16> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    CUtensorMap map{};
    const CUresult status =
        encode(&map, type, 4, const_cast<T*>(tensor), extents, steps, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
               CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        fail(ExitCode::peer, "cuTensorMapEncodeTiled: error " + std::to_string(static_cast<int>(status)));
    }
    return map;
}

// ---- Operands in shared memory. `between` = bytes from one panel of 64 columns to the next (by columns only).
__device__ inline u64 operand(const void* tile, u32 between = 16) {
    const u32 address = shared_address(tile);
    return static_cast<u64>((address & 0x3FFFFU) >> 4) | (static_cast<u64>(between >> 4) << 16) |
           (u64{1024 >> 4} << 32) | (u64{1} << 62);
}

#ifndef OGROM_NO_WGMMA
__device__ inline void wgmma_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int Pending>
__device__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
// Sums that are in flight must not be touched before the wait: keeps the compiler from moving their uses up.
template <int N>
__device__ void hold(Sums<N>& sums) {
#pragma unroll
    for (auto& four : sums.at) {
        asm volatile("" : "+f"(four[0]), "+f"(four[1]), "+f"(four[2]), "+f"(four[3])::"memory");
    }
}

enum class Start { zero, add };

// sums = or += (64 x 16, shared) (16 x 64, shared)
template <class T, int ByColumnsA, int ByColumnsB>
__device__ void wgmma(Sums<8>& s, u64 a, u64 b, Start start) {
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.%37.%37 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, adds, 1, 1, %35, %36;\n"
        "}\n"
        : "+f"(s.at[0][0]), "+f"(s.at[0][1]), "+f"(s.at[0][2]), "+f"(s.at[0][3]), "+f"(s.at[1][0]), "+f"(s.at[1][1]),
          "+f"(s.at[1][2]), "+f"(s.at[1][3]), "+f"(s.at[2][0]), "+f"(s.at[2][1]), "+f"(s.at[2][2]), "+f"(s.at[2][3]),
          "+f"(s.at[3][0]), "+f"(s.at[3][1]), "+f"(s.at[3][2]), "+f"(s.at[3][3]), "+f"(s.at[4][0]), "+f"(s.at[4][1]),
          "+f"(s.at[4][2]), "+f"(s.at[4][3]), "+f"(s.at[5][0]), "+f"(s.at[5][1]), "+f"(s.at[5][2]), "+f"(s.at[5][3]),
          "+f"(s.at[6][0]), "+f"(s.at[6][1]), "+f"(s.at[6][2]), "+f"(s.at[6][3]), "+f"(s.at[7][0]), "+f"(s.at[7][1]),
          "+f"(s.at[7][2]), "+f"(s.at[7][3])
        : "l"(a), "l"(b), "r"(start == Start::add ? 1 : 0), "n"(ByColumnsA), "n"(ByColumnsB),
          "C"(OperandType<T>::name));
}

// sums = or += (64 x 16, registers) (16 x 64, shared)
template <class T, int ByColumnsB>
__device__ void wgmma(Sums<8>& s, const Fragment& a, u64 b, Start start) {
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.%39.%39 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, {%32, %33, %34, %35}, %36, adds, 1, 1, %38;\n"
        "}\n"
        : "+f"(s.at[0][0]), "+f"(s.at[0][1]), "+f"(s.at[0][2]), "+f"(s.at[0][3]), "+f"(s.at[1][0]), "+f"(s.at[1][1]),
          "+f"(s.at[1][2]), "+f"(s.at[1][3]), "+f"(s.at[2][0]), "+f"(s.at[2][1]), "+f"(s.at[2][2]), "+f"(s.at[2][3]),
          "+f"(s.at[3][0]), "+f"(s.at[3][1]), "+f"(s.at[3][2]), "+f"(s.at[3][3]), "+f"(s.at[4][0]), "+f"(s.at[4][1]),
          "+f"(s.at[4][2]), "+f"(s.at[4][3]), "+f"(s.at[5][0]), "+f"(s.at[5][1]), "+f"(s.at[5][2]), "+f"(s.at[5][3]),
          "+f"(s.at[6][0]), "+f"(s.at[6][1]), "+f"(s.at[6][2]), "+f"(s.at[6][3]), "+f"(s.at[7][0]), "+f"(s.at[7][1]),
          "+f"(s.at[7][2]), "+f"(s.at[7][3])
        : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "l"(b), "r"(start == Start::add ? 1 : 0),
          "n"(ByColumnsB), "C"(OperandType<T>::name));
}

// sums = or += (64 x 16, shared) (16 x 128, shared)
template <class T, int ByColumnsA, int ByColumnsB>
__device__ void wgmma(Sums<16>& s, u64 a, u64 b, Start start) {
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.%69.%69 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, %64, %65, adds, 1, 1, %67, %68;\n"
        "}\n"
        : "+f"(s.at[0][0]), "+f"(s.at[0][1]), "+f"(s.at[0][2]), "+f"(s.at[0][3]), "+f"(s.at[1][0]), "+f"(s.at[1][1]),
          "+f"(s.at[1][2]), "+f"(s.at[1][3]), "+f"(s.at[2][0]), "+f"(s.at[2][1]), "+f"(s.at[2][2]), "+f"(s.at[2][3]),
          "+f"(s.at[3][0]), "+f"(s.at[3][1]), "+f"(s.at[3][2]), "+f"(s.at[3][3]), "+f"(s.at[4][0]), "+f"(s.at[4][1]),
          "+f"(s.at[4][2]), "+f"(s.at[4][3]), "+f"(s.at[5][0]), "+f"(s.at[5][1]), "+f"(s.at[5][2]), "+f"(s.at[5][3]),
          "+f"(s.at[6][0]), "+f"(s.at[6][1]), "+f"(s.at[6][2]), "+f"(s.at[6][3]), "+f"(s.at[7][0]), "+f"(s.at[7][1]),
          "+f"(s.at[7][2]), "+f"(s.at[7][3]), "+f"(s.at[8][0]), "+f"(s.at[8][1]), "+f"(s.at[8][2]), "+f"(s.at[8][3]),
          "+f"(s.at[9][0]), "+f"(s.at[9][1]), "+f"(s.at[9][2]), "+f"(s.at[9][3]), "+f"(s.at[10][0]), "+f"(s.at[10][1]),
          "+f"(s.at[10][2]), "+f"(s.at[10][3]), "+f"(s.at[11][0]), "+f"(s.at[11][1]), "+f"(s.at[11][2]),
          "+f"(s.at[11][3]), "+f"(s.at[12][0]), "+f"(s.at[12][1]), "+f"(s.at[12][2]), "+f"(s.at[12][3]),
          "+f"(s.at[13][0]), "+f"(s.at[13][1]), "+f"(s.at[13][2]), "+f"(s.at[13][3]), "+f"(s.at[14][0]),
          "+f"(s.at[14][1]), "+f"(s.at[14][2]), "+f"(s.at[14][3]), "+f"(s.at[15][0]), "+f"(s.at[15][1]),
          "+f"(s.at[15][2]), "+f"(s.at[15][3])
        : "l"(a), "l"(b), "r"(start == Start::add ? 1 : 0), "n"(ByColumnsA), "n"(ByColumnsB),
          "C"(OperandType<T>::name));
}

// sums = or += (64 x 16, registers) (16 x 128, shared)
template <class T, int ByColumnsB>
__device__ void wgmma(Sums<16>& s, const Fragment& a, u64 b, Start start) {
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.%71.%71 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, {%64, %65, %66, %67}, %68, adds, 1, 1, %70;\n"
        "}\n"
        : "+f"(s.at[0][0]), "+f"(s.at[0][1]), "+f"(s.at[0][2]), "+f"(s.at[0][3]), "+f"(s.at[1][0]), "+f"(s.at[1][1]),
          "+f"(s.at[1][2]), "+f"(s.at[1][3]), "+f"(s.at[2][0]), "+f"(s.at[2][1]), "+f"(s.at[2][2]), "+f"(s.at[2][3]),
          "+f"(s.at[3][0]), "+f"(s.at[3][1]), "+f"(s.at[3][2]), "+f"(s.at[3][3]), "+f"(s.at[4][0]), "+f"(s.at[4][1]),
          "+f"(s.at[4][2]), "+f"(s.at[4][3]), "+f"(s.at[5][0]), "+f"(s.at[5][1]), "+f"(s.at[5][2]), "+f"(s.at[5][3]),
          "+f"(s.at[6][0]), "+f"(s.at[6][1]), "+f"(s.at[6][2]), "+f"(s.at[6][3]), "+f"(s.at[7][0]), "+f"(s.at[7][1]),
          "+f"(s.at[7][2]), "+f"(s.at[7][3]), "+f"(s.at[8][0]), "+f"(s.at[8][1]), "+f"(s.at[8][2]), "+f"(s.at[8][3]),
          "+f"(s.at[9][0]), "+f"(s.at[9][1]), "+f"(s.at[9][2]), "+f"(s.at[9][3]), "+f"(s.at[10][0]), "+f"(s.at[10][1]),
          "+f"(s.at[10][2]), "+f"(s.at[10][3]), "+f"(s.at[11][0]), "+f"(s.at[11][1]), "+f"(s.at[11][2]),
          "+f"(s.at[11][3]), "+f"(s.at[12][0]), "+f"(s.at[12][1]), "+f"(s.at[12][2]), "+f"(s.at[12][3]),
          "+f"(s.at[13][0]), "+f"(s.at[13][1]), "+f"(s.at[13][2]), "+f"(s.at[13][3]), "+f"(s.at[14][0]),
          "+f"(s.at[14][1]), "+f"(s.at[14][2]), "+f"(s.at[14][3]), "+f"(s.at[15][0]), "+f"(s.at[15][1]),
          "+f"(s.at[15][2]), "+f"(s.at[15][3])
        : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "l"(b), "r"(start == Start::add ? 1 : 0),
          "n"(ByColumnsB), "C"(OperandType<T>::name));
}

// sums = (64 rows of x) (8 N rows of y)^T over D columns; x, y in panels of `x_rows`, `y_rows` rows.
template <int D, int XRows, int YRows, int N, class T>
__device__ void wgmma_rows(Sums<N>& sums, const T* x, const T* y) {
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
        const int column = k % 4 * 16;
        wgmma<T, 0, 0>(sums, operand(x + k / 4 * XRows * panel + column), operand(y + k / 4 * YRows * panel + column),
                       k == 0 ? Start::zero : Start::add);
    }
}

// sums += weights (64 x 16 K, registers) rows (16 K x 8 N); rows in panels of 16 K rows.
template <int K, int N, class T>
__device__ void wgmma_weighted(Sums<N>& sums, const Fragment (&weights)[K], const T* rows, Start start) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
        wgmma<T, 1>(sums, weights[k], operand(rows + k * 16 * panel, 16 * K * panel * sizeof(T)),
                    k == 0 ? start : Start::add);
    }
}
#endif

}  // namespace ogrom::cuda
