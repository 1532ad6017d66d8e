// The products of one transformer block and of the head in bf16: first choice of cublasLt against the searched one,
// together with their passes or apart. Argument: hidden sizes (768 when none is given). Without a GPU it says so.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/runtime.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/matmul.h"

namespace {

using namespace ogrom;

const char* name_of(cuda::Epilogue epilogue) {
    switch (epilogue) {
        case cuda::Epilogue::none:
            return "plain";
        case cuda::Epilogue::bias:
            return "bias";
        case cuda::Epilogue::bias_gelu:
            return "bias + gelu";
        case cuda::Epilogue::gelu_backward:
            return "gelu backward";
        case cuda::Epilogue::bias_gradient:
            return "bias gradient";
    }
    return "?";
}

// Uses each product once, so that the library's shapes are known.
void use_all(Stream stream, i64 rows, i64 C) {
    const i64 vocabulary = 50304, head_rows = std::min<i64>(rows, 8192);
    const i64 most = std::max({rows * 4 * C, vocabulary * C, head_rows * vocabulary});
    std::vector<void*> memory;
    const auto take = [&](i64 bytes) {
        memory.push_back(cuda::allocate_device(bytes));
        return memory.back();
    };
    auto* const a = static_cast<Bf16*>(take(most * 2));
    auto* const b = static_cast<Bf16*>(take(most * 2));
    auto* const y = static_cast<Bf16*>(take(most * 2));
    auto* const u = static_cast<Bf16*>(take(rows * 4 * C * 2));
    auto* const gradient = static_cast<float*>(take(vocabulary * C * 4));
    struct Layer {
        i64 in, out;
    };
    for (const Layer& l : {Layer{C, 3 * C}, Layer{C, C}, Layer{C, 4 * C}, Layer{4 * C, C}}) {
        ops::linear_bias<Bf16>(stream, {y, a, b, nullptr, rows, l.in, l.out});
        ops::linear_bias<Bf16>(stream, {y, a, b, u, rows, l.in, l.out});
        ops::linear_gradients<Bf16>(stream, {gradient, gradient, a, y, rows, l.in, l.out});
        ops::linear_gradients<Bf16>(stream, {gradient, nullptr, a, y, rows, l.in, l.out});
        ops::matmul<Bf16>(stream, {y, a, b, rows, l.in, l.out, l.in, l.out, l.in});
    }
    ops::linear_bias_gelu<Bf16>(stream, {y, u, a, b, b, rows, C, 4 * C});
    ops::linear_input_gelu<Bf16>(stream, {y, a, b, u, rows, 4 * C, C});
    for (const i64 columns : {i64{50257}, vocabulary}) {
        ops::matmul<Bf16>(stream,
                          {y, a, b, head_rows, columns, C, vocabulary, C, C, ops::Transpose::no, ops::Transpose::yes});
        ops::matmul<Bf16>(stream, {y, a, b, head_rows, C, columns, C, vocabulary, C});
        ops::matmul<Bf16, float>(stream, {gradient, a, b, columns, C, head_rows, C, vocabulary, C, ops::Transpose::yes,
                                          ops::Transpose::no, 1, 1});
    }
    cuda::synchronize(stream);
    for (void* one : memory) {
        cuda::free_device(one);
    }
}

void print(const cuda::ProductTime& one) {
    const cuda::ProductShape& s = one.shape;
    const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
    std::printf("%6ld %6ld %6ld %c%c -> %-4s %-13s first %8.1f us, best %8.1f us, %6.1f TFLOP/s of %2d ways%s\n", s.m,
                s.n, s.k, s.transpose_a == ops::Transpose::yes ? 't' : 'n',
                s.transpose_b == ops::Transpose::yes ? 't' : 'n', s.result == Dtype::fp32 ? "fp32" : "bf16",
                name_of(s.epilogue), one.first_seconds * 1e6, one.best_seconds * 1e6, flops / one.best_seconds / 1e12,
                one.measured, one.apart ? ", apart" : "");
}

}  // namespace

int main(int count, char** arguments) {
    const cuda::Devices found = cuda::list_devices();
    if (found.devices.empty()) {
        std::printf("no GPU: %s\n", found.reason.c_str());
        return 0;
    }
    const Stream stream = cuda::make_stream(cuda::QueuePriority::normal);
    std::vector<i64> sizes(arguments + 1 == arguments + count ? std::vector<i64>{768} : std::vector<i64>{});
    for (int i = 1; i < count; ++i) {
        sizes.push_back(std::stoll(arguments[i]));
    }
    for (const i64 C : sizes) {
        use_all(stream, 16384, C);
    }
    const cuda::ProductSearch search = cuda::search_products(stream, cuda::products_used(), 60);
    std::printf("%s: %zu shapes in %.2f s, %ld left out\n", cuda::products_key().c_str(), search.products.size(),
                search.seconds, search.left_out);
    for (const cuda::ProductTime& one : search.products) {
        print(one);
    }
    return 0;
}
