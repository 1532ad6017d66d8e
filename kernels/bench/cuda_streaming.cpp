// Rates of the CUDA operations that pass over memory, in bf16, as shares of a device copy of the same size measured
// beside them. Bytes are those that the contract of each operation names, each array counted once. Google Benchmark
// rows "operation/rows:R/C:C": time of one launch by events, GB/s, of_copy; kind = streaming | columns (sums over rows)
// | scatter (embedding backward). Answers are checked by tests/device. Without a GPU it says so and ends.
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/common/bf16.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime.h"
#include "kernels/ops/flat.h"

namespace {

using namespace ogrom;

// Sets of memory used in turn, so that nothing comes out of the cache: 8 sets of 8 arrays.
class Arrays {
public:
    Arrays(Stream stream, i64 bytes) : bytes_(round_up(bytes, 256)), memory_(cuda::allocate_device(bytes_ * 8 * sets)) {
        ops::fill(stream, static_cast<Bf16*>(memory_), to_bf16(0.25F), bytes_ * 8 * sets / 2);
    }
    ~Arrays() { cuda::free_device(memory_); }
    Arrays(const Arrays&) = delete;
    Arrays& operator=(const Arrays&) = delete;

    template <class T>
    T* at(i64 use, int array) const {
        return reinterpret_cast<T*>(static_cast<unsigned char*>(memory_) + ((use % sets) * 8 + array) * bytes_);
    }
    [[nodiscard]] i64 bytes() const { return bytes_; }
    static constexpr i64 sets = 8;

private:
    i64 bytes_;
    void* memory_;
};

// Median seconds of one launch over 9 rounds of 8 launches.
double seconds_of(Stream stream, const std::function<void(i64)>& launch) {
    constexpr int rounds = 9;
    constexpr i64 launches = Arrays::sets;
    std::vector<double> times;
    cuda::Event begin(cuda::Event::Timing::on), end(cuda::Event::Timing::on);
    for (int round = -2; round < rounds; ++round) {
        begin.record(stream);
        for (i64 i = 0; i < launches; ++i) {
            launch(i);
        }
        end.record(stream);
        end.wait();
        if (round >= 0) {
            times.push_back(end.seconds_since(begin) / static_cast<double>(launches));
        }
    }
    std::sort(times.begin(), times.end());
    return times[rounds / 2];
}

// The arrays of one size, made when the first row of that size runs, and the copy measured on them.
class Memory {
public:
    explicit Memory(Stream stream) : stream_(stream) {}
    const Arrays& of(i64 bytes) {
        if (arrays_ == nullptr || arrays_->bytes() != round_up(bytes, 256)) {
            arrays_.reset();
            arrays_ = std::make_unique<Arrays>(stream_, bytes);
            const i64 n = bytes / 2;
            const Arrays& m = *arrays_;
            copy_rate_ = 0;
            // The fastest of five: the first comes at the clock of an idle device.
            for (int k = 0; k < 5; ++k) {
                const double seconds =
                    seconds_of(stream_, [&](i64 i) { cuda::copy(stream_, m.at<Bf16>(i, 0), m.at<Bf16>(i, 1), n); });
                copy_rate_ = std::max(copy_rate_, 2 * static_cast<double>(bytes) / seconds);
            }
        }
        return *arrays_;
    }
    [[nodiscard]] double copy_rate() const { return copy_rate_; }

private:
    Stream stream_;
    std::unique_ptr<Arrays> arrays_;
    double copy_rate_ = 0;
};

constexpr const char* columns = "columns";  // kind of a row

using Launch = std::function<void(i64 use, const Arrays& m)>;

struct Bench {
    Stream stream;
    Memory* memory;
    i64 rows, C, array_bytes;
    const i64* zero;  // on the device: the sample's number

    // Registers a row; `bytes` of one launch.
    void row(const std::string& name, double bytes, Launch launch, const char* kind = "streaming") const {
        const std::string full = name + "/rows:" + std::to_string(rows) + "/C:" + std::to_string(C);
        const auto run = [bench = *this, bytes, launch = std::move(launch), kind](benchmark::State& state) {
            const Arrays& m = bench.memory->of(bench.array_bytes);
            double seconds = 0;
            for ([[maybe_unused]] auto _ : state) {
                seconds = seconds_of(bench.stream, [&](i64 i) { launch(i, m); });
                state.SetIterationTime(seconds);
            }
            state.counters["GB/s"] = bytes / seconds * 1e-9;
            state.counters["of_copy"] = bytes / seconds / bench.memory->copy_rate();
            state.SetLabel(kind);
        };
        benchmark::RegisterBenchmark(full.c_str(), run)->UseManualTime()->Iterations(1)->Unit(benchmark::kMicrosecond);
    }
};

void flat_passes(const Bench& b) {
    const i64 n = b.rows * b.C;
    const auto bytes = static_cast<double>(n) * 2;
    const Stream s = b.stream;
    b.row("copy", 2 * bytes, [=](i64 i, const Arrays& m) { cuda::copy(s, m.at<Bf16>(i, 0), m.at<Bf16>(i, 1), n); });
    b.row("add float += bf16", 5 * bytes,
          [=](i64 i, const Arrays& m) { cuda::add(s, m.at<float>(i, 0), m.at<Bf16>(i, 2), n); });
    b.row("cast bf16 <- float", 3 * bytes,
          [=](i64 i, const Arrays& m) { cuda::cast(s, m.at<Bf16>(i, 0), m.at<float>(i, 2), n); });
    b.row("fill", bytes, [=](i64 i, const Arrays& m) { cuda::fill(s, m.at<Bf16>(i, 0), to_bf16(0.25F), n); });
    b.row("gelu_forward", 2 * bytes, [=](i64 i, const Arrays& m) {
        cuda::gelu_forward<Bf16>(s, {m.at<Bf16>(i, 0), m.at<Bf16>(i, 1), n});
    });
    b.row("bias_gelu_forward", 3 * bytes, [=](i64 i, const Arrays& m) {
        cuda::bias_gelu_forward<Bf16>(s, {m.at<Bf16>(i, 0), m.at<Bf16>(i, 1), m.at<Bf16>(i, 2), b.rows, b.C});
    });
    b.row("gelu_backward", 3 * bytes, [=](i64 i, const Arrays& m) {
        cuda::gelu_backward<Bf16>(s, {m.at<Bf16>(i, 0), m.at<Bf16>(i, 1), m.at<Bf16>(i, 2), n});
    });
    b.row("add_bias", 2 * bytes, [=](i64 i, const Arrays& m) {
        cuda::add_bias<Bf16>(s, {m.at<Bf16>(i, 0), m.at<Bf16>(i, 1), b.rows, b.C, b.C});
    });
}

void residual_passes(const Bench& b) {
    const auto bytes = static_cast<double>(b.rows * b.C) * 2;
    const Stream s = b.stream;
    const auto residual = [=](i64 i, const Arrays& m, double p) {
        return ops::ResidualForward<Bf16>{m.at<Bf16>(i, 0),
                                          m.at<Bf16>(i, 1),
                                          m.at<Bf16>(i, 2),
                                          m.at<Bf16>(i, 3),
                                          1,
                                          b.rows,
                                          b.C,
                                          b.zero,
                                          {.p = p, .seed = 1, .site = 2, .step = 3}};
    };
    for (const double p : {0.0, 0.1}) {
        const std::string dropout = p > 0 ? " p=0.1" : "";
        b.row("residual_forward" + dropout, 3 * bytes,
              [=](i64 i, const Arrays& m) { cuda::residual_forward<Bf16>(s, residual(i, m, p)); });
        b.row("residual_norm_forward" + dropout, 4 * bytes, [=](i64 i, const Arrays& m) {
            cuda::residual_norm_forward<Bf16>(s, {residual(i, m, p), m.at<Bf16>(i, 4), m.at<float>(i, 6),
                                                  m.at<float>(i, 7), m.at<Bf16>(i, 3), m.at<Bf16>(i, 3), 1e-5});
        });
    }
    b.row("dropout_backward p=0.1", 2 * bytes, [=](i64 i, const Arrays& m) {
        const ops::DropoutSpec dropout{.p = 0.1, .seed = 1, .site = 2, .step = 3};
        cuda::dropout_backward<Bf16>(s, {m.at<Bf16>(i, 0), m.at<Bf16>(i, 1), 1, b.rows, b.C, b.zero, dropout});
    });
}

void norm_passes(const Bench& b) {
    const auto bytes = static_cast<double>(b.rows * b.C) * 2;
    const Stream s = b.stream;
    b.row("layernorm_forward", 2 * bytes, [=](i64 i, const Arrays& m) {
        cuda::layernorm_forward<Bf16>(s, {m.at<Bf16>(i, 0), m.at<float>(i, 6), m.at<float>(i, 7), m.at<Bf16>(i, 1),
                                          m.at<Bf16>(i, 2), m.at<Bf16>(i, 3), b.rows, b.C, 1e-5});
    });
    const auto backward = [=](i64 i, const Arrays& m, bool parameters) {
        cuda::layernorm_backward<Bf16>(
            s, {m.at<Bf16>(i, 0), parameters ? m.at<float>(i, 4) : nullptr, parameters ? m.at<float>(i, 5) : nullptr,
                m.at<Bf16>(i, 1), m.at<Bf16>(i, 2), m.at<Bf16>(i, 3), m.at<float>(i, 6), m.at<float>(i, 7), b.rows, b.C,
                ops::Accumulate::add});
    };
    b.row(
        "layernorm_backward", 4 * bytes, [=](i64 i, const Arrays& m) { backward(i, m, true); }, columns);
    b.row("layernorm_backward d_x", 4 * bytes, [=](i64 i, const Arrays& m) { backward(i, m, false); });
    b.row(
        "bias_gradient", bytes,
        [=](i64 i, const Arrays& m) {
            cuda::bias_gradient<Bf16>(s, {m.at<float>(i, 4), m.at<Bf16>(i, 1), b.rows, b.C, b.C});
        },
        columns);
}

void embedding_passes(const Bench& b, const std::int32_t* tokens, const std::int32_t* positions) {
    const auto bytes = static_cast<double>(b.rows * b.C) * 2;
    const Stream s = b.stream;
    b.row("embedding_forward", 3 * bytes, [=](i64 i, const Arrays& m) {
        cuda::embedding_forward<Bf16>(s, {.y = m.at<Bf16>(i, 0),
                                          .token_table = m.at<Bf16>(i, 1),
                                          .position_table = m.at<Bf16>(i, 2),
                                          .tokens = tokens,
                                          .positions = positions,
                                          .B = b.rows / 1024,
                                          .T_ = 1024,
                                          .C = b.C,
                                          .sample = nullptr,
                                          .dropout = {}});
    });
    b.row("position_forward", 3 * bytes, [=](i64 i, const Arrays& m) {
        cuda::position_forward<Bf16>(
            s, {m.at<Bf16>(i, 0), m.at<Bf16>(i, 2), positions, b.rows / 1024, 1024, b.C, nullptr, {}});
    });
    b.row(
        "embedding_backward tokens", 5 * bytes,
        [=](i64 i, const Arrays& m) {
            cuda::embedding_backward<Bf16>(s, {.d_token_table = m.at<float>(i, 4),
                                               .d_position_table = nullptr,
                                               .d_y = m.at<Bf16>(i, 1),
                                               .tokens = tokens,
                                               .positions = nullptr,
                                               .B = b.rows / 1024,
                                               .T_ = 1024,
                                               .C = b.C,
                                               .vocabulary = b.rows,
                                               .sample = nullptr,
                                               .dropout = {}});
        },
        "scatter");
}

void update_passes(const Bench& b) {
    const i64 n = b.rows * b.C / 2;  // floats fill an array
    const auto elements = static_cast<double>(n);
    const ops::StepScalars scalars{.lr = 1e-4};
    b.row("adamw bf16 with master", 30 * elements, [=](i64 i, const Arrays& m) {
        cuda::adamw<Bf16>(b.stream, {m.at<Bf16>(i, 0), m.at<float>(i, 1), m.at<float>(i, 2), m.at<float>(i, 3), n,
                                     scalars, 1, 0.1, nullptr, m.at<float>(i, 4)});
    });
    b.row("sgd bf16 with master", 14 * elements, [=](i64 i, const Arrays& m) {
        cuda::sgd<Bf16>(b.stream,
                        {m.at<Bf16>(i, 0), nullptr, m.at<float>(i, 2), n, scalars, 1, 0.1, nullptr, m.at<float>(i, 4)});
    });
    b.row("block_squares float", 4 * elements, [=](i64 i, const Arrays& m) {
        const ops::SquaresRange<float> one{m.at<float>(i, 1), n};
        cuda::block_squares<float>(b.stream, {&one, 1}, *m.at<ExactSum>(i, 5));
    });
    b.row("last_nonfinite float", 4 * elements, [=](i64 i, const Arrays& m) {
        cuda::last_nonfinite<float>(b.stream, m.at<u64>(i, 5), m.at<float>(i, 1), n, 0);
    });
}

// Logits fill a whole set of arrays, so what else is needed stands apart.
void cross_entropy_passes(const Bench& b, const std::int32_t* targets) {
    const auto bytes = static_cast<double>(b.rows * b.C) * 2;
    auto* const loss = static_cast<double*>(cuda::allocate_device((1 + 2 * b.rows) * 8));
    auto* const max = static_cast<float*>(cuda::allocate_device(b.rows * 4));
    constexpr i64 vocabulary = 50257;
    for (const ops::Gradient gradient : {ops::Gradient::in_place, ops::Gradient::none}) {
        const bool writes = gradient == ops::Gradient::in_place;
        b.row(writes ? "cross_entropy in place" : "cross_entropy loss", (writes ? 2 : 1) * bytes,
              [=](i64 i, const Arrays& m) {
                  cuda::cross_entropy<Bf16>(b.stream, {m.at<Bf16>(i, 0), targets, nullptr, b.rows, vocabulary, b.C, b.C,
                                                       1e-4, gradient, loss});
              });
    }
    const auto part = [=](i64 i, const Arrays& m) {
        return ops::CrossEntropyPart<Bf16>{.logits = m.at<Bf16>(i, 0),
                                           .targets = targets,
                                           .mask = nullptr,
                                           .rows = b.rows,
                                           .ld = b.C,
                                           .columns = vocabulary,
                                           .padded_columns = b.C,
                                           .first_column = 0,
                                           .vocabulary = vocabulary,
                                           .scale = 1e-4,
                                           .gradient = ops::Gradient::in_place,
                                           .max = max,
                                           .sums = loss + 1,
                                           .loss_sum = loss};
    };
    b.row("cross_entropy_max", bytes,
          [=](i64 i, const Arrays& m) { cuda::cross_entropy_max<Bf16>(b.stream, part(i, m)); });
    b.row("cross_entropy_sum", bytes,
          [=](i64 i, const Arrays& m) { cuda::cross_entropy_sum<Bf16>(b.stream, part(i, m)); });
    b.row("cross_entropy_finish", 2 * bytes,
          [=](i64 i, const Arrays& m) { cuda::cross_entropy_finish<Bf16>(b.stream, part(i, m)); });
}

// Token and position of each row, on the device for the whole run.
const std::int32_t* make_indices(Stream stream, i64 rows) {
    std::vector<std::int32_t> indices(static_cast<std::size_t>(2 * rows));
    for (i64 r = 0; r < rows; ++r) {
        indices[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(r * 7919 % rows / 3);
        indices[static_cast<std::size_t>(rows + r)] = static_cast<std::int32_t>(r % 1024);
    }
    auto* const on_device = static_cast<std::int32_t*>(cuda::allocate_device(2 * rows * 4));
    cuda::copy_async(stream, on_device, indices.data(), 2 * rows * 4);
    cuda::synchronize(stream);
    return on_device;
}

}  // namespace

int main(int count, char** arguments) {
    benchmark::Initialize(&count, arguments);
    if (benchmark::ReportUnrecognizedArguments(count, arguments)) {
        return 2;
    }
    const cuda::Devices found = cuda::list_devices();
    if (found.devices.empty()) {
        std::fprintf(stderr, "no GPU: %s\n", found.reason.c_str());
        return 0;
    }
    const Stream stream = cuda::make_stream(cuda::QueuePriority::normal);
    constexpr i64 rows = 16384, logits_rows = 8192, logits_columns = 50304;
    const std::int32_t* const tokens = make_indices(stream, rows);
    auto* const zero = static_cast<i64*>(cuda::allocate_device(8));
    cuda::fill_bytes_async(stream, zero, 0, 8);
    Memory memory(stream);
    for (const i64 C : {768, 1600, 2048, 4096}) {
        const Bench b{stream, &memory, rows, C, rows * C * 2, zero};
        flat_passes(b);
        residual_passes(b);
        norm_passes(b);
        embedding_passes(b, tokens, tokens + rows);
        update_passes(b);
    }
    // One set of logits fills 8 arrays.
    cross_entropy_passes({stream, &memory, logits_rows, logits_columns, logits_rows * logits_columns * 2 / 8, zero},
                         tokens);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
