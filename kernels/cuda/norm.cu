// kernels/ops/norm.h: the order of the sums is that of the CPU (16 lanes of a block, added pairwise), so that fp32
// ranges give the same bits: four neighbouring threads share a block, each with four lanes of it.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {
namespace {

constexpr int lanes = 16;
constexpr int team = 4;  // threads on one block of elements
constexpr int lanes_each = lanes / team;
constexpr int norm_threads = 256;
constexpr int teams = norm_threads / team;
constexpr i64 sum_block = 4096;  // elements of a block of sum_of_squares, fixed by the contract
constexpr unsigned full_warp = 0xFFFFFFFFU;

// Sum of x^2 over n <= block elements, the result in the team's first thread. All threads of the warp call it.
template <int V, class T>
__device__ double team_squares(const T* x, i64 n) {
    const int member = static_cast<int>(threadIdx.x) % team;
    double lane[lanes_each] = {};
    const i64 whole = n / lanes * lanes;
#pragma unroll 8
    for (i64 i = member * lanes_each; i < whole; i += lanes) {
#pragma unroll
        for (int first = 0; first < lanes_each; first += V) {
            const Values<T, V> values = load<V>(x + i + first);
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const auto value = static_cast<double>(values.at[v]);
                lane[first + v] = fma(value, value, lane[first + v]);
            }
        }
    }
#pragma unroll
    for (int l = 0; l < lanes_each; ++l) {
        if (const i64 i = whole + member * lanes_each + l; i < n) {
            const auto value = static_cast<double>(static_cast<Math<T>>(x[i]));
            lane[l] = fma(value, value, lane[l]);
        }
    }
#pragma unroll
    for (int distance = team / 2; distance > 0; distance /= 2) {
#pragma unroll
        for (int l = 0; l < lanes_each; ++l) {
            lane[l] += __shfl_down_sync(full_warp, lane[l], distance, team);
        }
    }
    lane[0] += lane[2];
    lane[1] += lane[3];
    return lane[0] + lane[1];
}

// First block of the team in this round; all teams of a warp go the same number of rounds.
__device__ i64 team_block(i64 round) {
    return round * teams + threadIdx.x / team;
}

template <int V, class T>
__global__ void __launch_bounds__(norm_threads) block_sums(double* sums, const T* x, i64 n, i64 blocks) {
    for (i64 round = blockIdx.x; round * teams < blocks; round += gridDim.x) {
        const i64 block = team_block(round);
        const i64 start = block * sum_block;
        const double sum = team_squares<V>(x + min(start, n), max(i64{0}, min(sum_block, n - start)));
        if (threadIdx.x % team == 0 && block < blocks) {
            sums[block] = sum;
        }
    }
}

// In ascending order, by one thread; the others bring the numbers.
__global__ void __launch_bounds__(norm_threads) add_in_order(double* total, const double* sums, i64 blocks) {
    __shared__ double part[norm_threads];
    double sum = 0;
    for (i64 start = 0; start < blocks; start += norm_threads) {
        const i64 mine = start + threadIdx.x;
        part[threadIdx.x] = mine < blocks ? sums[mine] : 0.0;
        __syncthreads();
        if (threadIdx.x == 0) {
            const int count = static_cast<int>(min(i64{norm_threads}, blocks - start));
            for (int i = 0; i < count; ++i) {
                sum += part[i];
            }
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        *total = sum;
    }
}

// Ranges of one launch, cut into rounds of a block for each team; a round does not cross from one range to the next.
constexpr int ranges_at_once = 96;

template <class T>
struct SquaresLaunch {
    const T* x[ranges_at_once];
    i64 n[ranges_at_once];
    i64 end[ranges_at_once];  // rounds of the ranges up to here
    int count = 0;
};

// Each team adds its blocks to its own digits in shared memory; digits are integers, so the order in which the blocks
// of the grid add theirs to `sum` changes nothing. Carries wait: fewer than 2^31 addends reach one word in a call.
template <int V, class T>
__global__ void __launch_bounds__(norm_threads)
    exact_squares(ExactSum* sum, const __grid_constant__ SquaresLaunch<T> all) {
    __shared__ ExactSum digits[teams];
    if (threadIdx.x < teams) {
        digits[threadIdx.x] = ExactSum{};
    }
    __syncthreads();
    int range = 0;
    for (i64 round = blockIdx.x; round < all.end[all.count - 1]; round += gridDim.x) {
        while (round >= all.end[range]) {
            ++range;
        }
        const i64 n = all.n[range];
        const i64 start = team_block(round - (range == 0 ? 0 : all.end[range - 1])) * ops::norm_block;
        const double squares =
            team_squares<V>(all.x[range] + min(start, n), max(i64{0}, min(ops::norm_block, n - start)));
        if (threadIdx.x % team == 0 && start < n) {
            digits[threadIdx.x / team].add(squares);
        }
    }
    __syncthreads();
    if (threadIdx.x < ExactSum::words) {
        i64 word = 0;
        for (const ExactSum& one : digits) {
            word += one.limb[threadIdx.x];
        }
        if (word != 0) {
            atomicAdd(reinterpret_cast<unsigned long long*>(&sum->limb[threadIdx.x]),
                      static_cast<unsigned long long>(word));
        }
    }
}

__global__ void settle(ExactSum* sum) {
    sum->normalise();
}

// By the bits: safe under any compiler flag.
__device__ bool bad(float x) {
    return (__float_as_uint(x) & 0x7F800000U) == 0x7F800000U;
}
__device__ bool bad(double x) {
    constexpr u64 exponent = 0x7FF0000000000000U;
    return (std::bit_cast<u64>(x) & exponent) == exponent;
}

template <int V, class T>
__global__ void __launch_bounds__(norm_threads) find_nonfinite(u32* found, const T* x, i64 n) {
    const i64 thread = static_cast<i64>(blockIdx.x) * norm_threads + threadIdx.x;
    const i64 step = static_cast<i64>(gridDim.x) * norm_threads;
    const i64 packs = n / V;
    bool found_one = false;
#pragma unroll 4
    for (i64 p = thread; p < packs; p += step) {
        const Values<T, V> values = load<V>(x + p * V);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            found_one = found_one || bad(values.at[v]);
        }
    }
    for (i64 i = packs * V + thread; i < n; i += step) {
        found_one = found_one || bad(static_cast<Math<T>>(x[i]));
    }
    if (found_one) {
        *found = 1;  // every writer writes the same
    }
}

template <int V, class T>
__global__ void __launch_bounds__(norm_threads) mark_nonfinite(u64* key, const T* x, i64 n, u64 base) {
    const i64 thread = static_cast<i64>(blockIdx.x) * norm_threads + threadIdx.x;
    const i64 step = static_cast<i64>(gridDim.x) * norm_threads;
    const i64 packs = n / V;
    i64 last = -1;
#pragma unroll 4
    for (i64 p = thread; p < packs; p += step) {
        const Values<T, V> values = load<V>(x + p * V);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            last = bad(values.at[v]) ? p * V + v : last;
        }
    }
    for (i64 i = packs * V + thread; i < n; i += step) {
        last = bad(static_cast<Math<T>>(x[i])) ? i : last;
    }
    if (last >= 0) {
        atomicMax(reinterpret_cast<unsigned long long*>(key),
                  static_cast<unsigned long long>(base + 1 + static_cast<u64>(last)));
    }
}

constexpr i64 norm_grid = 2048;

// Packs of no more elements than a thread has lanes.
template <class T, class Run>
void with_lanes(bool aligned, const Run& run) {
    if (aligned) {
        run(std::integral_constant<int, std::min(wide<T>, lanes_each)>{});
    } else {
        run(std::integral_constant<int, 1>{});
    }
}

template <class R>
R fetch(Stream stream, const R* from) {
    R value{};
    check(cudaMemcpyAsync(&value, from, sizeof value, cudaMemcpyDeviceToHost, native(stream)), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize");
    return value;
}

}  // namespace

template <class T>
double sum_of_squares(Stream stream, const T* x, i64 n) {
    if (n == 0) {
        return 0;
    }
    const i64 blocks = ceil_div(n, sum_block);
    auto* sums = static_cast<double*>(scratch(stream, (blocks + 1) * static_cast<i64>(sizeof(double))));
    with_lanes<T>(aligned16(x), [&](auto width) {
        block_sums<decltype(width)::value>
            <<<grid_of(ceil_div(blocks, teams), norm_grid), norm_threads, 0, native(stream)>>>(sums, x, n, blocks);
        check_launch("sum_of_squares");
    });
    add_in_order<<<1, norm_threads, 0, native(stream)>>>(sums + blocks, sums, blocks);
    check_launch("sum_of_squares");
    return fetch(stream, sums + blocks);
}

template <class T>
void block_squares(Stream stream, std::span<const ops::SquaresRange<T>> ranges, ExactSum& sum) {
    constexpr auto most = static_cast<std::size_t>(ranges_at_once);
    settle<<<1, 1, 0, native(stream)>>>(&sum);
    i64 blocks = 0;
    for (std::size_t first = 0; first < ranges.size(); first += most) {
        SquaresLaunch<T> launch;
        bool aligned = true;
        i64 rounds = 0;
        for (const ops::SquaresRange<T>& range : ranges.subspan(first, std::min(most, ranges.size() - first))) {
            aligned = aligned && aligned16(range.x);
            blocks += ceil_div(range.n, ops::norm_block);
            rounds += ceil_div(range.n, teams * ops::norm_block);
            launch.x[launch.count] = range.x;
            launch.n[launch.count] = range.n;
            launch.end[launch.count++] = rounds;
        }
        OGROM_ASSERT(blocks < (i64{1} << 30));
        if (rounds == 0) {
            continue;
        }
        with_lanes<T>(aligned, [&](auto width) {
            exact_squares<decltype(width)::value>
                <<<grid_of(rounds, norm_grid), norm_threads, 0, native(stream)>>>(&sum, launch);
            check_launch("block_squares");
        });
    }
    settle<<<1, 1, 0, native(stream)>>>(&sum);
    check_launch("block_squares");
}

template <class T>
bool all_finite(Stream stream, const T* x, i64 n) {
    if (n == 0) {
        return true;
    }
    auto* found = static_cast<u32*>(scratch(stream, sizeof(u32)));
    check(cudaMemsetAsync(found, 0, sizeof(u32), native(stream)), "cudaMemsetAsync");
    with_width<T>(aligned16(x), [&](auto width) {
        constexpr int V = decltype(width)::value;
        find_nonfinite<V>
            <<<grid_of(ceil_div(ceil_div(n, V), norm_threads), norm_grid), norm_threads, 0, native(stream)>>>(found, x,
                                                                                                              n);
        check_launch("all_finite");
    });
    return fetch(stream, found) == 0;
}

template <class T>
void last_nonfinite(Stream stream, u64* key, const T* x, i64 n, u64 base) {
    if (n == 0) {
        return;
    }
    with_width<T>(aligned16(x), [&](auto width) {
        constexpr int V = decltype(width)::value;
        mark_nonfinite<V>
            <<<grid_of(ceil_div(ceil_div(n, V), norm_threads), norm_grid), norm_threads, 0, native(stream)>>>(key, x, n,
                                                                                                              base);
        check_launch("last_nonfinite");
    });
}

template double sum_of_squares(Stream, const float*, i64);
template double sum_of_squares(Stream, const double*, i64);
template double sum_of_squares(Stream, const Bf16*, i64);
template double sum_of_squares(Stream, const Fp16*, i64);
template void block_squares(Stream, std::span<const ops::SquaresRange<float>>, ExactSum&);
template void block_squares(Stream, std::span<const ops::SquaresRange<double>>, ExactSum&);
template void block_squares(Stream, std::span<const ops::SquaresRange<Bf16>>, ExactSum&);
template void block_squares(Stream, std::span<const ops::SquaresRange<Fp16>>, ExactSum&);
template bool all_finite(Stream, const float*, i64);
template bool all_finite(Stream, const double*, i64);
template void last_nonfinite(Stream, u64*, const float*, i64, u64);
template void last_nonfinite(Stream, u64*, const double*, i64, u64);
template bool all_finite(Stream, const Bf16*, i64);
template bool all_finite(Stream, const Fp16*, i64);

}  // namespace ogrom::cuda
