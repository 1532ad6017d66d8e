// The least time that a training step of a GPT can take on this GPU with bf16 products, by part, each part measured for
// about a second on end, so that the power limit holds for it as it does for a training:
//   products     every product of the step in its order, plain epilogue, the fastest algorithm that search_products
//                finds; weight gradients added in fp32; the head in chunks of 16384 rows
//   attention    causal, forward and backward, by cuDNN where it is found, else by our own kernels
//   other        bytes that cannot stay on the chip, at the rate of a device copy: 54 C a token and layer, three passes
//                over bf16 logits, 38 a parameter for AdamW, the norm and the gradient
// With fp8 the products of the blocks are made from operands that stand in fp8 already (kernels/ops/linear_fp8.h for
// the formats and sums), and `other` has the bytes of the casts beside: 110 C a token and layer, 8 for each weight of a
// block.
//   bench_floor LAYERS HIDDEN HEADS SEQUENCE MICRO_BATCH VOCABULARY [fp8]
// Prints one JSON object. Without a GPU it says so and ends with 77.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/common/rng.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/runtime.h"
#include "kernels/ops/linear_fp8.h"

namespace ogrom::peers {
namespace {

using Json = nlohmann::ordered_json;

struct Shape {
    i64 layers, C, heads, T, batch, vocabulary;
    ops::LinearFp8Scales* fp8 = nullptr;  // of fp8 operands, on the device; null: products in bf16
    [[nodiscard]] i64 rows() const { return batch * T; }
    [[nodiscard]] i64 parameters() const { return (vocabulary + T + 2) * C + layers * (12 * C * C + 13 * C); }
};

// Device memory that is handed out piece by piece and from its start again: what a launch reads is not in the cache
// from the last one.
class Ring {
public:
    // Holds a piece of `largest` bytes, and several times the cache.
    explicit Ring(i64 largest)
        : bytes_(round_up(std::max(largest, i64{1} << 29), 256)),
          memory_(static_cast<unsigned char*>(cuda::allocate_device(bytes_))) {}
    ~Ring() { cuda::free_device(memory_); }
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;

    template <class T>
    T* take(i64 n) {
        const i64 piece = round_up(n * static_cast<i64>(sizeof(T)), 256);
        next_ = next_ + piece > bytes_ ? 0 : next_;
        auto* const at = reinterpret_cast<T*>(memory_ + next_);
        next_ += piece;
        return at;
    }
    void zero(Stream stream) const { cuda::fill_bytes_async(stream, memory_, 0, bytes_); }
    // Numbers in (-1/2, 1/2): the clock of the tensor cores depends on the bits they see.
    void randomise(Stream stream) const {
        std::vector<Bf16> block(std::size_t{1} << 23);
        for (std::size_t i = 0; i < block.size(); ++i) {
            block[i] = to_bf16(static_cast<float>(uniform(random_word(1, 2, 3, i)) - 0.5));
        }
        const auto size = static_cast<i64>(block.size() * sizeof(Bf16));
        for (i64 at = 0; at < bytes_; at += size) {
            cuda::copy_async(stream, memory_ + at, block.data(), std::min(size, bytes_ - at));
        }
        cuda::synchronize(stream);
    }

private:
    i64 bytes_, next_ = 0;
    unsigned char* memory_;
};

// Seconds of a pass: a second of them unmeasured, then five runs of a fifth of a second; their median.
template <class Pass>
double sustained(Stream stream, const Pass& pass) {
    cuda::Event begin(cuda::Event::Timing::on), end(cuda::Event::Timing::on);
    const auto run = [&](i64 passes) {
        begin.record(stream);
        for (i64 i = 0; i < passes; ++i) {
            pass();
        }
        end.record(stream);
        end.wait();
        return end.seconds_since(begin) / static_cast<double>(passes);
    };
    static_cast<void>(run(1));
    const double about = std::max(run(1), 1e-6);
    static_cast<void>(run(static_cast<i64>(std::ceil(1 / about))));
    std::vector<double> seconds(5);
    for (double& one : seconds) {
        one = run(static_cast<i64>(std::ceil(0.2 / about)));
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
}

class Products {
public:
    Products(Stream stream, const Shape& shape)
        : stream_(stream),
          shape_(shape),
          head_rows_(std::min<i64>(shape.rows(), 16384)),
          operands_(2 * 2 * widest()),
          results_(2 * widest()),
          gradients_(4 * std::max(4 * shape.C, shape.vocabulary) * shape.C) {
        operands_.randomise(stream);
        results_.zero(stream);
        gradients_.zero(stream);
    }

    void step() {
        const i64 C = shape_.C, rows = shape_.rows();
        for (i64 layer = 0; layer < shape_.layers; ++layer) {
            block_forward(rows, C, 3 * C);
            block_forward(rows, C, C);
            block_forward(rows, C, 4 * C);
            block_forward(rows, 4 * C, C);
        }
        for (i64 row = 0; row < rows; row += head_rows_) {
            const i64 chunk = std::min(head_rows_, rows - row);
            forward(chunk, C, shape_.vocabulary);
            backward(chunk, C, shape_.vocabulary);
        }
        for (i64 layer = 0; layer < shape_.layers; ++layer) {
            block_backward(rows, 4 * C, C);
            block_backward(rows, C, 4 * C);
            block_backward(rows, C, C);
            block_backward(rows, C, 3 * C);
        }
    }

    [[nodiscard]] double flops() const {
        const auto C = static_cast<double>(shape_.C);
        return 6 * static_cast<double>(shape_.rows()) *
               (12 * static_cast<double>(shape_.layers) * C * C + static_cast<double>(shape_.vocabulary) * C);
    }

private:
    // Elements of the largest matrix in bf16; operands are two of them, side by side.
    [[nodiscard]] i64 widest() const {
        return std::max({shape_.rows() * 4 * shape_.C, head_rows_ * shape_.vocabulary, shape_.vocabulary * shape_.C,
                         4 * shape_.C * shape_.C});
    }
    // The same from codes: any bits of the operands are some, and the scale is 1.
    template <class Y>
    void product_fp8(Y* y, Dtype a, i64 m, i64 n, i64 k, ops::ProductSums sums) {
        const Fp8Scale* const one = &shape_.fp8->x;
        ops::Fp8Matmul<Y> op{y,
                             {operands_.take<Fp8Code>(m * k), one, a},
                             {operands_.take<Fp8Code>(n * k), one, Dtype::fp8_e4m3},
                             m,
                             n,
                             k,
                             sums};
        op.beta = std::is_same_v<Y, float> ? 1 : 0;
        cuda::fp8_matmul(stream_, op);
    }
    void block_forward(i64 rows, i64 in, i64 out) {
        if (shape_.fp8 == nullptr) {
            forward(rows, in, out);
            return;
        }
        product_fp8(results_.take<Bf16>(rows * out), Dtype::fp8_e4m3, rows, out, in, ops::ProductSums::fast);
    }
    void block_backward(i64 rows, i64 in, i64 out) {
        if (shape_.fp8 == nullptr) {
            backward(rows, in, out);
            return;
        }
        product_fp8(results_.take<Bf16>(rows * in), Dtype::fp8_e5m2, rows, in, out, ops::ProductSums::full);
        product_fp8(gradients_.take<float>(out * in), Dtype::fp8_e5m2, out, in, rows, ops::ProductSums::full);
    }
    // y = x w^T
    void forward(i64 rows, i64 in, i64 out) {
        ops::Matmul<Bf16> op{results_.take<Bf16>(rows * out),
                             operands_.take<Bf16>(rows * in),
                             operands_.take<Bf16>(out * in),
                             rows,
                             out,
                             in,
                             out,
                             in,
                             in};
        op.transpose_b = ops::Transpose::yes;
        cuda::matmul(stream_, op);
    }
    // dx = dy w ; dw += dy^T x
    void backward(i64 rows, i64 in, i64 out) {
        const Bf16* const d_y = operands_.take<Bf16>(rows * out);
        cuda::matmul(stream_, ops::Matmul<Bf16>{results_.take<Bf16>(rows * in), d_y, operands_.take<Bf16>(out * in),
                                                rows, in, out, in, out, in});
        ops::Matmul<Bf16, float> op{
            gradients_.take<float>(out * in), d_y, operands_.take<Bf16>(rows * in), out, in, rows, in, out, in};
        op.transpose_a = ops::Transpose::yes;
        op.beta = 1;
        cuda::matmul(stream_, op);
    }

    Stream stream_;
    Shape shape_;
    i64 head_rows_;
    Ring operands_, results_, gradients_;
};

Json measure_products(Stream stream, const Shape& shape) {
    Products products(stream, shape);
    products.step();
    cuda::synchronize(stream);
    const cuda::ProductSearch search = cuda::search_products(stream, cuda::products_used(), 60);
    const double seconds = sustained(stream, [&] { products.step(); });
    return {{"seconds", seconds},
            {"tflops", products.flops() / seconds * 1e-12},
            {"shapes", search.products.size()},
            {"left_out", search.left_out},  // shapes that keep the library's first choice
            {"library", cuda::products_key()}};
}

// Packed q|k|v rows of one layer, as the model has them.
class Attention {
public:
    Attention(Stream stream, const Shape& s)
        : stream_(stream), memory_(8 * s.rows() * s.C * 2), lse_(s.rows() * s.heads * 4) {
        memory_.randomise(stream);
        const i64 n = s.rows() * s.C;
        auto* const qkv = memory_.take<Bf16>(3 * n);
        auto* const d_qkv = memory_.take<Bf16>(3 * n);
        auto* const out = memory_.take<Bf16>(n);
        const auto* const d_out = memory_.take<Bf16>(n);
        auto* const lse = lse_.take<float>(s.rows() * s.heads);
        ops::AttentionShape shape{};
        shape.batch = s.batch;
        shape.queries = shape.keys = s.T;
        shape.heads = shape.kv_heads = s.heads;
        shape.head_dim = s.C / s.heads;
        shape.query_stride = shape.key_stride = shape.value_stride = 3 * s.C;
        shape.query_batch_stride = shape.key_batch_stride = shape.value_batch_stride = 3 * s.C * s.T;
        shape.out_stride = s.C;
        shape.out_batch_stride = s.C * s.T;
        shape.scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
        forward_ = {out, lse, qkv, qkv + s.C, qkv + 2 * s.C, shape, nullptr};
        backward_ = {d_qkv, d_qkv + s.C, d_qkv + 2 * s.C, d_out, out,    lse,
                     qkv,   qkv + s.C,   qkv + 2 * s.C,   shape, nullptr};
        // Where the library is missing, or has no plan for the shape, ours runs.
        by_cudnn_ = cuda::cudnn_library().found && cuda::attention_forward_cudnn(stream, forward_) &&
                    cuda::attention_backward_cudnn(stream, backward_);
        ops::set_attention_settings({by_cudnn_ ? ops::AttentionChoice::cudnn : ops::AttentionChoice::own});
        cuda::synchronize(stream);
    }

    void forward() const { cuda::attention_forward(stream_, forward_); }
    void backward() const { cuda::attention_backward(stream_, backward_); }
    [[nodiscard]] std::string kernels() const {
        return by_cudnn_ ? "cuDNN " + std::to_string(cuda::cudnn_library().version) : "our own";
    }

private:
    Stream stream_;
    Ring memory_, lse_;
    ops::AttentionForward<Bf16> forward_{};
    ops::AttentionBackward<Bf16> backward_{};
    bool by_cudnn_ = false;
};

// Bytes per second, read and written, the faster of our pass and the driver's copy.
double copy_rate(Stream stream) {
    constexpr i64 bytes = i64{1} << 30;
    Ring from(bytes), to(bytes);
    from.randomise(stream);
    auto* const x = from.take<Bf16>(bytes / 2);
    auto* const y = to.take<Bf16>(bytes / 2);
    const double ours = sustained(stream, [&] { cuda::copy(stream, y, x, bytes / 2); });
    const double driver = sustained(stream, [&] { cuda::copy_async(stream, y, x, bytes); });
    return 2 * static_cast<double>(bytes) / std::min(ours, driver);
}

Json floor_of(Stream stream, const Shape& shape) {
    const Json products = measure_products(stream, shape);
    double forward = 0, backward = 0;
    std::string kernels;
    {
        const Attention attention(stream, shape);
        forward = sustained(stream, [&] { attention.forward(); }) * static_cast<double>(shape.layers);
        backward = sustained(stream, [&] { attention.backward(); }) * static_cast<double>(shape.layers);
        kernels = attention.kernels();
    }
    const double rate = copy_rate(stream);
    const double per_token = shape.fp8 == nullptr ? 54 : 54 + 110, per_weight = shape.fp8 == nullptr ? 0 : 8;
    const double layers = static_cast<double>(shape.C * shape.layers);
    const double bytes =
        static_cast<double>(shape.rows()) * (per_token * layers + 6.0 * static_cast<double>(shape.vocabulary)) +
        per_weight * 12 * layers * static_cast<double>(shape.C) + 38.0 * static_cast<double>(shape.parameters());
    const double product_s = products.at("seconds").get<double>();
    return {{"floor_s", product_s + forward + backward + bytes / rate},
            {"parts_ms",
             {{"products", product_s * 1e3},
              {"attention_forward", forward * 1e3},
              {"attention_backward", backward * 1e3},
              {"other", bytes / rate * 1e3}}},
            {"products", products},
            {"attention", kernels},
            {"other_bytes", bytes},
            {"copy_gbs", rate * 1e-9},
            {"parameters", shape.parameters()}};
}

int run(int count, char** arguments) {
    const bool fp8 = count == 8 && std::string(arguments[7]) == "fp8";
    if (count != 7 && !fp8) {
        std::fprintf(stderr, "usage: bench_floor LAYERS HIDDEN HEADS SEQUENCE MICRO_BATCH VOCABULARY [fp8]\n");
        return 2;
    }
    std::vector<i64> n;
    for (int i = 1; i < 7; ++i) {
        n.push_back(std::stoll(arguments[i]));
        if (n.back() < 1 || n.back() > 1'000'000) {
            throw std::invalid_argument("1 to 1,000,000: " + std::string(arguments[i]));
        }
    }
    Shape shape{n[0], n[1], n[2], n[3], n[4], n[5]};
    if (shape.C % shape.heads != 0) {
        throw std::invalid_argument("HIDDEN is no multiple of HEADS");
    }
    const cuda::Devices found = cuda::list_devices();
    if (found.devices.empty()) {
        std::fprintf(stderr, "no GPU: %s\n", found.reason.c_str());
        return 77;
    }
    const Stream stream = cuda::make_stream(cuda::QueuePriority::normal);
    if (fp8) {
        const ops::LinearFp8Scales ones{{1, 1}, {1, 1}};
        shape.fp8 = static_cast<ops::LinearFp8Scales*>(cuda::allocate_device(sizeof ones));
        cuda::copy_async(stream, shape.fp8, &ones, sizeof ones);
        cuda::synchronize(stream);
    }
    Json json = floor_of(stream, shape);
    json["linears"] = fp8 ? "fp8" : "bf16";
    json["device"] = found.devices[0].name;
    std::printf("%s\n", json.dump(1).c_str());
    return 0;
}

}  // namespace
}  // namespace ogrom::peers

int main(int argc, char** argv) {
    try {
        return ogrom::peers::run(argc, argv);
    } catch (const std::invalid_argument& error) {
        std::fprintf(stderr, "bench_floor: %s\n", error.what());
        return 2;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_floor: %s\n", error.what());
        return 1;
    }
}
