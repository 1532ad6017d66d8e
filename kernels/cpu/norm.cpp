#include "kernels/ops/norm.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <type_traits>

#include "kernels/common/fault.h"
#include "kernels/common/parallel.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cuda/ops.h"

namespace ogrom::ops {
namespace {

constexpr i64 block_elements = 4096;    // fixed by the contract: part of the order of summation
constexpr i64 blocks_at_a_time = 1024;  // partial sums held before they are added in order

template <class T>
double block_sum(const T* x, i64 n) {
    return cpu::lane_sum(n, [&](i64 i) {
        const auto value = static_cast<double>(x[i]);
        return value * value;
    });
}

// A number is not finite exactly when all bits of its exponent are set.
template <class T>
bool range_finite(const T* x, i64 n) {
    using Bits = std::conditional_t<sizeof(T) == 4, u32, u64>;
    constexpr Bits exponent = sizeof(T) == 4 ? static_cast<Bits>(0x7F800000U) : static_cast<Bits>(0x7FF0000000000000U);
    Bits bad = 0;
    for (i64 i = 0; i < n; ++i) {
        bad |= (std::bit_cast<Bits>(x[i]) & exponent) == exponent ? Bits{1} : Bits{0};
    }
    return bad == 0;
}

}  // namespace

template <class T>
double sum_of_squares(Stream stream, const T* x, i64 n) {
    if (stream.backend == Backend::cuda) {
        return cuda::sum_of_squares(stream, x, n);
    }
    i64 blocks = ceil_div(n, block_elements);
    if (fault_active("norm_last_block_dropped") && n % block_elements != 0) {
        blocks -= 1;
    }
    double partial[blocks_at_a_time];
    double sum = 0;
    for (i64 start = 0; start < blocks; start += blocks_at_a_time) {
        const i64 count = std::min(blocks_at_a_time, blocks - start);
        parallel_ranges(count, 4, [&](i64 first, i64 last) {
            for (i64 b = first; b < last; ++b) {
                const i64 offset = (start + b) * block_elements;
                partial[b] = block_sum(x + offset, std::min(block_elements, n - offset));
            }
        });
        for (i64 b = 0; b < count; ++b) {
            sum += partial[b];
        }
    }
    return sum;
}

template <class T>
void block_squares(Stream stream, const T* x, i64 n, ExactSum& sum) {
    if (stream.backend == Backend::cuda) {
        const SquaresRange<T> one{x, n};
        cuda::block_squares<T>(stream, {&one, 1}, sum);
        return;
    }
    if (fault_active("norm_short_block_dropped")) {
        n = n / norm_block * norm_block;
    }
    std::mutex merging;
    parallel_ranges(n, 64 * norm_block, [&](i64 first, i64 last) {
        ExactSum part;
        for (i64 i = first; i < last; i += norm_block) {
            part.add(block_sum(x + i, std::min(norm_block, last - i)));
        }
        const std::lock_guard<std::mutex> lock(merging);
        sum.add(part);
    });
}

template <class T>
void block_squares(Stream stream, std::span<const SquaresRange<T>> ranges, ExactSum& sum) {
    if (stream.backend == Backend::cuda) {
        cuda::block_squares(stream, ranges, sum);
        return;
    }
    for (const SquaresRange<T>& range : ranges) {
        block_squares(stream, range.x, range.n, sum);
    }
}

template <class T>
bool all_finite(Stream stream, const T* x, i64 n) {
    if (stream.backend == Backend::cuda) {
        return cuda::all_finite(stream, x, n);
    }
    std::atomic<bool> finite{true};
    parallel_ranges(n, 4 * block_elements, [&](i64 first, i64 last) {
        for (i64 i = first; i < last && finite.load(std::memory_order_relaxed); i += block_elements) {
            if (!range_finite(x + i, std::min(block_elements, last - i))) {
                finite.store(false, std::memory_order_relaxed);
            }
        }
    });
    return finite.load();
}

template <class T>
void last_nonfinite(Stream stream, u64* key, const T* x, i64 n, u64 base) {
    if (stream.backend == Backend::cuda) {
        cuda::last_nonfinite(stream, key, x, n, base);
        return;
    }
    std::atomic<i64> last{-1};
    parallel_ranges(n, 4 * block_elements, [&](i64 first, i64 end) {
        for (i64 i = first; i < end; i += block_elements) {
            const i64 count = std::min(block_elements, end - i);
            if (range_finite(x + i, count)) {
                continue;
            }
            i64 place = i + (fault_active("last_nonfinite_misplaced") ? count - 2 : count - 1);
            while (place >= i && range_finite(x + place, 1)) {
                --place;
            }
            for (i64 known = last.load(); known < place && !last.compare_exchange_weak(known, place);) {
            }
        }
    });
    if (last.load() >= 0) {
        *key = std::max(*key, base + 1 + static_cast<u64>(last.load()));
    }
}

template double sum_of_squares<float>(Stream, const float*, i64);
template double sum_of_squares<double>(Stream, const double*, i64);
template void block_squares<float>(Stream, const float*, i64, ExactSum&);
template void block_squares<double>(Stream, const double*, i64, ExactSum&);
template void block_squares<float>(Stream, std::span<const SquaresRange<float>>, ExactSum&);
template void block_squares<double>(Stream, std::span<const SquaresRange<double>>, ExactSum&);
template bool all_finite<float>(Stream, const float*, i64);
template bool all_finite<double>(Stream, const double*, i64);
template void last_nonfinite<float>(Stream, u64*, const float*, i64, u64);
template void last_nonfinite<double>(Stream, u64*, const double*, i64, u64);

}  // namespace ogrom::ops
