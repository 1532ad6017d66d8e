// Products as cublasLt takes them. Its matrices are column-major, so a row-major y = op(a) op(b) is made as
// y^T = op(b)^T op(a)^T: b is its first operand, a its second, and a stored matrix needs a transposition exactly where
// ours does.
#pragma once
#include <cublasLt.h>
#include <map>
#include <mutex>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/products.h"

namespace ogrom::cuda {

inline constexpr i64 product_workspace = i64{32} << 20;  // bytes; what NVIDIA advises for Hopper

inline void check(cublasStatus_t status, const char* call, SourcePlace where = SourcePlace::current()) {
    if (status != CUBLAS_STATUS_SUCCESS) {
        fail(ExitCode::peer,
             std::string(call) + ": " + cublasLtGetStatusString(status) + " (" + cublasLtGetStatusName(status) + ")",
             where);
    }
}

// Pointers and factors of one call. bias: added, or written where it is the bias gradient; aux: u of the GELU.
struct ProductCall {
    void* y;
    const void* a;
    const void* b;
    double alpha = 1, beta = 0;
    const void* bias = nullptr;
    const void* aux = nullptr;
    const float* a_scale = nullptr;  // of fp8 operands: what their codes are multiplied by, on the device
    const float* b_scale = nullptr;
};

// A shape in the library's terms.
struct ProductDescription {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t first, second, result;
};
ProductDescription describe(const ProductShape& shape);
// For questions to the library: epilogues and scales want their pointers set, though only alignment matters.
ProductDescription with_any_pointers(const ProductShape& shape, ProductDescription description);

// Named, as nvcc 13 cannot destroy a vector of the library's unnamed type.
struct ProductAlgorithm {
    cublasLtMatmulAlgo_t native;
};

// How a shape is made.
struct ProductPlan {
    ProductDescription description;
    ProductAlgorithm algorithm;
    enum class Way { together, apart } way = Way::together;  // apart: the library has it not, or is slower
    enum class From { library, measured } from = From::library;
    bool settled = false;  // no search may change it: measured, or taken in
    bool used = false;     // a product was made by it, here or on the rank that it was taken from
};

// The plans of one device, made at first use and never moved.
class ProductPlans {
public:
    static ProductPlans& of_current_device();

    cublasLtHandle_t handle() const { return handle_; }
    // For a product that is about to be made: marks it used.
    const ProductPlan& plan(const ProductShape& shape);
    const ProductPlan& look_at(const ProductShape& shape);
    // In place of the one there is; stays used where that was.
    void keep(const ProductShape& shape, const ProductPlan& plan);
    std::map<ProductShape, ProductPlan> all();

private:
    ProductPlan& found_or_made(const ProductShape& shape);

    std::mutex changing_;
    cublasLtHandle_t handle_ = nullptr;
    std::map<ProductShape, ProductPlan> plans_;
};

inline constexpr int most_algorithms = 16;

// The library's algorithms for a shape, its first choice first; empty where it has none.
std::vector<ProductAlgorithm> algorithms_of(cublasLtHandle_t handle, const ProductShape& shape,
                                            const ProductDescription& description, int most = most_algorithms);

// Enqueues a call by a plan that makes product and pass together; workspace: product_workspace bytes.
cublasStatus_t enqueue(cublasLtHandle_t handle, Stream stream, const ProductShape& shape, const ProductPlan& plan,
                       const ProductCall& call, void* workspace);

// The largest power of two up to 16 that all addresses are multiples of.
template <class... P>
i64 alignment_of(const P*... pointers) {
    const auto all = (reinterpret_cast<std::uintptr_t>(pointers) | ... | std::uintptr_t{16});
    return static_cast<i64>(all & (~all + 1));
}

}  // namespace ogrom::cuda
