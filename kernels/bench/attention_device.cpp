// bf16 attention on the device, packed q|k|v rows: our own kernels against cuDNN. Each is verified against the fp32
// kernel first; then TFLOP/s over causal pairs (4 P D forward, 10 P D backward), median of timed repetitions.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/common/rng.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/scratch.h"

namespace ogrom::bench {
namespace {

using ops::AttentionChoice;
using ops::AttentionOrder;

template <class T>
class Memory {
public:
    explicit Memory(i64 n) : n_(n), memory_(static_cast<T*>(cuda::allocate_device(n * static_cast<i64>(sizeof(T))))) {}
    ~Memory() { cuda::free_device(memory_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    T* data() { return memory_; }
    void upload(Stream stream, const std::vector<T>& values) {
        cuda::copy_async(stream, memory_, values.data(), n_ * static_cast<i64>(sizeof(T)));
        cuda::synchronize(stream);
    }
    std::vector<T> download(Stream stream) {
        std::vector<T> values(static_cast<std::size_t>(n_));
        cuda::copy_async(stream, values.data(), memory_, n_ * static_cast<i64>(sizeof(T)));
        cuda::synchronize(stream);
        return values;
    }

private:
    i64 n_;
    T* memory_;
};

template <class T>
struct Problem {
    i64 width, rows;
    ops::AttentionShape shape{};
    Memory<T> qkv, d_qkv, out, d_out;
    Memory<StatisticOf<T>> lse;

    Problem(Stream stream, i64 batch, i64 heads, i64 length, i64 depth)
        : width(heads * depth),
          rows(batch * length),
          qkv(3 * rows * width),
          d_qkv(3 * rows * width),
          out(rows * width),
          d_out(rows * width),
          lse(rows * heads) {
        shape.batch = batch;
        shape.queries = shape.keys = length;
        shape.heads = shape.kv_heads = heads;
        shape.head_dim = depth;
        shape.query_stride = shape.key_stride = shape.value_stride = 3 * width;
        shape.query_batch_stride = shape.key_batch_stride = shape.value_batch_stride = 3 * width * length;
        shape.out_stride = width;
        shape.out_batch_stride = width * length;
        shape.scale = 1 / std::sqrt(static_cast<double>(depth));
        qkv.upload(stream, random(3 * rows * width, 1));
        d_out.upload(stream, random(rows * width, 2));
    }
    // Exact in bf16, so that all types see the same inputs.
    static std::vector<T> random(i64 n, u32 stream) {
        std::vector<T> values(static_cast<std::size_t>(n));
        for (i64 i = 0; i < n; ++i) {
            const double drawn = 2 * uniform(random_word(1, stream, 0, static_cast<u64>(i))) - 1;
            values[static_cast<std::size_t>(i)] = static_cast<T>(static_cast<float>(Bf16(static_cast<float>(drawn))));
        }
        return values;
    }
    ops::AttentionForward<T> forward() {
        return {out.data(), lse.data(), qkv.data(), qkv.data() + width, qkv.data() + 2 * width, shape, nullptr};
    }
    ops::AttentionBackward<T> backward() {
        return {d_qkv.data(), d_qkv.data() + width, d_qkv.data() + 2 * width, d_out.data(), out.data(), lse.data(),
                qkv.data(),   qkv.data() + width,   qkv.data() + 2 * width,   shape,        nullptr};
    }
    [[nodiscard]] double flops(double per_pair) const {
        const double length = static_cast<double>(shape.queries);
        return per_pair * static_cast<double>(shape.batch * shape.heads * shape.head_dim) * length * (length + 1) / 2;
    }
};

enum class Kernel { cudnn, own, mma };

void forward(Stream stream, Problem<Bf16>& x, Kernel kernel) {
    if (kernel == Kernel::mma) {
        cuda::attention_forward_mma(stream, x.forward());
        return;
    }
    ops::set_attention_settings(
        {kernel == Kernel::own ? AttentionChoice::own : AttentionChoice::cudnn, AttentionOrder::any});
    ops::attention_forward(stream, x.forward());
}

void backward(Stream stream, Problem<Bf16>& x, Kernel kernel) {
    if (kernel == Kernel::mma) {
        void* const delta = cuda::scratch(stream, x.rows * x.shape.heads * 4);
        cuda::attention_backward_mma(stream, x.backward(), static_cast<float*>(delta));
        return;
    }
    ops::set_attention_settings(
        {kernel == Kernel::own ? AttentionChoice::own : AttentionChoice::cudnn, AttentionOrder::any});
    ops::attention_backward(stream, x.backward());
}

double number(float x) {
    return x;
}
double number(Bf16 x) {
    return to_float(x);
}

// ||got - want|| / ||want||; a NaN or zeros alone give infinity.
template <class T>
double distance(const std::vector<T>& got, const std::vector<float>& want) {
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
        const double difference = number(got[i]) - number(want[i]);
        error += difference * difference;
        norm += number(want[i]) * number(want[i]);
    }
    const double relative = std::sqrt(error / norm);
    return std::isfinite(relative) ? relative : INFINITY;
}

void verify(Stream stream, i64 depth, Kernel kernel, const char* name) {
    Problem<Bf16> x(stream, 2, 2, 1024, depth);
    Problem<float> want(stream, 2, 2, 1024, depth);
    ops::attention_forward(stream, want.forward());
    ops::attention_backward(stream, want.backward());
    forward(stream, x, kernel);
    backward(stream, x, kernel);
    const double out = distance(x.out.download(stream), want.out.download(stream));
    const double gradients = distance(x.d_qkv.download(stream), want.d_qkv.download(stream));
    // Probabilities and results rounded to bf16, 2^-9 each.
    if (!(out < 1e-2 && gradients < 1e-2)) {
        std::fprintf(stderr, "%s, d %d: out differs by %g, gradients by %g\n", name, static_cast<int>(depth), out,
                     gradients);
        std::exit(1);
    }
}

template <class Call>
double median_seconds(Stream stream, const Call& call) {
    for (int i = 0; i < 3; ++i) {
        call();
    }
    std::vector<double> seconds;
    for (int i = 0; i < 15; ++i) {
        cuda::Event start(cuda::Event::Timing::on), end(cuda::Event::Timing::on);
        start.record(stream);
        call();
        end.record(stream);
        end.wait();
        seconds.push_back(end.seconds_since(start));
    }
    std::nth_element(seconds.begin(), seconds.begin() + 7, seconds.end());
    return seconds[7];
}

void measure(Stream stream, i64 length, i64 depth, bool with_cudnn) {
    Problem<Bf16> x(stream, 32768 / length, 2048 / depth, length, depth);
    const auto rate = [&](auto pass, Kernel kernel, double per_pair) {
        return x.flops(per_pair) / median_seconds(stream, [&] { pass(stream, x, kernel); }) * 1e-12;
    };
    const auto row = [&](const char* name, auto pass, double per_pair) {
        const double own = rate(pass, Kernel::own, per_pair), mma = rate(pass, Kernel::mma, per_pair);
        const double peer = with_cudnn ? rate(pass, Kernel::cudnn, per_pair) : 0;
        std::printf("T %5d  d %3d  %-8s  own %6.1f  mma %6.1f  cuDNN %6.1f TFLOP/s  own/cuDNN %.3f\n",
                    static_cast<int>(length), static_cast<int>(depth), name, own, mma, peer, peer > 0 ? own / peer : 0);
    };
    row("forward", forward, 4);
    row("backward", backward, 10);
}

int run() {
    const cuda::Devices found = cuda::list_devices();
    if (found.devices.empty()) {
        std::printf("no GPU: %s\n", found.reason.c_str());
        return 0;
    }
    const Stream stream = cuda::make_stream(cuda::QueuePriority::normal);
    const bool with_cudnn = cuda::cudnn_library().found;
    std::printf(
        "%s; cuDNN %s\n", found.devices[0].name.c_str(),
        with_cudnn ? std::to_string(cuda::cudnn_library().version).c_str() : cuda::cudnn_library().reason.c_str());
    for (const i64 depth : {64, 128}) {
        verify(stream, depth, Kernel::own, "own");
        verify(stream, depth, Kernel::mma, "mma");
        if (with_cudnn) {
            verify(stream, depth, Kernel::cudnn, "cuDNN");
        }
        for (const i64 length : {1024, 2048}) {
            measure(stream, length, depth, with_cudnn);
        }
    }
    return 0;
}

}  // namespace
}  // namespace ogrom::bench

int main() {
    return ogrom::bench::run();
}
