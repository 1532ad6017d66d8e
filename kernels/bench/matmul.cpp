// The products of a 124M GPT (rows = 4 x 1024) and the bias sum: verified against the reference, then FLOP/s, the same
// product by OpenBLAS, and the fraction of the SGEMM rate of the same run; the bias sum in bytes/s.
#include "kernels/ops/matmul.h"

#include <benchmark/benchmark.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "kernels/bench/limit.h"
#include "kernels/common/rng.h"
#include "kernels/cpu/matmul.h"

#include "tests/reference/matmul.h"

namespace ogrom::bench {
namespace {

using ops::Transpose;

std::vector<float> random_values(i64 count, u32 stream) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (i64 i = 0; i < count; ++i) {
        values[static_cast<std::size_t>(i)] =
            static_cast<float>(2 * uniform(random_word(1, stream, 0, static_cast<u64>(i))) - 1);
    }
    return values;
}

struct Product {
    std::vector<float> a, b, y;
    ops::Matmul<float> op;

    Product(i64 m, i64 n, i64 k, Transpose transpose_a, Transpose transpose_b, float beta)
        : a(random_values(m * k, 1)),
          b(random_values(k * n, 2)),
          y(static_cast<std::size_t>(m * n)),
          op{y.data(),
             a.data(),
             b.data(),
             m,
             n,
             k,
             n,
             transpose_a == Transpose::yes ? m : k,
             transpose_b == Transpose::yes ? k : n,
             transpose_a,
             transpose_b,
             1,
             beta} {}
};

// No rate before correctness: relative error over the whole result of an odd size.
void verify(Transpose transpose_a, Transpose transpose_b) {
    Product product(131, 197, 311, transpose_a, transpose_b, 0);
    ops::matmul<float>({}, product.op);
    double error = 0;
    double norm = 0;
    for (i64 i = 0; i < product.op.m; ++i) {
        for (i64 j = 0; j < product.op.n; ++j) {
            const double want = reference::matmul_element(product.op, product.op.y, i, j);
            const double difference = static_cast<double>(product.op.y[i * product.op.ldy + j]) - want;
            error += difference * difference;
            norm += want * want;
        }
    }
    if (!(std::sqrt(error / norm) < 1e-6)) {
        std::fprintf(stderr, "matmul differs from the reference by %g\n", std::sqrt(error / norm));
        std::exit(1);
    }
}

struct Shape {
    const char* name;
    i64 m, n, k;
    Transpose transpose_a, transpose_b;
    float beta;
};

constexpr Shape shapes[] = {
    {"forward_qkv", 4096, 2304, 768, Transpose::no, Transpose::yes, 0},
    {"forward_up", 4096, 3072, 768, Transpose::no, Transpose::yes, 0},
    {"forward_down", 4096, 768, 3072, Transpose::no, Transpose::yes, 0},
    {"forward_head", 1024, 50304, 768, Transpose::no, Transpose::yes, 0},
    {"data_gradient_up", 4096, 768, 3072, Transpose::no, Transpose::no, 0},
    {"data_gradient_down", 4096, 3072, 768, Transpose::no, Transpose::no, 0},
    {"weight_gradient_qkv", 2304, 768, 4096, Transpose::yes, Transpose::no, 1},
    {"weight_gradient_up", 3072, 768, 4096, Transpose::yes, Transpose::no, 1},
    {"weight_gradient_down", 768, 3072, 4096, Transpose::yes, Transpose::no, 1},
    {"weight_gradient_head", 50304, 768, 1024, Transpose::yes, Transpose::no, 1},
};

void measure_product(benchmark::State& state, const Shape& shape) {
    Product product(shape.m, shape.n, shape.k, shape.transpose_a, shape.transpose_b, shape.beta);
    ops::matmul<float>({}, product.op);
    double limit = sgemm_rate();
    double best = 1e30;
    double openblas = 1e30;
    for (auto _ : state) {
        // Turn and turn about, so that both see the same neighbours on the machine.
        auto start = std::chrono::steady_clock::now();
        cpu::matmul_in_pieces(product.op, std::numeric_limits<int>::max());
        openblas = std::min(openblas, seconds_since(start));
        start = std::chrono::steady_clock::now();
        ops::matmul<float>({}, product.op);
        const double seconds = seconds_since(start);
        state.SetIterationTime(seconds);
        best = std::min(best, seconds);
    }
    limit = std::max(limit, sgemm_rate());
    const double flops = 2.0 * static_cast<double>(shape.m * shape.n) * static_cast<double>(shape.k);
    state.SetLabel(ops::matmul_backend());
    state.counters["GFLOP/s"] = flops / best * 1e-9;
    state.counters["of_sgemm"] = flops / best / limit;
    state.counters["sgemm_GFLOP/s"] = limit * 1e-9;
    state.counters["openblas_GFLOP/s"] = flops / openblas * 1e-9;
}

void measure_bias(benchmark::State& state) {
    constexpr i64 rows = 4096;
    constexpr i64 cols = 3072;
    const std::vector<float> d_y = random_values(rows * cols, 3);
    std::vector<float> d_bias(cols);
    for (auto _ : state) {
        ops::bias_gradient<float>({}, {d_bias.data(), d_y.data(), rows, cols, cols});
        benchmark::DoNotOptimize(d_bias.data());
    }
    state.SetBytesProcessed(state.iterations() * rows * cols * 4);
}

}  // namespace
}  // namespace ogrom::bench

int main(int argc, char** argv) {
    using namespace ogrom::bench;
    for (const Transpose a : {Transpose::no, Transpose::yes}) {
        for (const Transpose b : {Transpose::no, Transpose::yes}) {
            verify(a, b);
        }
    }
    for (const Shape& shape : shapes) {
        benchmark::RegisterBenchmark(shape.name, measure_product, shape)->UseManualTime();
    }
    benchmark::RegisterBenchmark("bias_gradient/4096x3072", measure_bias)->UseRealTime();
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
