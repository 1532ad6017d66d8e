// Rates of the CUDA operations that pass over memory, in bf16, as shares of a device copy measured beside them. Bytes
// are those that the contract of each operation names, each array counted once. Without a GPU it says so and ends.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
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

struct Bench {
    Stream stream;
    i64 rows, C;
    double copy_rate = 0;

    void row(const char* name, double bytes, const std::function<void(i64)>& launch) const {
        const double seconds = seconds_of(stream, launch);
        const double rate = bytes / seconds;
        std::printf("%-28s rows %6ld C %5ld  %9.1f us  %7.0f GB/s  %5.1f %% of copy\n", name, rows, C, seconds * 1e6,
                    rate / 1e9, 100 * rate / copy_rate);
    }
};

void element_passes(const Bench& b, const Arrays& m) {
    const i64 n = b.rows * b.C;
    const auto bytes = static_cast<double>(n) * 2;
    const Stream s = b.stream;
    b.row("add float += bf16", 5 * bytes, [&](i64 i) { cuda::add(s, m.at<float>(i, 0), m.at<Bf16>(i, 2), n); });
    b.row("cast bf16 <- float", 3 * bytes, [&](i64 i) { cuda::cast(s, m.at<Bf16>(i, 0), m.at<float>(i, 2), n); });
    b.row("fill", bytes, [&](i64 i) { cuda::fill(s, m.at<Bf16>(i, 0), to_bf16(0.25F), n); });
    b.row("gelu_forward", 2 * bytes, [&](i64 i) {
        cuda::gelu_forward<Bf16>(s, {m.at<Bf16>(i, 0), m.at<Bf16>(i, 1), n});
    });
    b.row("bias_gelu_forward", 3 * bytes, [&](i64 i) {
        cuda::bias_gelu_forward<Bf16>(s, {m.at<Bf16>(i, 0), m.at<Bf16>(i, 1), m.at<Bf16>(i, 2), b.rows, b.C});
    });
    b.row("gelu_backward", 3 * bytes, [&](i64 i) {
        cuda::gelu_backward<Bf16>(s, {m.at<Bf16>(i, 0), m.at<Bf16>(i, 1), m.at<Bf16>(i, 2), n});
    });
    cuda::fill_bytes_async(s, m.at<i64>(0, 7), 0, 8);  // the sample's number
    for (const double p : {0.0, 0.1}) {
        b.row(p > 0 ? "residual_forward p=0.1" : "residual_forward", 3 * bytes, [&](i64 i) {
            cuda::residual_forward<Bf16>(s, {m.at<Bf16>(i, 0),
                                             m.at<Bf16>(i, 1),
                                             m.at<Bf16>(i, 2),
                                             m.at<Bf16>(i, 3),
                                             1,
                                             b.rows,
                                             b.C,
                                             m.at<i64>(0, 7),
                                             {.p = p, .seed = 1, .site = 2, .step = 3}});
        });
    }
    b.row("add_bias", 2 * bytes, [&](i64 i) {
        cuda::add_bias<Bf16>(s, {m.at<Bf16>(i, 0), m.at<Bf16>(i, 1), b.rows, b.C, b.C});
    });
}

void row_passes(const Bench& b, const Arrays& m) {
    const i64 n = b.rows * b.C;
    const auto bytes = static_cast<double>(n) * 2;
    const Stream s = b.stream;
    b.row("layernorm_forward", 2 * bytes, [&](i64 i) {
        cuda::layernorm_forward<Bf16>(s, {m.at<Bf16>(i, 0), m.at<float>(i, 6), m.at<float>(i, 7), m.at<Bf16>(i, 1),
                                          m.at<Bf16>(i, 2), m.at<Bf16>(i, 3), b.rows, b.C, 1e-5});
    });
    const auto backward = [&](i64 i, bool data, bool parameters) {
        cuda::layernorm_backward<Bf16>(
            s, {data ? m.at<Bf16>(i, 0) : nullptr, parameters ? m.at<float>(i, 4) : nullptr,
                parameters ? m.at<float>(i, 5) : nullptr, m.at<Bf16>(i, 1), m.at<Bf16>(i, 2), m.at<Bf16>(i, 3),
                m.at<float>(i, 6), m.at<float>(i, 7), b.rows, b.C, ops::Accumulate::add});
    };
    b.row("layernorm_backward", 4 * bytes, [&](i64 i) { backward(i, true, true); });
    b.row("layernorm_backward d_x", 4 * bytes, [&](i64 i) { backward(i, true, false); });
    b.row("bias_gradient (columns)", bytes, [&](i64 i) {
        cuda::bias_gradient<Bf16>(s, {m.at<float>(i, 4), m.at<Bf16>(i, 1), b.rows, b.C, b.C});
    });
}

void embedding_passes(const Bench& b, const Arrays& m, const std::int32_t* tokens, const std::int32_t* positions) {
    const auto bytes = static_cast<double>(b.rows * b.C) * 2;
    const Stream s = b.stream;
    b.row("embedding_forward", 3 * bytes, [&](i64 i) {
        cuda::embedding_forward<Bf16>(s, {m.at<Bf16>(i, 0),
                                          m.at<Bf16>(i, 1),
                                          m.at<Bf16>(i, 2),
                                          tokens,
                                          positions,
                                          b.rows / 1024,
                                          1024,
                                          b.C,
                                          nullptr,
                                          {}});
    });
    b.row("embedding_backward tokens", 5 * bytes, [&](i64 i) {
        cuda::embedding_backward<Bf16>(s, {m.at<float>(i, 4),
                                           nullptr,
                                           m.at<Bf16>(i, 1),
                                           tokens,
                                           nullptr,
                                           b.rows / 1024,
                                           1024,
                                           b.C,
                                           b.rows,
                                           nullptr,
                                           {}});
    });
}

void update_passes(Bench b, const Arrays& m) {
    const i64 n = b.rows * b.C / 2;  // floats fill an array
    const auto elements = static_cast<double>(n);
    const ops::StepScalars scalars{.lr = 1e-4};
    b.row("adamw bf16 with master", 30 * elements, [&](i64 i) {
        cuda::adamw<Bf16>(b.stream, {m.at<Bf16>(i, 0), m.at<float>(i, 1), m.at<float>(i, 2), m.at<float>(i, 3), n,
                                     scalars, 1, 0.1, nullptr, m.at<float>(i, 4)});
    });
    b.row("block_squares float", 4 * elements, [&](i64 i) {
        const ops::SquaresRange<float> one{m.at<float>(i, 1), n};
        cuda::block_squares<float>(b.stream, {&one, 1}, *m.at<ExactSum>(i, 5));
    });
}

void cross_entropy_pass(Stream stream, double copy_rate, const std::int32_t* targets) {
    const Bench b{stream, 8192, 50304, copy_rate};
    const Arrays m(stream, b.rows * b.C * 2 / 8);  // one set of logits fills 8 arrays
    const auto bytes = static_cast<double>(b.rows * b.C) * 2;
    double* loss = static_cast<double*>(cuda::allocate_device(8));
    for (const ops::Gradient gradient : {ops::Gradient::in_place, ops::Gradient::none}) {
        const bool writes = gradient == ops::Gradient::in_place;
        b.row(writes ? "cross_entropy in place" : "cross_entropy loss", (writes ? 2 : 1) * bytes, [&](i64 i) {
            cuda::cross_entropy<Bf16>(
                stream, {m.at<Bf16>(i, 0), targets, nullptr, b.rows, 50257, 50304, 50304, 1e-4, gradient, loss});
        });
    }
    cuda::free_device(loss);
}

}  // namespace

int main() {
    const cuda::Devices found = cuda::list_devices();
    if (found.devices.empty()) {
        std::printf("no GPU: %s\n", found.reason.c_str());
        return 0;
    }
    const Stream stream = cuda::make_stream(cuda::QueuePriority::normal);
    constexpr i64 rows = 16384;
    std::vector<std::int32_t> indices(2 * rows);
    for (i64 r = 0; r < rows; ++r) {
        indices[r] = static_cast<std::int32_t>(r * 7919 % rows / 3);
        indices[rows + r] = static_cast<std::int32_t>(r % 1024);
    }
    auto* const tokens = static_cast<std::int32_t*>(cuda::allocate_device(2 * rows * 4));
    cuda::copy_async(stream, tokens, indices.data(), 2 * rows * 4);
    double copy_rate = 0;
    for (const i64 C : {768, 1600, 2048, 4096}) {
        const Arrays m(stream, rows * C * 2);
        const auto bytes = static_cast<double>(rows * C) * 2;
        const double seconds =
            seconds_of(stream, [&](i64 i) { cuda::copy(stream, m.at<Bf16>(i, 0), m.at<Bf16>(i, 1), rows * C); });
        copy_rate = 2 * bytes / seconds;
        std::printf("%-28s rows %6ld C %5ld  %9.1f us  %7.0f GB/s\n", "copy", rows, C, seconds * 1e6, copy_rate / 1e9);
        const Bench b{stream, rows, C, copy_rate};
        element_passes(b, m);
        row_passes(b, m);
        embedding_passes(b, m, tokens, tokens + rows);
        update_passes(b, m);
    }
    cross_entropy_pass(stream, copy_rate, tokens);
    cuda::free_device(tokens);
    return 0;
}
