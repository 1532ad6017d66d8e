// 16-byte accesses: a pack is V neighbouring elements of a row. V = wide<T> where every pointer and row is aligned to
// 16 bytes, else 1.
#pragma once
#include <cstdint>
#include <type_traits>

#include "kernels/common/extents.h"

namespace ogrom::cuda {

template <class T>
inline constexpr int wide = 16 / static_cast<int>(sizeof(T));

template <class T, int V>
struct alignas(V * sizeof(T)) Pack {
    T at[V];
};

// The same in registers, in the type of the arithmetic.
template <class T, int V>
struct Values {
    T at[V];
};

template <int V, class T>
__device__ Values<T, V> load(const T* from) {
    const Pack<T, V> pack = *reinterpret_cast<const Pack<T, V>*>(from);
    Values<T, V> out;
#pragma unroll
    for (int i = 0; i < V; ++i) {
        out.at[i] = pack.at[i];
    }
    return out;
}

template <int V, class T>
__device__ void store(T* to, const Values<T, V>& values) {
    Pack<T, V> pack;
#pragma unroll
    for (int i = 0; i < V; ++i) {
        pack.at[i] = values.at[i];
    }
    *reinterpret_cast<Pack<T, V>*>(to) = pack;
}

template <class... P>
bool aligned16(const P*... pointers) {
    return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

// run(integral_constant<int, V>) with V = wide<T> or 1.
template <class T, class Run>
void with_width(bool wide_packs, const Run& run) {
    if (wide_packs) {
        run(std::integral_constant<int, wide<T>>{});
    } else {
        run(std::integral_constant<int, 1>{});
    }
}

// Quotients by one divisor without a division: n / d = high64(n m), m = floor(2^64 / d) + 1, exact for n d < 2^64.
struct Divider {
    u64 divisor;
    u64 multiplier;

    explicit Divider(i64 d) : divisor(static_cast<u64>(d)), multiplier(d > 1 ? ~u64{0} / static_cast<u64>(d) + 1 : 0) {}
    __device__ i64 quotient(i64 n) const {
        return divisor == 1 ? n : static_cast<i64>(__umul64hi(static_cast<u64>(n), multiplier));
    }
};

// Packs of a [rows, columns] tensor counted row by row.
template <int V>
struct RowPacks {
    Divider packs;
    i64 count;

    RowPacks(i64 rows, i64 columns) : packs(columns > 0 ? columns / V : 1), count(rows * (columns / V)) {}
    struct Place {
        i64 row, column;
    };
    __device__ Place place(i64 i) const {
        const i64 row = packs.quotient(i);
        return {row, (i - row * static_cast<i64>(packs.divisor)) * V};
    }
};

}  // namespace ogrom::cuda
