// Tensor cores by mma.sync m16n8k16 (bf16 or fp16 in, fp32 sums) for sm_80 and newer: tiles in shared memory,
// fragments, copies. A tile has rows of D elements in 16-byte chunks; chunk c of row r lies at place c ^ (r mod 8) (mod
// 4 of r / 2 where a row is 64 bytes): the eight rows that ldmatrix reads at once lie in different banks.
#pragma once
#include <cstdint>

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/pack.cuh"

namespace ogrom::cuda {

inline constexpr int mma_threads = 128;  // 4 warps of 16 rows
inline constexpr int mma_rows = 64;

// 2^x, 0 for -inf.
__device__ inline float power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The name of T in the instructions of the tensor cores.
template <class T>
struct OperandType;
template <>
struct OperandType<Bf16> {
    static constexpr char name[] = "bf16";
};
template <>
struct OperandType<Fp16> {
    static constexpr char name[] = "f16";
};

template <int D>
__device__ int place_in_tile(int row, int chunk) {
    const int swizzled = D >= 64 ? chunk ^ (row & 7) : chunk ^ ((row >> 1) & 3);
    return row * D + swizzled * 8;
}

// 16 bytes, asynchronously; zeros where !there (the address must be readable all the same).
__device__ inline void copy_16_bytes(void* to, const void* from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
}
__device__ inline void end_copy_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int Pending>
__device__ void wait_copy_groups() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

enum class Alignment { packs, elements };  // every row of a head starts at 16 bytes and has whole packs, or not

inline constexpr i64 wide_pack = wide<Bf16>;  // and of Fp16
static_assert(wide<Fp16> == wide_pack);

template <class... P>
Alignment attention_alignment(const ops::AttentionShape& s, const P*... tensors) {
    i64 all = s.head_dim;
    for (const i64 stride : {s.query_stride, s.key_stride, s.value_stride, s.out_stride, s.query_batch_stride,
                             s.key_batch_stride, s.value_batch_stride, s.out_batch_stride}) {
        all |= stride;
    }
    return all % wide_pack == 0 && aligned16(tensors...) ? Alignment::packs : Alignment::elements;
}

// Rows first .. first + Rows - 1 of one head; zeros where there are none. Ends no copy group.
template <int Rows, int D, class T>
__device__ void fetch_tile(T* tile, const T* from, i64 stride, int first, int count, int head_dim,
                           Alignment alignment) {
    constexpr int chunks = D / 8;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < Rows * chunks; i += mma_threads) {
        const int row = i / chunks, column = i % chunks * 8;
        T* const to = tile + place_in_tile<D>(row, column / 8);
        const bool there = first + row < count && column < head_dim;
        const T* const start = there ? from + (first + row) * stride + column : from;
        if (alignment == Alignment::packs) {
            copy_16_bytes(to, start, there);
        } else {
            u32 words[4];
            for (int w = 0; w < 4; ++w) {
                const u32 low = there && column + 2 * w < head_dim ? start[2 * w].bits : 0U;
                const u32 high = there && column + 2 * w + 1 < head_dim ? start[2 * w + 1].bits : 0U;
                words[w] = low | (high << 16);
            }
            *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
}

enum class Dropout { off, on };

struct Fragment {
    u32 at[4];
};

__device__ inline Fragment load_matrices(const void* row) {
    Fragment f;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.at[0]), "=r"(f.at[1]), "=r"(f.at[2]), "=r"(f.at[3])
                 : "r"(shared_address(row))
                 : "memory");
    return f;
}
__device__ inline Fragment load_matrices_transposed(const void* row) {
    Fragment f;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.at[0]), "=r"(f.at[1]), "=r"(f.at[2]), "=r"(f.at[3])
                 : "r"(shared_address(row))
                 : "memory");
    return f;
}
template <class T>
__device__ void multiply(float (&sum)[4], const Fragment& a, u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.%10.%10.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1), "C"(OperandType<T>::name));
}

// A warp's 16 x 8 N sums: rows lane / 4 and + 8, columns 8 n + 2 (lane mod 4) and + 1; at[n][2 row + column].
template <int N>
struct Sums {
    float at[N][4];

    __device__ void clear() {
#pragma unroll
        for (auto& four : at) {
            four[0] = four[1] = four[2] = four[3] = 0.0F;
        }
    }
    // The same numbers in T as the left operand of the 16 columns from 16 k.
    template <class T>
    __device__ Fragment left(int k) const {
        return {{pack_pair<T>(at[2 * k][0], at[2 * k][1]), pack_pair<T>(at[2 * k][2], at[2 * k][3]),
                 pack_pair<T>(at[2 * k + 1][0], at[2 * k + 1][1]), pack_pair<T>(at[2 * k + 1][2], at[2 * k + 1][3])}};
    }
};

__device__ inline int lane_of() {
    return static_cast<int>(threadIdx.x) % 32;
}
__device__ inline int warp_of() {
    return static_cast<int>(threadIdx.x) / 32;
}

// sums = x (the warp's 16 rows) y^T (8 N rows), over D columns.
template <int D, int N, class T>
__device__ void multiply_rows(Sums<N>& sums, const T* x, const T* y) {
    const int lane = lane_of();
    sums.clear();
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
        const Fragment a = load_matrices(x + place_in_tile<D>(warp_of() * 16 + lane % 16, 2 * k + lane / 16));
#pragma unroll
        for (int n = 0; n < N / 2; ++n) {
            const Fragment b =
                load_matrices(y + place_in_tile<D>(n * 16 + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
            multiply<T>(sums.at[2 * n], a, b.at[0], b.at[1]);
            multiply<T>(sums.at[2 * n + 1], a, b.at[2], b.at[3]);
        }
    }
}

// out += weights (16 x 8 N) rows (8 N x D), columns first_chunk * 8 .. + 8 W of rows.
template <int D, int N, int W, class T>
__device__ void add_weighted_rows(Sums<W>& out, const Sums<N>& weights, const T* rows, int first_chunk) {
    const int lane = lane_of();
#pragma unroll
    for (int k = 0; k < N / 2; ++k) {
        const Fragment a = weights.template left<T>(k);
#pragma unroll
        for (int w = 0; w < W / 2; ++w) {
            const Fragment b =
                load_matrices_transposed(rows + place_in_tile<D>(k * 16 + lane % 16, first_chunk + 2 * w + lane / 16));
            multiply<T>(out.at[2 * w], a, b.at[0], b.at[1]);
            multiply<T>(out.at[2 * w + 1], a, b.at[2], b.at[3]);
        }
    }
}

// The warp's 16 rows of sums, times a factor for each of the thread's two rows, to rows row, row + 8 of memory.
template <int W, class T>
__device__ void write_sums(T* to, i64 stride, int first, int count, int first_column, int head_dim, const Sums<W>& sums,
                           const float (&factor)[2]) {
    const int column0 = first_column + lane_of() % 4 * 2;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int row = first + warp_of() * 16 + lane_of() / 4 + 8 * r;
        if (row >= count) {
            continue;
        }
        T* const line = to + row * stride;
#pragma unroll
        for (int w = 0; w < W; ++w) {
            const int column = column0 + 8 * w;
            const u32 pair = pack_pair<T>(sums.at[w][2 * r] * factor[r], sums.at[w][2 * r + 1] * factor[r]);
            if (column + 1 < head_dim && (reinterpret_cast<std::uintptr_t>(line + column) & 3) == 0) {
                *reinterpret_cast<u32*>(line + column) = pair;
                continue;
            }
            for (int c = 0; c < 2 && column + c < head_dim; ++c) {
                line[column + c].bits = static_cast<std::uint16_t>(pair >> (16 * c));
            }
        }
    }
}

}  // namespace ogrom::cuda
