// embedding_backward of kernels/ops/embedding.h without atomics. The rows of d_y are sorted by table row (stably, so
// ascending in r within each); the sorted list is cut into pieces of 64. A run of equal table rows inside one piece is
// added to the table at once; of a run over several pieces each piece keeps its part, and the parts are added in
// ascending order. One order of summation for given tokens, whatever runs when.
#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <limits>

#include "kernels/cuda/dropout.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {
namespace {

constexpr i64 piece_rows = 64;
constexpr int column_threads = 128;
constexpr int rows_in_flight = 4;

// Table row of each row of d_y; `none` where the table does not hold it.
struct Keys {
    u32* keys;
    u32* rows;
    const std::int32_t* index;
    i64 first_row;
    u32 none;

    __device__ void operator()(i64 r) const {
        const i64 row = index[r] - first_row;
        keys[r] = row >= 0 && row < static_cast<i64>(none) ? static_cast<u32>(row) : none;
        rows[r] = static_cast<u32>(r);
    }
};

template <class T, class G>
struct Sorted {
    const u32* keys;
    const u32* rows;
    i64 count;
    u32 none;
    const T* d_y;
    i64 C;
    G* table;
    Math<T>* parts;  // [pieces, 2, C]: of the run that began before the piece, and of the run that begins in it
    Mask mask;
};

// Where a run of this piece goes: the table, or a part.
enum class Open { no, yes };

template <int V, class T, class G, class S>
__device__ void put(const Sorted<T, G>& s, i64 piece, u32 key, i64 c, const Values<S, V>& sum, Open left, Open right) {
    if (key == s.none) {
        return;
    }
    if (left == Open::no && right == Open::no) {
        G* row = s.table + static_cast<i64>(key) * s.C + c;
        Values<G, V> total = load<V>(row);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            total.at[v] += static_cast<G>(sum.at[v]);
        }
        store<V>(row, total);
    } else {
        store<V>(s.parts + (2 * piece + (left == Open::yes ? 0 : 1)) * s.C + c, sum);
    }
}

template <int V, class T, class G>
__device__ Values<T, V> masked_row(const Sorted<T, G>& s, i64 sorted, i64 c) {
    if (s.keys[sorted] == s.none) {
        return Values<T, V>{};
    }
    const i64 row = s.rows[sorted];
    Values<T, V> g = load<V>(s.d_y + row * s.C + c);
    if (s.mask.spec.p > 0) {
        s.mask.apply(g, s.mask.row_element(row) + c);
    }
    return g;
}

template <int V, class T, class G>
__global__ void __launch_bounds__(column_threads) sum_pieces(Sorted<T, G> s) {
    const i64 c = (static_cast<i64>(blockIdx.y) * column_threads + threadIdx.x) * V;
    if (c >= s.C) {
        return;
    }
    const i64 piece = blockIdx.x;
    const i64 first = piece * piece_rows;
    const i64 last = min(s.count, first + piece_rows);
    u32 key = s.keys[first];
    Open left = first > 0 && s.keys[first - 1] == key ? Open::yes : Open::no;
    Values<T, V> sum{};
    for (i64 i = first; i < last; i += rows_in_flight) {
        Values<T, V> g[rows_in_flight];
#pragma unroll
        for (int j = 0; j < rows_in_flight; ++j) {
            g[j] = i + j < last ? masked_row<V>(s, i + j, c) : Values<T, V>{};
        }
#pragma unroll
        for (int j = 0; j < rows_in_flight; ++j) {
            if (i + j < last && s.keys[i + j] != key) {
                put<V>(s, piece, key, c, sum, left, Open::no);
                key = s.keys[i + j];
                left = Open::no;
                sum = Values<T, V>{};
            }
#pragma unroll
            for (int v = 0; v < V; ++v) {
                sum.at[v] += g[j].at[v];
            }
        }
    }
    const Open right = last < s.count && s.keys[last] == key ? Open::yes : Open::no;
    put<V>(s, piece, key, c, sum, left, right);
}

// The piece in which a run over several pieces begins adds all its parts to the table.
template <int V, class T, class G>
__global__ void __launch_bounds__(column_threads) join_pieces(Sorted<T, G> s) {
    const i64 c = (static_cast<i64>(blockIdx.y) * column_threads + threadIdx.x) * V;
    const i64 piece = blockIdx.x;
    const i64 first = piece * piece_rows;
    const i64 next = first + piece_rows;
    if (c >= s.C || next >= s.count) {
        return;
    }
    const u32 key = s.keys[next];
    const bool begun_before = first > 0 && s.keys[first - 1] == key;
    if (key == s.none || s.keys[next - 1] != key || begun_before) {
        return;
    }
    auto sum = load<V>(s.parts + (2 * piece + 1) * s.C + c);
    for (i64 at = next; at < s.count && s.keys[at] == key; at += piece_rows) {
        const auto part = load<V>(s.parts + 2 * (at / piece_rows) * s.C + c);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            sum.at[v] += part.at[v];
        }
    }
    put<V>(s, piece, key, c, sum, Open::no, Open::no);
}

// Working memory: four arrays of indices, the sort's own, the parts.
struct Memory {
    i64 index_bytes, sort_bytes, parts_bytes;
    [[nodiscard]] i64 total() const { return 4 * index_bytes + sort_bytes + parts_bytes; }
};

template <class T>
Memory memory_for(i64 rows, i64 C, int bits) {
    std::size_t sort_bytes = 0;
    check(cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, static_cast<const u32*>(nullptr),
                                          static_cast<u32*>(nullptr), static_cast<const u32*>(nullptr),
                                          static_cast<u32*>(nullptr), rows, 0, bits),
          "embedding_backward");
    constexpr i64 grain = 256;
    return {round_up(rows * 4, grain), round_up(static_cast<i64>(sort_bytes), grain),
            ceil_div(rows, piece_rows) * 2 * C * static_cast<i64>(sizeof(Math<T>))};
}

// table[index[r] - first_row, :] += dropout'(d_y[r, :]) for rows 0 <= index[r] - first_row < table_rows.
template <class T, class G>
void add_rows(Stream stream, const ops::EmbeddingBackward<T>& op, G* table, const std::int32_t* index, i64 first_row,
              i64 table_rows) {
    const i64 rows = op.B * op.T_;
    OGROM_ASSERT(rows < std::numeric_limits<std::int32_t>::max() && table_rows < std::numeric_limits<u32>::max());
    const u32 none = static_cast<u32>(table_rows);
    const int bits = std::bit_width(none);
    const Memory memory = memory_for<T>(rows, op.C, bits);
    auto* start = static_cast<unsigned char*>(scratch(stream, memory.total()));
    const auto indices = [&](int i) { return reinterpret_cast<u32*>(start + i * memory.index_bytes); };
    u32* keys = indices(2);
    u32* order = indices(3);
    for_each(stream, rows, Keys{indices(0), indices(1), index, first_row, none}, "embedding_backward");
    auto sort_bytes = static_cast<std::size_t>(memory.sort_bytes);
    check(cub::DeviceRadixSort::SortPairs(start + 4 * memory.index_bytes, sort_bytes, indices(0), keys, indices(1),
                                          order, rows, 0, bits, native(stream)),
          "embedding_backward");
    auto* parts = reinterpret_cast<Math<T>*>(start + 4 * memory.index_bytes + memory.sort_bytes);
    const Sorted<T, G> sorted{keys, order, rows, none, op.d_y, op.C, table, parts, Mask(op)};
    with_width<T>(aligned16(op.d_y, table) && op.C % wide<T> == 0, [&](auto width) {
        constexpr int V = decltype(width)::value;
        const dim3 grid(grid_of(ceil_div(rows, piece_rows)), grid_of(ceil_div(op.C, column_threads * V)));
        sum_pieces<V><<<grid, column_threads, 0, native(stream)>>>(sorted);
        check_launch("embedding_backward");
        join_pieces<V><<<grid, column_threads, 0, native(stream)>>>(sorted);
        check_launch("embedding_backward");
    });
}

}  // namespace

template <class T>
void embedding_backward(Stream stream, const ops::EmbeddingBackward<T>& op) {
    if (op.B * op.T_ == 0 || op.C == 0) {
        return;
    }
    if (op.d_token_table != nullptr) {
        add_rows(stream, op, op.d_token_table, op.tokens, op.first_row, op.rows > 0 ? op.rows : op.vocabulary);
    }
    if (op.d_position_table != nullptr) {
        // The table's length is not known here: any position counts.
        add_rows(stream, op, op.d_position_table, op.positions, 0, std::numeric_limits<std::int32_t>::max());
    }
}

template void embedding_backward(Stream, const ops::EmbeddingBackward<float>&);
template void embedding_backward(Stream, const ops::EmbeddingBackward<double>&);
template void embedding_backward(Stream, const ops::EmbeddingBackward<Bf16>&);
template void embedding_backward(Stream, const ops::EmbeddingBackward<Fp16>&);

}  // namespace ogrom::cuda
