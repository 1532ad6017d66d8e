// The CUDA entries of a build without nvcc.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/philox.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {

Devices list_devices() {
    Devices found;
    found.reason = "the CUDA backend is not compiled into this binary";
    return found;
}

void philox_fill(Stream, const PhiloxFill&) {
    cuda_not_compiled("philox_fill");
}

void* scratch(Stream, i64) {
    cuda_not_compiled("scratch");
}
void release_scratch(Stream) {}
const void* scratch_start(Stream) {
    return nullptr;
}
i64 scratch_bytes() {
    return 0;
}

void set_float_products(FloatProducts) {
    cuda_not_compiled("set_float_products");
}
FloatProducts float_products() {
    return FloatProducts::fp32;
}
std::vector<ProductShape> products_used() {
    return {};
}
ProductSearch search_products(Stream, const std::vector<ProductShape>&, double) {
    cuda_not_compiled("search_products");
}
std::string products_key() {
    cuda_not_compiled("products_key");
}
std::string export_products(Choices) {
    cuda_not_compiled("export_products");
}
ImportedProducts import_products(const std::string&, Taken) {
    cuda_not_compiled("import_products");
}

void set_device(int) {
    cuda_not_compiled("set_device");
}
MemoryInfo memory_info() {
    cuda_not_compiled("memory_info");
}
void* allocate_device(i64) {
    cuda_not_compiled("allocate_device");
}
void free_device(void*) noexcept {}
void* allocate_pinned(i64) {
    cuda_not_compiled("allocate_pinned");
}
void free_pinned(void*) noexcept {}
Stream make_stream(QueuePriority) {
    cuda_not_compiled("make_stream");
}
void destroy_stream(Stream) noexcept {}
void copy_async(Stream, void*, const void*, i64) {
    cuda_not_compiled("copy_async");
}
void fill_bytes_async(Stream, void*, int, i64) {
    cuda_not_compiled("fill_bytes_async");
}
void synchronize(Stream) {
    cuda_not_compiled("synchronize");
}
Event::Event(Timing) {
    cuda_not_compiled("Event");
}
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;
void Event::record(Stream) {
    cuda_not_compiled("Event");
}
bool Event::done() const {
    return event_ == nullptr;
}
void Event::wait() const {}
void Event::hold(Stream) const {}
double Event::seconds_since(const Event&) const {
    cuda_not_compiled("Event");
}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
void Graph::begin(Stream) {
    cuda_not_compiled("Graph");
}
Graph Graph::end(Stream) {
    cuda_not_compiled("Graph");
}
void Graph::abandon(Stream) noexcept {}
void Graph::launch(Stream) const {
    cuda_not_compiled("Graph");
}
void push_range(const char*) {}
void pop_range() {}

// One line for each operation of kernels/cuda/ops.h, for all types of a GPU.
#define OGROM_NOT_COMPILED(operation, Op)                    \
    template <class T>                                       \
    void operation(Stream, const ops::Op<T>&) {              \
        cuda_not_compiled(#operation);                       \
    }                                                        \
    template void operation(Stream, const ops::Op<float>&);  \
    template void operation(Stream, const ops::Op<double>&); \
    template void operation(Stream, const ops::Op<Bf16>&);   \
    template void operation(Stream, const ops::Op<Fp16>&);

OGROM_NOT_COMPILED(embedding_forward, EmbeddingForward)
OGROM_NOT_COMPILED(embedding_backward, EmbeddingBackward)
OGROM_NOT_COMPILED(position_forward, PositionForward)
OGROM_NOT_COMPILED(layernorm_forward, LayerNormForward)
OGROM_NOT_COMPILED(layernorm_backward, LayerNormBackward)
OGROM_NOT_COMPILED(add_bias, AddBias)
OGROM_NOT_COMPILED(residual_forward, ResidualForward)
OGROM_NOT_COMPILED(dropout_backward, DropoutBackward)
OGROM_NOT_COMPILED(residual_norm_forward, ResidualNormForward)
OGROM_NOT_COMPILED(bias_gelu_forward, BiasGeluForward)
OGROM_NOT_COMPILED(gelu_forward, GeluForward)
OGROM_NOT_COMPILED(gelu_backward, GeluBackward)
OGROM_NOT_COMPILED(cross_entropy, CrossEntropy)
OGROM_NOT_COMPILED(cross_entropy_max, CrossEntropyPart)
OGROM_NOT_COMPILED(cross_entropy_sum, CrossEntropyPart)
OGROM_NOT_COMPILED(cross_entropy_finish, CrossEntropyPart)
OGROM_NOT_COMPILED(adamw, AdamW)
OGROM_NOT_COMPILED(sgd, Sgd)
OGROM_NOT_COMPILED(bias_gradient, BiasGradient)
OGROM_NOT_COMPILED(attention_forward, AttentionForward)
OGROM_NOT_COMPILED(attention_backward, AttentionBackward)
#undef OGROM_NOT_COMPILED

i64 attention_scratch(const ops::AttentionShape&) {
    return 0;
}
const CudnnLibrary& cudnn_library() {
    static const CudnnLibrary none{false, 0, "the CUDA backend is not compiled into this binary"};
    return none;
}

template <class T>
double sum_of_squares(Stream, const T*, i64) {
    cuda_not_compiled("sum_of_squares");
}
template double sum_of_squares(Stream, const float*, i64);
template double sum_of_squares(Stream, const double*, i64);
template double sum_of_squares(Stream, const Bf16*, i64);
template double sum_of_squares(Stream, const Fp16*, i64);

template <class T>
void block_squares(Stream, std::span<const ops::SquaresRange<T>>, ExactSum&) {
    cuda_not_compiled("block_squares");
}
template void block_squares(Stream, std::span<const ops::SquaresRange<float>>, ExactSum&);
template void block_squares(Stream, std::span<const ops::SquaresRange<double>>, ExactSum&);
template void block_squares(Stream, std::span<const ops::SquaresRange<Bf16>>, ExactSum&);
template void block_squares(Stream, std::span<const ops::SquaresRange<Fp16>>, ExactSum&);

template <class T>
bool all_finite(Stream, const T*, i64) {
    cuda_not_compiled("all_finite");
}
template bool all_finite(Stream, const float*, i64);
template bool all_finite(Stream, const double*, i64);
template bool all_finite(Stream, const Bf16*, i64);
template bool all_finite(Stream, const Fp16*, i64);

template <class T>
void last_nonfinite(Stream, u64*, const T*, i64, u64) {
    cuda_not_compiled("last_nonfinite");
}
template <class T>
u64 weight_hash(Stream, std::span<const ops::HashRun<T>>) {
    cuda_not_compiled("weight_hash");
}
template u64 weight_hash(Stream, std::span<const ops::HashRun<float>>);
template u64 weight_hash(Stream, std::span<const ops::HashRun<double>>);
template void last_nonfinite(Stream, u64*, const float*, i64, u64);
template void last_nonfinite(Stream, u64*, const double*, i64, u64);

template <class T, class Y>
void matmul(Stream, const ops::Matmul<T, Y>&) {
    cuda_not_compiled("matmul");
}
template void matmul(Stream, const ops::Matmul<float>&);
template void matmul(Stream, const ops::Matmul<double>&);
template void matmul(Stream, const ops::Matmul<Bf16>&);
template void matmul(Stream, const ops::Matmul<Fp16>&);
template void matmul(Stream, const ops::Matmul<Bf16, float>&);
template void matmul(Stream, const ops::Matmul<Fp16, float>&);

#define OGROM_NOT_COMPILED(operation, Op)                    \
    template <class T>                                       \
    bool operation(Stream, const ops::Op<T>&) {              \
        cuda_not_compiled(#operation);                       \
    }                                                        \
    template bool operation(Stream, const ops::Op<float>&);  \
    template bool operation(Stream, const ops::Op<double>&); \
    template bool operation(Stream, const ops::Op<Bf16>&);   \
    template bool operation(Stream, const ops::Op<Fp16>&);

OGROM_NOT_COMPILED(linear_bias, LinearBias)
OGROM_NOT_COMPILED(linear_bias_gelu, LinearBiasGelu)
OGROM_NOT_COMPILED(linear_input_gelu, LinearInputGelu)
OGROM_NOT_COMPILED(linear_gradients, LinearGradients)
#undef OGROM_NOT_COMPILED

void quantise(Stream, const ops::Quantise<Bf16>&) {
    cuda_not_compiled("quantise");
}
void fp8_matmul(Stream, const ops::Fp8Matmul<Bf16>&) {
    cuda_not_compiled("fp8_matmul");
}
void fp8_matmul(Stream, const ops::Fp8Matmul<float>&) {
    cuda_not_compiled("fp8_matmul");
}
bool fp8_matmul_bias(Stream, const ops::Fp8Matmul<Bf16>&, const Bf16*) {
    cuda_not_compiled("fp8_matmul_bias");
}
bool fp8_matmul_bias_gelu(Stream, const ops::Fp8Matmul<Bf16>&, const Bf16*, Bf16*) {
    cuda_not_compiled("fp8_matmul_bias_gelu");
}
bool fp8_matmul_gelu_backward(Stream, const ops::Fp8Matmul<Bf16>&, const Bf16*) {
    cuda_not_compiled("fp8_matmul_gelu_backward");
}

template <class Y, class X>
void add(Stream, Y*, const X*, i64) {
    cuda_not_compiled("add");
}
template void add(Stream, float*, const float*, i64);
template void add(Stream, double*, const double*, i64);
template void add(Stream, float*, const Bf16*, i64);
template void add(Stream, float*, const Fp16*, i64);

template <class T>
void copy(Stream, T*, const T*, i64) {
    cuda_not_compiled("copy");
}
template void copy(Stream, float*, const float*, i64);
template void copy(Stream, double*, const double*, i64);
template void copy(Stream, Bf16*, const Bf16*, i64);
template void copy(Stream, Fp16*, const Fp16*, i64);

template <class T>
void fill(Stream, T*, T, i64) {
    cuda_not_compiled("fill");
}
template void fill(Stream, float*, float, i64);
template void fill(Stream, double*, double, i64);
template void fill(Stream, Bf16*, Bf16, i64);
template void fill(Stream, Fp16*, Fp16, i64);

template <class To, class From>
void cast(Stream, To*, const From*, i64) {
    cuda_not_compiled("cast");
}
template void cast(Stream, float*, const double*, i64);
template void cast(Stream, float*, const Bf16*, i64);
template void cast(Stream, float*, const Fp16*, i64);
template void cast(Stream, double*, const float*, i64);
template void cast(Stream, double*, const Bf16*, i64);
template void cast(Stream, double*, const Fp16*, i64);
template void cast(Stream, Bf16*, const float*, i64);
template void cast(Stream, Fp16*, const float*, i64);
template void cast(Stream, Bf16*, const double*, i64);
template void cast(Stream, Fp16*, const double*, i64);

}  // namespace ogrom::cuda
