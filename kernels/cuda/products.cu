#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <sstream>

#include "kernels/cuda/products.cuh"

namespace ogrom::cuda {
namespace {

cudaDataType_t data_type(Dtype type) {
    switch (type) {
        case Dtype::fp32:
            return CUDA_R_32F;
        case Dtype::fp64:
            return CUDA_R_64F;
        case Dtype::bf16:
            return CUDA_R_16BF;
        case Dtype::fp16:
            return CUDA_R_16F;
        case Dtype::fp8_e4m3:
            return CUDA_R_8F_E4M3;
        case Dtype::fp8_e5m2:
            return CUDA_R_8F_E5M2;
        default:
            fail(ExitCode::usage, "products of " + std::string(name_of(type)) + " do not exist");
    }
}

cublasComputeType_t compute_type(const ProductShape& shape) {
    if (shape.operands == Dtype::fp64) {
        return CUBLAS_COMPUTE_64F;
    }
    const bool tf32 = shape.operands == Dtype::fp32 && shape.floats == FloatProducts::tf32;
    return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
    switch (epilogue) {
        case Epilogue::none:
            return CUBLASLT_EPILOGUE_DEFAULT;
        case Epilogue::bias:
            return CUBLASLT_EPILOGUE_BIAS;
        case Epilogue::bias_gelu:
            return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
        case Epilogue::gelu_backward:
            return CUBLASLT_EPILOGUE_DGELU;
        case Epilogue::bias_gradient:
            return CUBLASLT_EPILOGUE_BGRADB;  // sums over rows of our a = dy
    }
    return CUBLASLT_EPILOGUE_DEFAULT;
}

template <class Value>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
}

cublasLtMatrixLayoutOpaque_t layout(Dtype type, i64 rows, i64 columns, i64 stride) {
    cublasLtMatrixLayoutOpaque_t made;
    check(cublasLtMatrixLayoutInit(&made, data_type(type), static_cast<u64>(rows), static_cast<u64>(columns), stride),
          "cublasLtMatrixLayoutInit");
    return made;
}

void set_pointers(cublasLtMatmulDescOpaque_t& operation, const ProductCall& call) {
    if (call.bias != nullptr) {
        set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias);
    }
    if (call.aux != nullptr) {
        set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.aux);
    }
    // The library's first operand is our b.
    if (call.a_scale != nullptr) {
        set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, call.b_scale);
        set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, call.a_scale);
    }
}

struct PreferenceEnd {
    void operator()(cublasLtMatmulPreferenceOpaque_t* one) const {
        static_cast<void>(cublasLtMatmulPreferenceDestroy(one));
    }
};

std::atomic<FloatProducts> float_products_now{FloatProducts::fp32};

}  // namespace

void set_float_products(FloatProducts how) {
    float_products_now = how;
}

FloatProducts float_products() {
    return float_products_now;
}

ProductDescription describe(const ProductShape& shape) {
    ProductDescription made;
    check(cublasLtMatmulDescInit(&made.operation, compute_type(shape),
                                 shape.operands == Dtype::fp64 ? CUDA_R_64F : CUDA_R_32F),
          "cublasLtMatmulDescInit");
    const auto operation = [](ops::Transpose transpose) {
        return transpose == ops::Transpose::yes ? CUBLAS_OP_T : CUBLAS_OP_N;
    };
    set(made.operation, CUBLASLT_MATMUL_DESC_TRANSA, operation(shape.transpose_b));
    set(made.operation, CUBLASLT_MATMUL_DESC_TRANSB, operation(shape.transpose_a));
    set(made.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(shape.epilogue));
    if (shape.epilogue == Epilogue::bias_gelu || shape.epilogue == Epilogue::gelu_backward) {
        set(made.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape.ldy);
    }
    if (shape.epilogue != Epilogue::none) {
        set(made.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(shape.result));
    }
    if (shape.sums == ops::ProductSums::fast) {
        set(made.operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
    }
    const auto stored = [](Dtype type, i64 rows, i64 columns, i64 stride, ops::Transpose transpose) {
        return transpose == ops::Transpose::yes ? layout(type, rows, columns, stride)
                                                : layout(type, columns, rows, stride);
    };
    made.first = stored(shape.operands_b, shape.k, shape.n, shape.ldb, shape.transpose_b);
    made.second = stored(shape.operands, shape.m, shape.k, shape.lda, shape.transpose_a);
    made.result = layout(shape.result, shape.n, shape.m, shape.ldy);
    return made;
}

ProductDescription with_any_pointers(const ProductShape& shape, ProductDescription description) {
    const void* const somewhere = reinterpret_cast<const void*>(std::uintptr_t{256});
    ProductCall pointers{nullptr, nullptr, nullptr};
    if (shape.epilogue != Epilogue::none) {
        pointers.bias = pointers.aux = somewhere;
    }
    if (is_fp8(shape.operands)) {
        pointers.a_scale = pointers.b_scale = static_cast<const float*>(somewhere);
    }
    set_pointers(description.operation, pointers);
    return description;
}

std::vector<ProductAlgorithm> algorithms_of(cublasLtHandle_t handle, const ProductShape& shape,
                                            const ProductDescription& description, int most) {
    cublasLtMatmulPreference_t made = nullptr;
    check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
    const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, PreferenceEnd> preference(made);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
        check(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value),
              "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<u64>(product_workspace));
    // Parts of a split sum are added in the type of the arithmetic, in an order that does not change.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<u32>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
        prefer(attribute, static_cast<u32>(shape.alignment));
    }
    ProductDescription asked = with_any_pointers(shape, description);
    std::array<cublasLtMatmulHeuristicResult_t, most_algorithms> found;
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, &asked.operation, &asked.first, &asked.second, &asked.result,
                                       &asked.result, made, std::min(most, most_algorithms), found.data(), &count);
    std::vector<ProductAlgorithm> algorithms;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) {
        return algorithms;
    }
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    for (int i = 0; i < count; ++i) {
        if (found[i].state == CUBLAS_STATUS_SUCCESS) {
            algorithms.push_back({found[i].algo});
        }
    }
    return algorithms;
}

cublasStatus_t enqueue(cublasLtHandle_t handle, Stream stream, const ProductShape& shape, const ProductPlan& plan,
                       const ProductCall& call, void* workspace) {
    ProductDescription mine = plan.description;
    set_pointers(mine.operation, call);
    const auto alpha = static_cast<float>(call.alpha);
    const auto beta = static_cast<float>(call.beta);
    const bool wide_factors = shape.operands == Dtype::fp64;
    return cublasLtMatmul(
        handle, &mine.operation, wide_factors ? static_cast<const void*>(&call.alpha) : &alpha, call.b, &mine.first,
        call.a, &mine.second, wide_factors ? static_cast<const void*>(&call.beta) : &beta, call.y, &mine.result, call.y,
        &mine.result, &plan.algorithm.native, workspace, static_cast<std::size_t>(product_workspace), native(stream));
}

ProductPlans& ProductPlans::of_current_device() {
    // Never destroyed: the driver may be gone before static destruction.
    static std::mutex making;
    static auto* const of_device = new std::map<int, ProductPlans>;
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    const std::lock_guard<std::mutex> lock(making);
    ProductPlans& plans = (*of_device)[device];
    if (plans.handle_ == nullptr) {
        check(cublasLtCreate(&plans.handle_), "cublasLtCreate");
    }
    return plans;
}

const ProductPlan& ProductPlans::plan(const ProductShape& shape) {
    const std::lock_guard<std::mutex> lock(changing_);
    ProductPlan& found = found_or_made(shape);
    found.used = true;
    return found;
}

const ProductPlan& ProductPlans::look_at(const ProductShape& shape) {
    const std::lock_guard<std::mutex> lock(changing_);
    return found_or_made(shape);
}

ProductPlan& ProductPlans::found_or_made(const ProductShape& shape) {
    if (const auto found = plans_.find(shape); found != plans_.end()) {
        return found->second;
    }
    ProductPlan made{};
    made.description = describe(shape);
    const auto first = algorithms_of(handle_, shape, made.description, 1);
    if (first.empty()) {
        require(shape.epilogue != Epilogue::none, ExitCode::peer, "cublasLt has no algorithm for a plain product");
        made.way = ProductPlan::Way::apart;
    } else {
        made.algorithm = first.front();
    }
    return plans_.emplace(shape, made).first->second;
}

void ProductPlans::keep(const ProductShape& shape, const ProductPlan& plan) {
    const std::lock_guard<std::mutex> lock(changing_);
    ProductPlan& there = plans_.try_emplace(shape, plan).first->second;
    const bool used = there.used || plan.used;
    there = plan;
    there.used = used;
}

std::map<ProductShape, ProductPlan> ProductPlans::all() {
    const std::lock_guard<std::mutex> lock(changing_);
    return plans_;
}

std::vector<ProductShape> products_used() {
    std::vector<ProductShape> shapes;
    for (const auto& [shape, plan] : ProductPlans::of_current_device().all()) {
        if (plan.used) {
            shapes.push_back(shape);
        }
    }
    return shapes;
}

}  // namespace ogrom::cuda
