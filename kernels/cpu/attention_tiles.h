// Building blocks of attention on the CPU: vectors of the compiler, a register-tiled product, packing, 2^x.
// Included only by attention_avx2.cpp and attention_avx512.cpp, each with its own -march: everything here lives in an
// anonymous namespace and uses nothing of std, so that no wide instruction can leak into code of the rest of the
// program.
#pragma once
#include <cstdint>

#include "kernels/common/extents.h"
#include "kernels/cpu/attention_job.h"

#if defined(__clang__)
#define OGROM_UNROLL _Pragma("unroll")
#else
#define OGROM_UNROLL _Pragma("GCC unroll 16")
#endif

namespace ogrom::cpu {
namespace {

template <class T>
struct IntOf;
template <>
struct IntOf<float> {
    using type = std::int32_t;
};
template <>
struct IntOf<double> {
    using type = std::int64_t;
};

// One instruction set: a vector of `Bytes`, a register tile of Rows x (2 vectors).
template <class T, int Bytes, int Rows>
struct Simd {
    using Scalar = T;
    using Int = typename IntOf<T>::type;
    typedef T Vector __attribute__((vector_size(Bytes)));
    typedef Int IntVector __attribute__((vector_size(Bytes)));
    static constexpr int rows = Rows;
    static constexpr int lanes = Bytes / static_cast<int>(sizeof(T));
    static constexpr int panel = 2 * lanes;
    static constexpr i64 tile_stride = attention_block + 16;            // elements between rows of a score tile: not a
    static constexpr i64 forward_stride = attention_forward_keys + 16;  // power of two, which would alias in the cache

    static Vector load(const T* p) { return *reinterpret_cast<const Vector*>(p); }
    static Vector load_anywhere(const T* p) {
        Vector v;
        __builtin_memcpy(&v, p, sizeof(v));
        return v;
    }
    static void store(T* p, Vector v) { *reinterpret_cast<Vector*>(p) = v; }
    static Vector all(T x) { return x - Vector{}; }
};

// 2^x for x <= 126: x = n + f, |f| <= 1/2, a polynomial in f, times 2^n made from its exponent bits. Exactly 0 below
// the normal range (so also at -Inf); NaN stays NaN. fp32: Chebyshev interpolation of degree 6, 2.5e-9 before rounding;
// fp64: Taylor series to degree 13, 4e-18.
template <class S>
typename S::Vector exp2(typename S::Vector x) {
    using Vector = typename S::Vector;
    using IntVector = typename S::IntVector;
    if constexpr (sizeof(typename S::Scalar) == 4) {
        // 1.5 * 2^23 + 127: adding it rounds to an integer; the low bits then hold the exponent field of 2^n.
        constexpr float shift = 12583039.0F;
        const Vector shifted = x + shift;
        const Vector f = x - (shifted - shift);
        Vector p = 1.54614447e-4F * f + 1.34004282e-3F;
        p = p * f + 9.61805668e-3F;
        p = p * f + 5.55032723e-2F;
        p = p * f + 2.40226509e-1F;
        p = p * f + 6.93147207e-1F;
        p = p * f + 1.0F;
        const Vector power = (Vector)((IntVector)shifted << 23);
        return x < -126.0F ? Vector{} : p * power;
    } else {
        constexpr double shift = 6755399441056767.0;  // 1.5 * 2^52 + 1023
        constexpr double c[] = {1.0,
                                0.6931471805599453,
                                0.2402265069591007,
                                0.055504108664821576,
                                0.009618129107628477,
                                0.0013333558146428441,
                                0.00015403530393381606,
                                1.5252733804059838e-05,
                                1.3215486790144305e-06,
                                1.0178086009239696e-07,
                                7.054911620801121e-09,
                                4.44553827187081e-10,
                                2.5678435993488196e-11,
                                1.3691488853904124e-12};
        const Vector shifted = x + shift;
        const Vector f = x - (shifted - shift);
        Vector p = S::all(c[13]);
        OGROM_UNROLL
        for (int i = 12; i >= 0; --i) {
            p = p * f + c[i];
        }
        const Vector power = (Vector)((IntVector)shifted << 52);
        return x < -1022.0 ? Vector{} : p * power;
    }
}

enum class Store { set, add };

// c[rows x Vectors * lanes] (+)= sum over l < depth of a(r, l) * b[l]. RowStep is the distance between rows of a, and
// a_step that between its columns: an interleaved operand has RowStep 1, a row-major one has a_step 1.
template <class S, int Vectors, int RowStep, Store Mode>
void product(i64 depth, const typename S::Scalar* a, i64 a_step, const typename S::Scalar* b, i64 b_step,
             typename S::Scalar* c, i64 c_step) {
    typename S::Vector sum[S::rows][Vectors] = {};
    for (i64 l = 0; l < depth; ++l) {
        typename S::Vector right[Vectors];
        OGROM_UNROLL
        for (int v = 0; v < Vectors; ++v) {
            right[v] = S::load(b + v * S::lanes);
        }
        OGROM_UNROLL
        for (int r = 0; r < S::rows; ++r) {
            OGROM_UNROLL
            for (int v = 0; v < Vectors; ++v) {
                sum[r][v] += a[r * RowStep] * right[v];
            }
        }
        a += a_step;
        b += b_step;
    }
    OGROM_UNROLL
    for (int r = 0; r < S::rows; ++r) {
        OGROM_UNROLL
        for (int v = 0; v < Vectors; ++v) {
            typename S::Scalar* to = c + r * c_step + v * S::lanes;
            S::store(to, Mode == Store::add ? S::load(to) + sum[r][v] : sum[r][v]);
        }
    }
}

// The same over all `width` columns (a multiple of the lanes) of a row-major b and c with equal stride `width`.
template <class S, int RowStep>
void product_rows(i64 depth, const typename S::Scalar* a, i64 a_step, const typename S::Scalar* b,
                  typename S::Scalar* c, i64 width) {
    i64 column = 0;
    for (; column + S::panel <= width; column += S::panel) {
        product<S, 2, RowStep, Store::add>(depth, a, a_step, b + column, width, c + column, width);
    }
    if (column < width) {
        product<S, 1, RowStep, Store::add>(depth, a, a_step, b + column, width, c + column, width);
    }
}

template <class T>
void fill(T* to, i64 count, T value) {
    for (i64 i = 0; i < count; ++i) {
        to[i] = value;
    }
}

// Interleaves rows by `Group`: to[(row / Group) * columns * Group + column * Group + row % Group] = factor *
// from[row][column]; rows between `rows` and the next multiple of Group are zero.
template <int Group, class T>
void pack_interleaved(T* to, const T* from, i64 rows, i64 columns, i64 stride, T factor) {
    for (i64 first = 0; first < rows; first += Group, to += columns * Group) {
        const i64 count = rows - first < Group ? rows - first : Group;
        if (count < Group) {
            fill(to, columns * Group, T(0));
        }
        for (i64 r = 0; r < count; ++r) {
            const T* row = from + (first + r) * stride;
            for (i64 column = 0; column < columns; ++column) {
                to[column * Group + r] = factor * row[column];
            }
        }
    }
}

// Copies rows next to each other, each padded with zeros to `width`.
template <class T>
void pack_rows(T* to, const T* from, i64 rows, i64 columns, i64 stride, i64 width) {
    for (i64 r = 0; r < rows; ++r) {
        for (i64 column = 0; column < columns; ++column) {
            to[r * width + column] = from[r * stride + column];
        }
        fill(to + r * width + columns, width - columns, T(0));
    }
}

template <class T>
void unpack_rows(T* to, const T* from, i64 rows, i64 columns, i64 stride, i64 width, T factor) {
    for (i64 r = 0; r < rows; ++r) {
        for (i64 column = 0; column < columns; ++column) {
            to[r * stride + column] = factor * from[r * width + column];
        }
    }
}

template <class S>
typename S::Scalar sum_of(typename S::Vector v) {
    typename S::Scalar sum = 0;
    for (int i = 0; i < S::lanes; ++i) {
        sum += v[i];
    }
    return sum;
}

// x . y in double, eight running sums.
template <class T>
T dot(const T* x, const T* y, i64 count) {
    double sums[8] = {};
    i64 i = 0;
    for (; i + 8 <= count; i += 8) {
        for (i64 lane = 0; lane < 8; ++lane) {
            sums[lane] += static_cast<double>(x[i + lane]) * static_cast<double>(y[i + lane]);
        }
    }
    for (; i < count; ++i) {
        sums[0] += static_cast<double>(x[i]) * static_cast<double>(y[i]);
    }
    return static_cast<T>(((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7])));
}

constexpr i64 smaller(i64 a, i64 b) {
    return a < b ? a : b;
}
constexpr i64 larger(i64 a, i64 b) {
    return a > b ? a : b;
}

// How many of the keys [first_key, first_key + count) query i may see, position only (segments are masked apart).
template <class T>
i64 allowed(const AttentionJob<T>& job, i64 query, i64 first_key, i64 count) {
    return larger(0, smaller(count, query + job.diagonal - first_key));
}

// Scores that are not allowed become -Inf: those at and after `limit`, up to `width`, and those of another segment.
template <class T>
void mask_row(const AttentionJob<T>& job, T* scores, i64 query, i64 first_key, i64 limit, i64 width) {
    constexpr T minus_infinity = -__builtin_huge_valf();
    fill(scores + limit, width - limit, minus_infinity);
    if (job.query_segments != nullptr) {
        const std::int32_t segment = job.query_segments[query];
        const std::int32_t* segments = job.key_segments + first_key;
        for (i64 j = 0; j < limit; ++j) {
            scores[j] = segments[j] == segment ? scores[j] : minus_infinity;
        }
    }
}

// False when the segments of the two ranges lie apart as numbers, so that no pair can be allowed.
template <class T>
bool segments_may_meet(const AttentionJob<T>& job, i64 query, i64 queries, i64 key, i64 keys) {
    if (job.query_segments == nullptr) {
        return true;
    }
    std::int32_t low_q = INT32_MAX, high_q = INT32_MIN, low_k = INT32_MAX, high_k = INT32_MIN;
    for (i64 i = query; i < query + queries; ++i) {
        low_q = job.query_segments[i] < low_q ? job.query_segments[i] : low_q;
        high_q = job.query_segments[i] > high_q ? job.query_segments[i] : high_q;
    }
    for (i64 j = key; j < key + keys; ++j) {
        low_k = job.key_segments[j] < low_k ? job.key_segments[j] : low_k;
        high_k = job.key_segments[j] > high_k ? job.key_segments[j] : high_k;
    }
    return low_q <= high_k && low_k <= high_q;
}

}  // namespace
}  // namespace ogrom::cpu
