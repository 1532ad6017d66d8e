// export_products and import_products of products.h. A line:
//   operands result fp32|tf32|fast m n k ldy lda ldb n|t n|t overwrite|add epilogue alignment together|apart
//   library|measured word[8]
// with the library's 64 bytes of an algorithm as eight hexadecimal words.
#include <algorithm>
#include <array>
#include <bit>
#include <sstream>
#include <tuple>
#include <utility>

#include "kernels/cuda/products.cuh"

namespace ogrom::cuda {
namespace {

template <class Value, std::size_t N>
struct Words {
    std::array<std::pair<const char*, Value>, N> all;

    const char* word(Value value) const {
        for (const auto& [word, one] : all) {
            if (one == value) {
                return word;
            }
        }
        return "?";
    }
    Value read(std::istream& in) const {
        std::string got;
        in >> got;
        for (const auto& [word, value] : all) {
            if (got == word) {
                return value;
            }
        }
        fail(ExitCode::data, "choices of products: the word \"" + got + "\" has no meaning");
    }
};

constexpr Words<Dtype, 4> dtypes{
    {{{"fp32", Dtype::fp32}, {"fp64", Dtype::fp64}, {"bf16", Dtype::bf16}, {"fp16", Dtype::fp16}}}};
// Of a and b.
using Operands = std::pair<Dtype, Dtype>;
constexpr Words<Operands, 7> operands{{{{"fp32", {Dtype::fp32, Dtype::fp32}},
                                        {"fp64", {Dtype::fp64, Dtype::fp64}},
                                        {"bf16", {Dtype::bf16, Dtype::bf16}},
                                        {"fp16", {Dtype::fp16, Dtype::fp16}},
                                        {"e4m3.e4m3", {Dtype::fp8_e4m3, Dtype::fp8_e4m3}},
                                        {"e4m3.e5m2", {Dtype::fp8_e4m3, Dtype::fp8_e5m2}},
                                        {"e5m2.e4m3", {Dtype::fp8_e5m2, Dtype::fp8_e4m3}}}}};
// How sums are made: of floats, or fast ones of fp8.
using Sums = std::pair<FloatProducts, ops::ProductSums>;
constexpr Words<Sums, 3> sums{{{{"fp32", {FloatProducts::fp32, ops::ProductSums::full}},
                                {"tf32", {FloatProducts::tf32, ops::ProductSums::full}},
                                {"fast", {FloatProducts::fp32, ops::ProductSums::fast}}}}};
constexpr Words<ops::Transpose, 2> transposes{{{{"n", ops::Transpose::no}, {"t", ops::Transpose::yes}}}};
constexpr Words<ops::Accumulate, 2> modes{{{{"overwrite", ops::Accumulate::overwrite}, {"add", ops::Accumulate::add}}}};
constexpr Words<Epilogue, 5> epilogues{{{{"none", Epilogue::none},
                                         {"bias", Epilogue::bias},
                                         {"bias_gelu", Epilogue::bias_gelu},
                                         {"gelu_backward", Epilogue::gelu_backward},
                                         {"bias_gradient", Epilogue::bias_gradient}}}};
constexpr Words<ProductPlan::Way, 2> ways{
    {{{"together", ProductPlan::Way::together}, {"apart", ProductPlan::Way::apart}}}};
constexpr Words<ProductPlan::From, 2> sources{
    {{{"library", ProductPlan::From::library}, {"measured", ProductPlan::From::measured}}}};

struct Algorithm {
    std::array<u64, 8> word;
};
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));

void write(std::ostream& out, const ProductShape& s, const ProductPlan& plan) {
    out << operands.word({s.operands, s.operands_b}) << ' ' << dtypes.word(s.result) << ' '
        << sums.word({s.floats, s.sums});
    for (const i64 extent : {s.m, s.n, s.k, s.ldy, s.lda, s.ldb}) {
        out << ' ' << extent;
    }
    out << ' ' << transposes.word(s.transpose_a) << ' ' << transposes.word(s.transpose_b) << ' ' << modes.word(s.mode)
        << ' ' << epilogues.word(s.epilogue) << ' ' << s.alignment << ' ' << ways.word(plan.way) << ' '
        << sources.word(plan.from) << std::hex;
    for (const u64 word : std::bit_cast<Algorithm>(plan.algorithm.native).word) {
        out << ' ' << word;
    }
    out << std::dec << '\n';
}

ProductShape read_shape(std::istream& in) {
    ProductShape s{};
    std::tie(s.operands, s.operands_b) = operands.read(in);
    s.result = dtypes.read(in);
    std::tie(s.floats, s.sums) = sums.read(in);
    for (i64* extent : {&s.m, &s.n, &s.k, &s.ldy, &s.lda, &s.ldb}) {
        in >> *extent;
        require(in && *extent > 0, ExitCode::data, "choices of products: an extent is missing or not positive");
    }
    s.transpose_a = transposes.read(in);
    s.transpose_b = transposes.read(in);
    s.mode = modes.read(in);
    s.epilogue = epilogues.read(in);
    in >> s.alignment;
    return s;
}

std::pair<ProductShape, ProductPlan> read_line(const std::string& line) {
    std::istringstream in(line);
    const ProductShape shape = read_shape(in);
    ProductPlan plan{};
    plan.way = ways.read(in);
    plan.from = sources.read(in);
    plan.settled = true;
    Algorithm algorithm{};
    for (u64& word : algorithm.word) {
        in >> std::hex >> word;
    }
    require(static_cast<bool>(in), ExitCode::data, "choices of products: a line is cut off: " + line);
    plan.algorithm.native = std::bit_cast<cublasLtMatmulAlgo_t>(algorithm);
    plan.description = describe(shape);
    return {shape, plan};
}

// Whether the library still makes the shape so.
bool valid(cublasLtHandle_t handle, const ProductShape& shape, const ProductPlan& plan) {
    if (plan.way == ProductPlan::Way::apart) {
        return shape.epilogue != Epilogue::none;
    }
    cublasLtMatmulHeuristicResult_t found{};
    ProductDescription d = with_any_pointers(shape, plan.description);
    return cublasLtMatmulAlgoCheck(handle, &d.operation, &d.first, &d.second, &d.result, &d.result,
                                   &plan.algorithm.native, &found) == CUBLAS_STATUS_SUCCESS &&
           static_cast<i64>(found.workspaceSize) <= product_workspace;
}

std::string first_line() {
    return "ogrom-products 1 | " + products_key();
}

}  // namespace

std::string products_key() {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    return std::string(properties.name) + ", cublasLt " + std::to_string(cublasLtGetVersion());
}

std::string export_products(Choices which) {
    std::ostringstream out;
    out << first_line() << '\n';
    for (const auto& [shape, plan] : ProductPlans::of_current_device().all()) {
        if (which == Choices::used ? plan.used : plan.from == ProductPlan::From::measured) {
            write(out, shape, plan);
        }
    }
    return out.str();
}

ImportedProducts import_products(const std::string& text, Taken how) {
    std::istringstream lines(text);
    std::string line;
    ProductPlans& plans = ProductPlans::of_current_device();
    ImportedProducts result;
    bool head = false, mine = false;
    while (std::getline(lines, line)) {
        if (line.starts_with("ogrom-products ")) {
            head = true;
            mine = line == first_line();
            continue;
        }
        require(head, ExitCode::data, "choices of products: the first line is not \"ogrom-products 1 | ...\"");
        if (!mine) {
            continue;
        }
        auto [shape, plan] = read_line(line);
        plan.used = how == Taken::as_used;
        if (valid(plans.handle(), shape, plan)) {
            plans.keep(shape, plan);
            ++result.taken;
        } else {
            ++result.refused;
        }
    }
    return result;
}

}  // namespace ogrom::cuda
