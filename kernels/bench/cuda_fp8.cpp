// The linear layers of one transformer block in fp8 beside bf16: casts against the copy limit, products by the searched
// algorithm, and each layer whole. Arguments: hidden sizes (2048 when none is given). Without a GPU it says so.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "kernels/common/rng.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/runtime.h"
#include "kernels/ops/linear_fp8.h"

namespace {

using namespace ogrom;

constexpr i64 rows = 16384;

double seconds_of(Stream stream, const std::function<void()>& run) {
    cuda::Event begin(cuda::Event::Timing::on), end(cuda::Event::Timing::on);
    const auto timed = [&](int times) {
        begin.record(stream);
        for (int i = 0; i < times; ++i) {
            run();
        }
        end.record(stream);
        end.wait();
        return end.seconds_since(begin) / times;
    };
    const double about = std::max(timed(2), 1e-6);
    const int times = std::clamp(static_cast<int>(0.02 / about), 3, 200);
    std::vector<double> all = {timed(times), timed(times), timed(times)};
    std::sort(all.begin(), all.end());
    return all[1];
}

// Normal numbers, as activations and gradients are.
Bf16* random_matrix(Stream stream, i64 n, double size) {
    std::vector<Bf16> block(std::size_t{1} << 20);
    for (std::size_t i = 0; i < block.size(); ++i) {
        block[i] = to_bf16(static_cast<float>(size * normal_at(1, 2, i)));
    }
    auto* const memory = static_cast<Bf16*>(cuda::allocate_device(n * 2));
    for (i64 at = 0; at < n; at += static_cast<i64>(block.size())) {
        cuda::copy_async(stream, memory + at, block.data(), 2 * std::min(static_cast<i64>(block.size()), n - at));
    }
    cuda::synchronize(stream);
    return memory;
}

struct Memory {
    Bf16 *x, *y, *d_x, *weight, *u;
    float *d_weight, *d_bias;
    void* workspace;
    ops::LinearFp8Scales* scales;
};

// A cast's bytes per second against those of a copy of the same tensor, which reads and writes 4 bytes an element.
void casts(Stream stream, const Memory& m, i64 in) {
    const i64 n = rows * in;
    auto* const codes = static_cast<Fp8Code*>(m.workspace);
    const double copy = 4.0 * static_cast<double>(n) / seconds_of(stream, [&] { cuda::copy(stream, m.d_x, m.x, n); });
    const auto print = [&](const char* name, double bytes, ops::Largest largest, bool straight, bool turned,
                           bool sums) {
        ops::Quantise<Bf16> op{straight ? codes : nullptr,
                               turned ? codes + n : nullptr,
                               &m.scales->x,
                               m.x,
                               rows,
                               in,
                               Dtype::fp8_e4m3,
                               largest};
        op.column_sums = sums ? m.d_bias : nullptr;
        const double seconds = seconds_of(stream, [&] { cuda::quantise(stream, op); });
        std::printf("  cast %-34s [%ld, %5ld] %7.1f us, %5.2f of a copy\n", name, rows, in, seconds * 1e6,
                    bytes * static_cast<double>(n) / seconds / copy);
    };
    print("largest, codes", 5, ops::Largest::measured, true, false, false);
    print("codes", 3, ops::Largest::given, true, false, false);
    print("transposed", 3, ops::Largest::given, false, true, false);
    print("both", 4, ops::Largest::given, true, true, false);
    print("largest, both", 6, ops::Largest::measured, true, true, false);
    print("largest, sums over rows, both", 6, ops::Largest::measured, true, true, true);
}

struct Layer {
    const char* name;
    i64 in, out;
    bool gelu_behind, gelu_before;
};

void forward(Stream stream, const Memory& m, const Layer& l, bool fp8) {
    Bf16* const u = l.gelu_behind ? m.u : nullptr;
    if (fp8) {
        ops::linear_fp8_forward<Bf16>(stream,
                                      {m.y, u, m.x, m.weight, m.weight, rows, l.in, l.out, m.workspace, m.scales});
    } else if (l.gelu_behind) {
        ops::linear_bias_gelu<Bf16>(stream, {m.y, m.u, m.x, m.weight, m.weight, rows, l.in, l.out});
    } else {
        ops::linear_bias<Bf16>(stream, {m.y, m.x, m.weight, m.weight, rows, l.in, l.out});
    }
}

void backward(Stream stream, const Memory& m, const Layer& l, bool fp8) {
    if (fp8) {
        ops::linear_fp8_backward<Bf16>(stream,
                                       {m.d_x, m.d_weight, l.gelu_before ? nullptr : m.d_bias, m.y, m.x, m.weight,
                                        l.gelu_before ? m.u : nullptr, rows, l.in, l.out, m.workspace, m.scales});
        return;
    }
    ops::linear_gradients<Bf16>(stream, {m.d_weight, l.gelu_before ? nullptr : m.d_bias, m.y, m.x, rows, l.in, l.out});
    if (l.gelu_before) {
        ops::linear_input_gelu<Bf16>(stream, {m.d_x, m.y, m.weight, m.u, rows, l.in, l.out});
    } else {
        ops::matmul<Bf16>(stream, {m.d_x, m.y, m.weight, rows, l.in, l.out, l.in, l.out, l.in});
    }
}

void block(Stream stream, i64 C) {
    const i64 most = rows * 4 * C;
    Memory m{};
    m.x = random_matrix(stream, most, 1);
    m.y = random_matrix(stream, most, 1e-3);
    m.d_x = random_matrix(stream, most, 1);
    m.u = random_matrix(stream, most, 1);
    m.weight = random_matrix(stream, 4 * C * C, 0.02);
    m.d_weight = static_cast<float*>(cuda::allocate_device(4 * C * C * 4));
    m.d_bias = static_cast<float*>(cuda::allocate_device(4 * C * 4));
    m.workspace = cuda::allocate_device(std::max(
        {ops::linear_fp8_workspace(rows, C, 4 * C), ops::linear_fp8_workspace(rows, 4 * C, C), 2 * rows * 4 * C}));
    m.scales = static_cast<ops::LinearFp8Scales*>(cuda::allocate_device(256));
    const Layer layers[] = {{"qkv", C, 3 * C, false, false},
                            {"out", C, C, false, false},
                            {"up", C, 4 * C, true, false},
                            {"down", 4 * C, C, false, true}};
    std::printf("hidden %ld\n", C);
    for (const i64 width : {C, 4 * C}) {
        casts(stream, m, width);
    }
    for (const bool fp8 : {false, true}) {
        for (const Layer& layer : layers) {
            forward(stream, m, layer, fp8);
            backward(stream, m, layer, fp8);
        }
    }
    const cuda::ProductSearch search = cuda::search_products(stream, cuda::products_used(), 40);
    for (const cuda::ProductTime& one : search.products) {
        const cuda::ProductShape& s = one.shape;
        const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
        std::printf("  product %-8s %s -> %s %6ld %6ld %6ld epilogue %d: %8.1f us, %6.1f TFLOP/s%s\n",
                    std::string(name_of(s.operands)).c_str(), s.sums == ops::ProductSums::fast ? "fast" : "full",
                    s.result == Dtype::fp32 ? "fp32" : "bf16", s.m, s.n, s.k, static_cast<int>(s.epilogue),
                    one.best_seconds * 1e6, flops / one.best_seconds / 1e12, one.apart ? ", apart" : "");
    }
    double all[2] = {0, 0};
    for (const Layer& layer : layers) {
        double ahead[2], back[2];
        for (const int fp8 : {0, 1}) {
            ahead[fp8] = seconds_of(stream, [&] { forward(stream, m, layer, fp8 == 1); });
            back[fp8] = seconds_of(stream, [&] { backward(stream, m, layer, fp8 == 1); });
            all[fp8] += ahead[fp8] + back[fp8];
        }
        std::printf("  layer %-5s forward bf16 %8.1f us, fp8 %8.1f us; backward bf16 %8.1f us, fp8 %8.1f us\n",
                    layer.name, ahead[0] * 1e6, ahead[1] * 1e6, back[0] * 1e6, back[1] * 1e6);
    }
    std::printf("  all four, both passes: bf16 %.1f us, fp8 %.1f us, %.3f times the rate\n", all[0] * 1e6, all[1] * 1e6,
                all[0] / all[1]);
    for (void* one : {static_cast<void*>(m.x), static_cast<void*>(m.y), static_cast<void*>(m.d_x),
                      static_cast<void*>(m.u), static_cast<void*>(m.weight), static_cast<void*>(m.d_weight),
                      static_cast<void*>(m.d_bias), m.workspace, static_cast<void*>(m.scales)}) {
        cuda::free_device(one);
    }
}

}  // namespace

int main(int count, char** arguments) {
    const cuda::Devices found = cuda::list_devices();
    if (found.devices.empty()) {
        std::printf("no GPU: %s\n", found.reason.c_str());
        return 0;
    }
    const Stream stream = cuda::make_stream(cuda::QueuePriority::normal);
    std::vector<i64> sizes;
    for (int i = 1; i < count; ++i) {
        sizes.push_back(std::stoll(arguments[i]));
    }
    for (const i64 C : sizes.empty() ? std::vector<i64>{2048} : sizes) {
        block(stream, C);
    }
    return 0;
}
