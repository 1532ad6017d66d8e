// in: a, b (and y when beta != 0), host memory; out: y. The packed product for processors with AVX-512: see
// matmul_tile.h for the design and the blocks.
#include <immintrin.h>

#include "kernels/cpu/matmul_tile.h"

#if defined(__clang__)
#define OGROM_UNROLL _Pragma("unroll")
#else
#define OGROM_UNROLL _Pragma("GCC unroll 16")
#endif

namespace ogrom::cpu {
namespace {

constexpr i64 lanes = 16;

constexpr i64 smaller(i64 a, i64 b) {
    return a < b ? a : b;
}

// The first `count` of 16 lanes; all of them from 16 on, none below 1.
__mmask16 first_lanes(i64 count) {
    return static_cast<__mmask16>(count >= lanes ? 0xFFFF : count <= 0 ? 0 : (1 << count) - 1);
}

// Extent of each of the fewest equal blocks of at most `limit`, rounded up to `step`.
i64 even_block(i64 extent, i64 limit, i64 step) {
    return round_up(ceil_div(extent, ceil_div(extent, limit)), step);
}

// Zeroing forms with all lanes: the plain ones of GCC 12 warn of an uninitialised value inside its own header.
__m512d pairs_low(__m512d a, __m512d b) {
    return _mm512_maskz_unpacklo_pd(0xFF, a, b);
}
__m512d pairs_high(__m512d a, __m512d b) {
    return _mm512_maskz_unpackhi_pd(0xFF, a, b);
}
__m512d low(__m512 a, __m512 b) {
    return _mm512_castps_pd(_mm512_maskz_unpacklo_ps(0xFFFF, a, b));
}
__m512d high(__m512 a, __m512 b) {
    return _mm512_castps_pd(_mm512_maskz_unpackhi_ps(0xFFFF, a, b));
}
// Quarters 0 and 2 of a, then of b; and quarters 1 and 3.
__m512 even_quarters(__m512 a, __m512 b) {
    return _mm512_maskz_shuffle_f32x4(0xFFFF, a, b, 0x88);
}
__m512 odd_quarters(__m512 a, __m512 b) {
    return _mm512_maskz_shuffle_f32x4(0xFFFF, a, b, 0xDD);
}

// rows[i][j] <-> rows[j][i] of 16 x 16.
void transpose(__m512 (&rows)[16]) {
    // After this, quarter q of rows[i + c] holds column 4 q + c of rows i .. i + 3.
    OGROM_UNROLL
    for (int i = 0; i < 16; i += 4) {
        const __m512d low01 = low(rows[i], rows[i + 1]);
        const __m512d high01 = high(rows[i], rows[i + 1]);
        const __m512d low23 = low(rows[i + 2], rows[i + 3]);
        const __m512d high23 = high(rows[i + 2], rows[i + 3]);
        rows[i] = _mm512_castpd_ps(pairs_low(low01, low23));
        rows[i + 1] = _mm512_castpd_ps(pairs_high(low01, low23));
        rows[i + 2] = _mm512_castpd_ps(pairs_low(high01, high23));
        rows[i + 3] = _mm512_castpd_ps(pairs_high(high01, high23));
    }
    OGROM_UNROLL
    for (int c = 0; c < 4; ++c) {
        const __m512 even_front = even_quarters(rows[c], rows[4 + c]);
        const __m512 odd_front = odd_quarters(rows[c], rows[4 + c]);
        const __m512 even_back = even_quarters(rows[8 + c], rows[12 + c]);
        const __m512 odd_back = odd_quarters(rows[8 + c], rows[12 + c]);
        rows[c] = even_quarters(even_front, even_back);
        rows[4 + c] = even_quarters(odd_front, odd_back);
        rows[8 + c] = odd_quarters(even_front, even_back);
        rows[12 + c] = odd_quarters(odd_front, odd_back);
    }
}

// to[p * depth * Group + l * Group + g] = element (p * Group + g, l); elements at and after `count` are 0.
// The sum runs along memory: 16 x 16 elements are turned at a time.
template <i64 Group>
void pack_turned(float* to, const Operand& from, i64 count, i64 depth) {
    for (i64 first = 0; first < count; first += Group, to += depth * Group) {
        for (i64 part = 0; part < Group; part += lanes) {
            const float* start = from.start + (first + part) * from.step;
            const i64 valid = smaller(count - first - part, smaller(lanes, Group - part));
            const __mmask16 width = first_lanes(Group - part);
            for (i64 l = 0; l < depth; l += lanes) {
                const __mmask16 tail = first_lanes(depth - l);
                __m512 rows[16];
                OGROM_UNROLL
                for (int r = 0; r < 16; ++r) {
                    // The next panel: its short row pieces begin too often for the prefetcher of the processor.
                    _mm_prefetch(reinterpret_cast<const char*>(start + (Group + r) * from.step + l), _MM_HINT_T1);
                    rows[r] = r < valid ? _mm512_maskz_loadu_ps(tail, start + r * from.step + l) : _mm512_setzero_ps();
                }
                transpose(rows);
                float* at = to + l * Group + part;
                OGROM_UNROLL
                for (int c = 0; c < 16; ++c) {
                    if (l + c < depth) {
                        _mm512_mask_storeu_ps(at + c * Group, width, rows[c]);
                    }
                }
            }
        }
    }
}

// The same when the panel runs along memory. 16 rows at a time go to all panels: reads stay near each other.
template <i64 Group>
void pack_straight(float* to, const Operand& from, i64 count, i64 depth) {
    for (i64 begin = 0; begin < depth; begin += lanes) {
        const i64 end = smaller(depth, begin + lanes);
        for (i64 first = 0; first < count; first += Group) {
            for (i64 l = begin; l < end; ++l) {
                const float* row = from.start + l * from.depth_step + first;
                float* at = to + first * depth + l * Group;
                OGROM_UNROLL
                for (i64 part = 0; part < Group; part += lanes) {
                    const __mmask16 valid = first_lanes(smaller(Group, count - first) - part);
                    _mm512_mask_storeu_ps(at + part, first_lanes(Group - part),
                                          _mm512_maskz_loadu_ps(valid, row + part));
                }
            }
        }
    }
}

template <i64 Group>
void pack(float* to, const Operand& from, i64 count, i64 depth) {
    if (from.depth_step == 1) {
        pack_turned<Group>(to, from, count, depth);
    } else {
        pack_straight<Group>(to, from, count, depth);
    }
}

struct Tile {
    float* y;
    i64 ldy, columns, depth;
    float alpha, beta;
};

// y[Rows, columns <= 32] = alpha * a b + beta * y for one panel of each operand.
template <int Rows>
void multiply(const Tile& tile, const float* a, const float* b) {
    __m512 sum[Rows][2];
    OGROM_UNROLL
    for (int r = 0; r < Rows; ++r) {
        sum[r][0] = _mm512_setzero_ps();
        sum[r][1] = _mm512_setzero_ps();
        _mm_prefetch(reinterpret_cast<const char*>(tile.y + r * tile.ldy), _MM_HINT_T0);
        _mm_prefetch(reinterpret_cast<const char*>(tile.y + r * tile.ldy + lanes), _MM_HINT_T0);
    }
    for (i64 l = 0; l < tile.depth; ++l) {
        const __m512 left = _mm512_load_ps(b);
        const __m512 right = _mm512_load_ps(b + lanes);
        OGROM_UNROLL
        for (int r = 0; r < Rows; ++r) {
            const __m512 value = _mm512_set1_ps(a[r]);
            sum[r][0] = _mm512_fmadd_ps(value, left, sum[r][0]);
            sum[r][1] = _mm512_fmadd_ps(value, right, sum[r][1]);
        }
        a += tile_rows;
        b += tile_columns;
    }
    const __m512 alpha = _mm512_set1_ps(tile.alpha);
    const __m512 beta = _mm512_set1_ps(tile.beta);
    const __mmask16 masks[2] = {first_lanes(tile.columns), first_lanes(tile.columns - lanes)};
    OGROM_UNROLL
    for (int r = 0; r < Rows; ++r) {
        OGROM_UNROLL
        for (int v = 0; v < 2; ++v) {
            float* to = tile.y + r * tile.ldy + v * lanes;
            __m512 value = _mm512_mul_ps(alpha, sum[r][v]);
            if (tile.beta != 0) {
                value = _mm512_fmadd_ps(beta, _mm512_maskz_loadu_ps(masks[v], to), value);
            }
            _mm512_mask_storeu_ps(to, masks[v], value);
        }
    }
}

using Multiply = void (*)(const Tile&, const float*, const float*);
constexpr Multiply multiply_rows[] = {multiply<1>,  multiply<2>,  multiply<3>,  multiply<4>, multiply<5>,
                                      multiply<6>,  multiply<7>,  multiply<8>,  multiply<9>, multiply<10>,
                                      multiply<11>, multiply<12>, multiply<13>, multiply<14>};
static_assert(sizeof(multiply_rows) / sizeof(Multiply) == tile_rows);

// All tiles of a packed block of a and a packed block of b: a panel of b stays in L1 while the panels of a pass.
void multiply_block(Tile tile, const float* a, const float* b, i64 rows, i64 columns) {
    float* y = tile.y;
    for (i64 j = 0; j < columns; j += tile_columns) {
        tile.columns = smaller(tile_columns, columns - j);
        for (i64 i = 0; i < rows; i += tile_rows) {
            tile.y = y + i * tile.ldy + j;
            multiply_rows[smaller(tile_rows, rows - i) - 1](tile, a + i * tile.depth, b + j * tile.depth);
        }
    }
}

}  // namespace

void product_avx512(const ProductJob& job) {
    const i64 most_rows = even_block(job.rows, block_rows, tile_rows);
    const i64 limit = job.rows <= few_rows ? block_columns_of_few_rows : block_columns;
    const i64 most_columns = even_block(job.columns, limit, tile_columns);
    const i64 most_depth = even_block(job.depth, block_depth, lanes);
    float* packed_b = job.packing;
    float* packed_a = job.packing + block_depth * block_columns;
    const auto part = [](const Operand& whole, i64 first, i64 l) {
        return Operand{whole.start + first * whole.step + l * whole.depth_step, whole.step, whole.depth_step};
    };
    for (i64 j = 0; j < job.columns; j += most_columns) {
        const i64 columns = smaller(most_columns, job.columns - j);
        for (i64 l = 0; l < job.depth; l += most_depth) {
            const i64 depth = smaller(most_depth, job.depth - l);
            pack<tile_columns>(packed_b, part(job.b, j, l), columns, depth);
            for (i64 i = 0; i < job.rows; i += most_rows) {
                const i64 rows = smaller(most_rows, job.rows - i);
                pack<tile_rows>(packed_a, part(job.a, i, l), rows, depth);
                const Tile tile{job.y + row_offset(i, job.ldy) + j,
                                job.ldy,
                                tile_columns,
                                depth,
                                job.alpha,
                                l == 0 ? job.beta : 1.0F};
                multiply_block(tile, packed_a, packed_b, rows, columns);
            }
        }
    }
}

}  // namespace ogrom::cpu
