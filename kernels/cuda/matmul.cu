// Products by cublasLt. Its matrices are column-major, so a row-major y = op(a) op(b) is made as y^T = op(b)^T op(a)^T:
// b is its first operand, a its second, and a stored matrix needs a transposition exactly where ours does. The
// algorithm of a shape is the library's first choice, asked once and kept.
#include <cublasLt.h>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {
namespace {

constexpr i64 workspace_bytes = i64{32} << 20;  // what NVIDIA advises for Hopper

void check(cublasStatus_t status, const char* call, SourcePlace where = SourcePlace::current()) {
    if (status != CUBLAS_STATUS_SUCCESS) {
        fail(ExitCode::peer,
             std::string(call) + ": " + cublasLtGetStatusString(status) + " (" + cublasLtGetStatusName(status) + ")",
             where);
    }
}

template <class T>
struct Types;
template <>
struct Types<float> {
    static constexpr cudaDataType_t data = CUDA_R_32F;
    static constexpr cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};
template <>
struct Types<double> {
    static constexpr cudaDataType_t data = CUDA_R_64F;
    static constexpr cublasComputeType_t compute = CUBLAS_COMPUTE_64F;
};

// The largest power of two up to 256 that an address is a multiple of.
u32 alignment_of(const void* pointer) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    u32 alignment = 256;
    while (address % alignment != 0) {
        alignment /= 2;
    }
    return alignment;
}

// Owners of the library's handles.
struct DescriptionEnd {
    void operator()(cublasLtMatmulDescOpaque_t* one) const { static_cast<void>(cublasLtMatmulDescDestroy(one)); }
};
struct LayoutEnd {
    void operator()(cublasLtMatrixLayoutOpaque_t* one) const { static_cast<void>(cublasLtMatrixLayoutDestroy(one)); }
};
struct PreferenceEnd {
    void operator()(cublasLtMatmulPreferenceOpaque_t* one) const {
        static_cast<void>(cublasLtMatmulPreferenceDestroy(one));
    }
};
using Description = std::unique_ptr<cublasLtMatmulDescOpaque_t, DescriptionEnd>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, LayoutEnd>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, PreferenceEnd>;

Layout layout(cudaDataType_t type, i64 rows, i64 columns, i64 stride) {
    cublasLtMatrixLayout_t made = nullptr;
    check(cublasLtMatrixLayoutCreate(&made, type, static_cast<u64>(rows), static_cast<u64>(columns), stride),
          "cublasLtMatrixLayoutCreate");
    return Layout(made);
}

struct Product {
    Description description;
    Layout first, second, result;
};

template <class T>
Product describe(const ops::Matmul<T>& op) {
    cublasLtMatmulDesc_t made = nullptr;
    check(cublasLtMatmulDescCreate(&made, Types<T>::compute, Types<T>::data), "cublasLtMatmulDescCreate");
    Product product;
    product.description.reset(made);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, ops::Transpose transpose) {
        const cublasOperation_t operation = transpose == ops::Transpose::yes ? CUBLAS_OP_T : CUBLAS_OP_N;
        check(cublasLtMatmulDescSetAttribute(made, attribute, &operation, sizeof operation),
              "cublasLtMatmulDescSetAttribute");
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, op.transpose_b);
    set(CUBLASLT_MATMUL_DESC_TRANSB, op.transpose_a);
    const auto stored = [](i64 rows, i64 columns, i64 stride, ops::Transpose transpose) {
        return transpose == ops::Transpose::yes ? layout(Types<T>::data, rows, columns, stride)
                                                : layout(Types<T>::data, columns, rows, stride);
    };
    product.first = stored(op.k, op.n, op.ldb, op.transpose_b);
    product.second = stored(op.m, op.k, op.lda, op.transpose_a);
    product.result = layout(Types<T>::data, op.n, op.m, op.ldy);
    return product;
}

// What an algorithm depends on.
using Key =
    std::tuple<int, cudaDataType_t, i64, i64, i64, i64, i64, i64, ops::Transpose, ops::Transpose, u32, u32, u32>;

class Library {
public:
    static Library& instance() {
        static auto* one = new Library;  // never destroyed: the driver may be gone before static destruction
        return *one;
    }

    cublasLtHandle_t handle(int device) {
        const std::lock_guard<std::mutex> lock(changing_);
        cublasLtHandle_t& one = handles_[device];
        if (one == nullptr) {
            check(cublasLtCreate(&one), "cublasLtCreate");
        }
        return one;
    }

    cublasLtMatmulAlgo_t algorithm(cublasLtHandle_t handle, const Key& key, const Product& product) {
        const std::lock_guard<std::mutex> lock(changing_);
        if (const auto found = algorithms_.find(key); found != algorithms_.end()) {
            return found->second;
        }
        return algorithms_[key] = ask(handle, key, product);
    }

private:
    static cublasLtMatmulAlgo_t ask(cublasLtHandle_t handle, const Key& key, const Product& product) {
        cublasLtMatmulPreference_t made = nullptr;
        check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
        const Preference preference(made);
        const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
            check(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value),
                  "cublasLtMatmulPreferenceSetAttribute");
        };
        set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<u64>(workspace_bytes));
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::get<10>(key));
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::get<11>(key));
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, std::get<12>(key));
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::get<12>(key));
        cublasLtMatmulHeuristicResult_t best{};
        int found = 0;
        check(
            cublasLtMatmulAlgoGetHeuristic(handle, product.description.get(), product.first.get(), product.second.get(),
                                           product.result.get(), product.result.get(), made, 1, &best, &found),
            "cublasLtMatmulAlgoGetHeuristic");
        OGROM_ASSERT(found == 1);
        return best.algo;
    }

    std::mutex changing_;
    std::map<int, cublasLtHandle_t> handles_;
    std::map<Key, cublasLtMatmulAlgo_t> algorithms_;
};

// y = beta y for an empty sum; beta = 0 stores zeros, so that a NaN in y does not live on.
template <class T>
struct ScaleBody {
    T* y;
    i64 n, ldy;
    T beta;

    __device__ void operator()(i64 i) const {
        T& one = y[i / n * ldy + i % n];
        one = beta == T(0) ? T(0) : beta * one;
    }
};

template <class T>
void check_strides(const ops::Matmul<T>& op) {
    OGROM_ASSERT(op.m >= 0 && op.n >= 0 && op.k >= 0);
    const i64 columns_a = op.transpose_a == ops::Transpose::yes ? op.m : op.k;
    const i64 columns_b = op.transpose_b == ops::Transpose::yes ? op.k : op.n;
    OGROM_ASSERT(op.lda >= columns_a && op.ldb >= columns_b && op.ldy >= op.n);
}

}  // namespace

template <class T>
void matmul(Stream stream, const ops::Matmul<T>& op) {
    if (op.m == 0 || op.n == 0) {
        return;
    }
    if (op.k == 0 || op.alpha == T(0)) {
        for_each(stream, op.m * op.n, ScaleBody<T>{op.y, op.n, op.ldy, op.beta}, "matmul");
        return;
    }
    check_strides(op);
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    Library& library = Library::instance();
    const cublasLtHandle_t handle = library.handle(device);
    const Product product = describe(op);
    const Key key{device,
                  Types<T>::data,
                  op.m,
                  op.n,
                  op.k,
                  op.ldy,
                  op.lda,
                  op.ldb,
                  op.transpose_a,
                  op.transpose_b,
                  alignment_of(op.b),
                  alignment_of(op.a),
                  alignment_of(op.y)};
    const cublasLtMatmulAlgo_t algorithm = library.algorithm(handle, key, product);
    void* workspace = scratch(stream, workspace_bytes);
    check(cublasLtMatmul(handle, product.description.get(), &op.alpha, op.b, product.first.get(), op.a,
                         product.second.get(), &op.beta, op.y, product.result.get(), op.y, product.result.get(),
                         &algorithm, workspace, static_cast<std::size_t>(workspace_bytes), native(stream)),
          "cublasLtMatmul");
}

template void matmul(Stream, const ops::Matmul<float>&);
template void matmul(Stream, const ops::Matmul<double>&);

}  // namespace ogrom::cuda
