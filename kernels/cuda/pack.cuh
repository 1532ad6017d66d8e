// 16-byte accesses: a pack is V neighbouring elements of a row. V = wide<T> where every pointer and row is aligned to
// 16 bytes, else 1. In registers elements have the type of the arithmetic: types of 16 bits are
// float there.
#pragma once
#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/common/dtype.h"
#include "kernels/common/extents.h"

namespace ogrom::cuda {

template <class T>
inline constexpr int wide = 16 / static_cast<int>(sizeof(T));

// For operations between types: elements that take 16 bytes in the smaller one.
template <class A, class B>
inline constexpr int wide_of = wide<A> > wide<B> ? wide<A> : wide<B>;

template <class T>
using Math = StatisticOf<T>;

template <class T, int V>
struct alignas(V * sizeof(T) < 16 ? V * sizeof(T) : 16) Pack {
    T at[V];
};

// Two neighbours in one register.
template <class T, int V>
requires(is_16_bit<T>&& V > 1) struct alignas(V * 2 < 16 ? V * 2 : 16) Pack<T, V> {
    static_assert(V % 2 == 0);
    u32 pairs[V / 2];
};

// {low, high} rounded to T in one register, and back.
template <class T>
__device__ u32 pack_pair(float low, float high) {
    u32 packed;
    if constexpr (std::is_same_v<T, Bf16>) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    } else {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    }
    return packed;
}
template <class T>
__device__ void unpack_pair(float& low, float& high, u32 packed) {
    if constexpr (std::is_same_v<T, Bf16>) {
        low = __uint_as_float(packed << 16);
        high = __uint_as_float(packed & 0xFFFF0000U);
    } else {
        low = to_float(std::bit_cast<Fp16>(static_cast<std::uint16_t>(packed)));
        high = to_float(std::bit_cast<Fp16>(static_cast<std::uint16_t>(packed >> 16)));
    }
}

template <class T, int V>
struct Values {
    Math<T> at[V];
};

template <int V, class T>
__device__ Pack<T, V> load_packed(const T* from) {
    return *reinterpret_cast<const Pack<T, V>*>(from);
}

template <class T, int V>
__device__ Values<T, V> unpacked(const Pack<T, V>& pack) {
    Values<T, V> out;
    if constexpr (is_16_bit<T> && V > 1) {
#pragma unroll
        for (int i = 0; i < V / 2; ++i) {
            unpack_pair<T>(out.at[2 * i], out.at[2 * i + 1], pack.pairs[i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < V; ++i) {
            out.at[i] = static_cast<Math<T>>(pack.at[i]);
        }
    }
    return out;
}

template <int V, class T>
__device__ Values<T, V> load(const T* from) {
    return unpacked<T, V>(load_packed<V>(from));
}

template <int V, class T, class U>
__device__ void store(T* to, const Values<U, V>& values) {
    Pack<T, V> pack;
    if constexpr (is_16_bit<T> && V > 1) {
#pragma unroll
        for (int i = 0; i < V / 2; ++i) {
            pack.pairs[i] = pack_pair<T>(values.at[2 * i], values.at[2 * i + 1]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < V; ++i) {
            pack.at[i] = static_cast<T>(values.at[i]);
        }
    }
    *reinterpret_cast<Pack<T, V>*>(to) = pack;
}

// A value as it is read back once it is stored in T.
template <class T>
__device__ Math<T> stored(Math<T> value) {
    return static_cast<Math<T>>(static_cast<T>(value));
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
