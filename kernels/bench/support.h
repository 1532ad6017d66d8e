// Shared by the benchmarks of memory-bound operations: the copy bandwidth measured in the same run, the check that
// comes before any rate, and the counters that every row reports.
//   GB/s, GFLOP/s  from kernels/common/cost.h ; of_copy = fraction of the copy bandwidth (products: limit.h)
#pragma once
#include <benchmark/benchmark.h>
#include <string>
#include <vector>

#include "kernels/common/cost.h"

namespace ogrom::bench {

// Bytes per second (read + written) of copying 256 MiB with all threads: best of 7, measured once.
double copy_bandwidth();

// Numbers in (-scale, scale), the same every run; `stream` tells inputs apart.
std::vector<float> values(i64 n, u32 stream, double scale = 1);
std::vector<double> widened(const std::vector<float>& x);

// Largest |got - want| / max(floor, |want|); a NaN gives infinity.
double worst_error(const std::vector<float>& got, const std::vector<double>& want, double floor = 1);

// False, and the row is marked as failed, where error > tolerance: no rate is reported for a wrong result.
bool verified(benchmark::State& state, const std::string& what, double error, double tolerance);

void report(benchmark::State& state, const cost::Cost& per_call);

// The shapes of a 124M GPT: micro-batch 4, T 1024, C 768, F 3072, V 50257 stored as 50304.
inline constexpr i64 rows = 4096;
inline constexpr i64 hidden = 768;
inline constexpr i64 ffn = 3072;
inline constexpr i64 vocabulary = 50257;
inline constexpr i64 padded_vocabulary = 50304;
inline constexpr i64 sequence = 1024;
inline constexpr i64 micro_batch = 4;

}  // namespace ogrom::bench
