// Attention at the shape of a 124M GPT (packed q|k|v rows): verified against the reference, then FLOP/s over causal
// pairs (4 P D forward, 10 P D backward) and the fraction of the SGEMM rate of the same run.
#include "kernels/ops/attention.h"

#include <benchmark/benchmark.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <omp.h>

#include "kernels/bench/limit.h"
#include "kernels/common/rng.h"

#include "tests/reference/attention.h"

namespace ogrom::bench {
namespace {

struct Problem {
    i64 batch, heads, length, depth;
    std::vector<float> qkv, out, lse, d_qkv, d_out, workspace;
    std::vector<i64> sample;
    ops::AttentionShape shape;

    Problem(i64 batch_, i64 heads_, i64 length_, i64 depth_, double p)
        : batch(batch_), heads(heads_), length(length_), depth(depth_) {
        const i64 width = heads * depth;
        const i64 rows = batch * length;
        qkv.resize(static_cast<std::size_t>(3 * rows * width));
        d_qkv.resize(qkv.size());
        out.resize(static_cast<std::size_t>(rows * width));
        d_out.resize(out.size());
        lse.resize(static_cast<std::size_t>(rows * heads));
        fill(qkv, 1);
        fill(d_out, 2);
        for (i64 b = 0; b < batch; ++b) {
            sample.push_back(b);
        }
        shape.batch = batch;
        shape.queries = shape.keys = length;
        shape.heads = shape.kv_heads = heads;
        shape.head_dim = depth;
        shape.query_stride = shape.key_stride = shape.value_stride = 3 * width;
        shape.query_batch_stride = shape.key_batch_stride = shape.value_batch_stride = 3 * width * length;
        shape.out_stride = width;
        shape.out_batch_stride = width * length;
        shape.scale = 1 / std::sqrt(static_cast<double>(depth));
        shape.sample = sample.data();
        shape.dropout.p = p;
        workspace.resize(static_cast<std::size_t>(ops::attention_workspace(shape, omp_get_max_threads())));
    }

    static void fill(std::vector<float>& values, u32 stream) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = static_cast<float>(2 * uniform(random_word(1, stream, 0, i)) - 1);
        }
    }

    void forward() {
        const i64 width = heads * depth;
        ops::attention_forward<float>({}, {out.data(), lse.data(), qkv.data(), qkv.data() + width,
                                           qkv.data() + 2 * width, shape, workspace.data()});
    }

    void backward() {
        const i64 width = heads * depth;
        ops::attention_backward<float>(
            {}, {d_qkv.data(), d_qkv.data() + width, d_qkv.data() + 2 * width, d_out.data(), out.data(), lse.data(),
                 qkv.data(), qkv.data() + width, qkv.data() + 2 * width, shape, workspace.data()});
    }

    [[nodiscard]] double pairs() const {
        return static_cast<double>(batch * heads) * static_cast<double>(length) * static_cast<double>(length + 1) / 2;
    }
};

// No rate before correctness: relative error over the whole tensor, on a shape with several blocks.
void verify() {
    Problem problem(1, 2, 333, 64, 0.1);
    problem.forward();
    problem.backward();
    const auto at = [&](i64 first) { return std::vector<double>(problem.qkv.begin() + first, problem.qkv.end()); };
    const reference::Attention attention(problem.shape, at(0), at(128), at(256));
    const auto want = attention.run(problem.out.size(), {problem.d_out.begin(), problem.d_out.end()});
    const auto compare = [](const char* name, const float* got, const std::vector<double>& expected) {
        double error = 0;
        double norm = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
            // Elements of a neighbouring tensor are 0 in the reference.
            const double difference = expected[i] == 0 ? 0 : static_cast<double>(got[i]) - expected[i];
            error += difference * difference;
            norm += expected[i] * expected[i];
        }
        if (!(std::sqrt(error / norm) < 1e-6)) {
            std::fprintf(stderr, "attention: %s differs from the reference by %g\n", name, std::sqrt(error / norm));
            std::exit(1);
        }
    };
    compare("out", problem.out.data(), want.out);
    compare("d_q", problem.d_qkv.data(), want.d_q);
    compare("d_k", problem.d_qkv.data() + 128, want.d_k);
    compare("d_v", problem.d_qkv.data() + 256, want.d_v);
}

enum class Pass { forward, backward };

void measure(benchmark::State& state, Pass pass, i64 length, double p) {
    Problem problem(4, 12, length, 64, p);
    problem.forward();
    double limit = sgemm_rate();
    double best = 1e30;
    for (auto _ : state) {
        const auto start = std::chrono::steady_clock::now();
        pass == Pass::forward ? problem.forward() : problem.backward();
        const double seconds = seconds_since(start);
        state.SetIterationTime(seconds);
        best = std::min(best, seconds);
    }
    limit = std::max(limit, sgemm_rate());
    const double flops = (pass == Pass::forward ? 4.0 : 10.0) * problem.pairs() * 64;
    state.counters["GFLOP/s"] = flops / best * 1e-9;
    state.counters["of_sgemm"] = flops / best / limit;
    state.counters["sgemm_GFLOP/s"] = limit * 1e-9;
}

}  // namespace
}  // namespace ogrom::bench

int main(int argc, char** argv) {
    using namespace ogrom::bench;
    verify();
    for (const ogrom::i64 length : {256, 1024, 4096}) {
        for (const double p : {0.0, 0.1}) {
            const std::string name = "/B4/H12/D64/T" + std::to_string(length) + (p > 0 ? "/dropout" : "");
            for (const Pass pass : {Pass::forward, Pass::backward}) {
                const std::string title = (pass == Pass::forward ? "attention_forward" : "attention_backward") + name;
                benchmark::RegisterBenchmark(title.c_str(), measure, pass, length, p)->UseManualTime();
            }
        }
    }
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
