#include "kernels/ops/flat.h"

#include <algorithm>
#include <type_traits>

#include "kernels/common/dtype.h"
#include "kernels/common/fault.h"
#include "kernels/common/parallel.h"
#include "kernels/cuda/ops.h"

namespace ogrom::ops {
namespace {

template <class To, class From>
To converted(From x) {
    if constexpr (is_16_bit<To> && std::is_same_v<From, double>) {
        return To(odd_rounded(x));
    } else if constexpr (is_16_bit<From>) {
        return To{to_float(x)};
    } else {
        return static_cast<To>(x);
    }
}

}  // namespace

template <class Y, class X>
void add(Stream stream, Y* y, const X* x, i64 n) {
    if (stream.backend == Backend::cuda) {
        cuda::add(stream, y, x, n);
        return;
    }
    if (fault_active("add_last_element_lost")) {
        n -= 1;
    }
    parallel_ranges(n, parallel_grain, [&](i64 first, i64 last) {
        for (i64 i = first; i < last; ++i) {
            y[i] += converted<Y>(x[i]);
        }
    });
}

template <class T>
void copy(Stream stream, T* y, const T* x, i64 n) {
    if (stream.backend == Backend::cuda) {
        cuda::copy(stream, y, x, n);
        return;
    }
    if (y == x) {
        return;
    }
    parallel_ranges(n, parallel_grain, [&](i64 first, i64 last) { std::copy(x + first, x + last, y + first); });
}

template <class T>
void fill(Stream stream, T* y, T value, i64 n) {
    if (stream.backend == Backend::cuda) {
        cuda::fill(stream, y, value, n);
        return;
    }
    if (fault_active("fill_last_element_lost")) {
        n -= 1;
    }
    parallel_ranges(n, parallel_grain, [&](i64 first, i64 last) { std::fill(y + first, y + last, value); });
}

template <class To, class From>
void cast(Stream stream, To* y, const From* x, i64 n) {
    if constexpr (std::is_same_v<To, From>) {
        copy(stream, y, x, n);
    } else if (stream.backend == Backend::cuda) {
        cuda::cast(stream, y, x, n);
    } else {
        parallel_ranges(n, parallel_grain, [&](i64 first, i64 last) {
            for (i64 i = first; i < last; ++i) {
                y[i] = converted<To>(x[i]);
            }
        });
    }
}

template void add<float>(Stream, float*, const float*, i64);
template void add<double>(Stream, double*, const double*, i64);
template void add<float>(Stream, float*, const Bf16*, i64);
template void add<float>(Stream, float*, const Fp16*, i64);
template void copy<float>(Stream, float*, const float*, i64);
template void copy<double>(Stream, double*, const double*, i64);
template void copy<Bf16>(Stream, Bf16*, const Bf16*, i64);
template void copy<Fp16>(Stream, Fp16*, const Fp16*, i64);
template void fill<float>(Stream, float*, float, i64);
template void fill<double>(Stream, double*, double, i64);
template void fill<Bf16>(Stream, Bf16*, Bf16, i64);
template void fill<Fp16>(Stream, Fp16*, Fp16, i64);
template void cast(Stream, float*, const float*, i64);
template void cast(Stream, float*, const double*, i64);
template void cast(Stream, float*, const Bf16*, i64);
template void cast(Stream, float*, const Fp16*, i64);
template void cast(Stream, double*, const float*, i64);
template void cast(Stream, double*, const double*, i64);
template void cast(Stream, double*, const Bf16*, i64);
template void cast(Stream, double*, const Fp16*, i64);
template void cast(Stream, Bf16*, const float*, i64);
template void cast(Stream, Fp16*, const float*, i64);
template void cast(Stream, Bf16*, const double*, i64);
template void cast(Stream, Fp16*, const double*, i64);
template void cast(Stream, Bf16*, const Bf16*, i64);
template void cast(Stream, Fp16*, const Fp16*, i64);

}  // namespace ogrom::ops
