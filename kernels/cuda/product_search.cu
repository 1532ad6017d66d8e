// search_products of products.h.
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/common/rng.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/products.cuh"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {
namespace {

constexpr i64 most_memory = i64{8} << 30;
constexpr i64 grain = 256;

// Operands in (-1/2, 1/2): the clock of the tensor cores depends on the bits they see.
template <class T>
struct RandomBody {
    T* to;
    __device__ void operator()(i64 i) const {
        const double u = uniform(random_word(1, 2, 3, static_cast<u64>(i)));
        to[i] = static_cast<T>(static_cast<Math<T>>(u - 0.5));
    }
};

// The same spread over a format's range, as a quantised tensor is.
struct RandomCodesBody {
    Fp8Code* to;
    Dtype type;
    __device__ void operator()(i64 i) const {
        const double u = uniform(random_word(1, 2, 3, static_cast<u64>(i)));
        to[i] = to_fp8(static_cast<float>(2 * u - 1) * fp8_format(type).largest, type);
    }
};

void randomise(Stream stream, void* to, i64 bytes, Dtype type) {
    const i64 n = bytes / size_of(type);
    if (is_fp8(type)) {
        for_each(stream, n, RandomCodesBody{static_cast<Fp8Code*>(to), type}, "search_products");
    } else if (type == Dtype::bf16) {
        for_each(stream, n, RandomBody<Bf16>{static_cast<Bf16*>(to)}, "search_products");
    } else if (type == Dtype::fp16) {
        for_each(stream, n, RandomBody<Fp16>{static_cast<Fp16*>(to)}, "search_products");
    } else if (type == Dtype::fp32) {
        for_each(stream, n, RandomBody<float>{static_cast<float*>(to)}, "search_products");
    } else {
        for_each(stream, n, RandomBody<double>{static_cast<double*>(to)}, "search_products");
    }
}

// Sets of operands, one behind the other, used in turn: what a launch reads is not in the cache from the last one.
class Operands {
public:
    Operands(Stream stream, const ProductShape& shape) : stream_(stream) {
        const bool ta = shape.transpose_a == ops::Transpose::yes;
        const bool tb = shape.transpose_b == ops::Transpose::yes;
        const i64 of_result = size_of(shape.result);
        const auto place = [&](i64 bytes) {
            const i64 start = set_bytes_;
            set_bytes_ += round_up(bytes, grain);
            return start;
        };
        y_ = place(shape.m * shape.ldy * of_result);
        a_ = place((ta ? shape.k : shape.m) * shape.lda * size_of(shape.operands));
        b_ = place((tb ? shape.n : shape.k) * shape.ldb * size_of(shape.operands_b));
        bias_ = place(std::max(shape.m, shape.n) * of_result);
        const bool aux = shape.epilogue == Epilogue::bias_gelu || shape.epilogue == Epilogue::gelu_backward;
        scale_ = place(grain);
        aux_ = place(aux ? shape.m * shape.ldy * of_result : 0);

        int device = 0, cache = 0;
        check(cudaGetDevice(&device), "cudaGetDevice");
        check(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
        const i64 room = std::min(most_memory, memory_info().free / 2);
        count_ = std::min<i64>(1 + ceil_div(i64{2} * cache, set_bytes_), room / set_bytes_);
        if (count_ > 0 &&
            cudaMallocAsync(&memory_, static_cast<std::size_t>(count_ * set_bytes_), native(stream)) != cudaSuccess) {
            static_cast<void>(cudaGetLastError());
            memory_ = nullptr;
            count_ = 0;
        }
        for (i64 i = 0; i < count_; ++i) {
            auto* const set = static_cast<unsigned char*>(memory_) + i * set_bytes_;
            randomise(stream, set + a_, b_ - a_, shape.operands);
            randomise(stream, set + b_, bias_ - b_, shape.operands_b);
            // Sums, biases and u are of the result's type, and so is what stands for a scale of fp8: the time does not
            // depend on it.
            randomise(stream, set + y_, a_ - y_, shape.result);
            randomise(stream, set + bias_, set_bytes_ - bias_, shape.result);
        }
    }
    ~Operands() {
        if (memory_ != nullptr) {
            static_cast<void>(cudaFreeAsync(memory_, native(stream_)));
        }
    }
    Operands(const Operands&) = delete;
    Operands& operator=(const Operands&) = delete;

    bool fit() const { return count_ > 0; }
    ProductCall call(const ProductShape& shape, i64 use) const {
        auto* const set = static_cast<unsigned char*>(memory_) + use % count_ * set_bytes_;
        ProductCall made{set + y_, set + a_, set + b_};
        made.beta = shape.mode == ops::Accumulate::add ? 1 : 0;
        const bool bias = shape.epilogue == Epilogue::bias || shape.epilogue == Epilogue::bias_gelu ||
                          shape.epilogue == Epilogue::bias_gradient;
        made.bias = bias ? set + bias_ : nullptr;
        const bool aux = shape.epilogue == Epilogue::bias_gelu || shape.epilogue == Epilogue::gelu_backward;
        made.aux = aux ? set + aux_ : nullptr;
        if (is_fp8(shape.operands)) {
            made.a_scale = made.b_scale = reinterpret_cast<const float*>(set + scale_);
        }
        return made;
    }

private:
    Stream stream_;
    void* memory_ = nullptr;
    i64 count_ = 0, set_bytes_ = 0;
    i64 y_ = 0, a_ = 0, b_ = 0, bias_ = 0, scale_ = 0, aux_ = 0;
};

// One way to make a shape; launch(use) enqueues it and says whether the library could.
struct Candidate {
    ProductPlan plan;
    std::function<bool(i64 use)> launch;
    double seconds = std::numeric_limits<double>::infinity();
};

// Seconds of a launch, from about `target` seconds of them; infinity where it cannot run.
double time_of(Stream stream, const Candidate& candidate, double target) {
    Event begin(Event::Timing::on), end(Event::Timing::on);
    const auto run = [&](i64 launches) {
        begin.record(stream);
        for (i64 i = 0; i < launches; ++i) {
            if (!candidate.launch(i)) {
                return std::numeric_limits<double>::infinity();
            }
        }
        end.record(stream);
        end.wait();
        return end.seconds_since(begin) / static_cast<double>(launches);
    };
    static_cast<void>(run(1));
    const double about = run(2);
    if (!std::isfinite(about)) {
        return about;
    }
    return run(std::clamp(static_cast<i64>(target / std::max(about, 1e-7)), i64{2}, i64{64}));
}

// The pass of an epilogue as its own kernel, behind or before the plain product.
template <class T>
void pass_apart_of(Stream stream, const ProductShape& s, const ProductCall& call) {
    auto* const y = static_cast<T*>(call.y);
    switch (s.epilogue) {
        case Epilogue::none:
            break;
        case Epilogue::bias:
            add_bias<T>(stream, {y, static_cast<const T*>(call.bias), s.m, s.n, s.ldy});
            break;
        case Epilogue::bias_gelu:
            bias_gelu_forward<T>(
                stream, {static_cast<T*>(const_cast<void*>(call.aux)), y, static_cast<const T*>(call.bias), s.m, s.n});
            break;
        case Epilogue::gelu_backward:
            gelu_backward<T>(stream, {y, y, static_cast<const T*>(call.aux), s.m * s.n});
            break;
        case Epilogue::bias_gradient:
            bias_gradient<T>(stream, {static_cast<float*>(const_cast<void*>(call.bias)), static_cast<const T*>(call.a),
                                      s.k, s.m, s.lda});
            break;
    }
}

void pass_apart(Stream stream, const ProductShape& s, const ProductCall& call) {
    if (s.operands == Dtype::fp16) {
        pass_apart_of<Fp16>(stream, s, call);
    } else {
        pass_apart_of<Bf16>(stream, s, call);
    }
}

class Search {
public:
    Search(Stream stream, double seconds) : stream_(stream), budget_(seconds) {}

    void choose(const ProductShape& shape) {
        if (settled(shape)) {
            return;
        }
        if (shape.epilogue != Epilogue::none && !settled(plain(shape))) {
            choose(plain(shape));
        }
        if (elapsed() >= budget_) {
            ++result.left_out;
            return;
        }
        const Operands operands(stream_, shape);
        if (!operands.fit()) {
            ++result.left_out;
            return;
        }
        std::vector<Candidate> candidates = candidates_of(shape, operands);
        int measured = 0;
        for (Candidate& one : candidates) {
            if (measured > 0 && elapsed() > budget_) {
                break;
            }
            one.seconds = time_of(stream_, one, 1e-3);
            measured += std::isfinite(one.seconds) ? 1 : 0;
        }
        const double first = candidates.front().seconds;
        std::stable_sort(candidates.begin(), candidates.end(),
                         [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
        const Candidate& best = again(candidates);
        synchronize(stream_);
        if (!std::isfinite(best.seconds)) {
            ++result.left_out;
            return;
        }
        ProductPlan kept = best.plan;
        kept.from = ProductPlan::From::measured;
        kept.settled = true;
        plans_.keep(shape, kept);
        result.products.push_back({shape, first, best.seconds, measured, kept.way == ProductPlan::Way::apart});
    }

    bool settled(const ProductShape& shape) { return plans_.look_at(shape).settled; }
    double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

    ProductSearch result;

private:
    static ProductShape plain(ProductShape shape) {
        shape.epilogue = Epilogue::none;
        return shape;
    }

    std::vector<Candidate> candidates_of(const ProductShape& shape, const Operands& operands) {
        std::vector<Candidate> candidates;
        ProductPlan plan{};
        plan.description = describe(shape);
        for (const ProductAlgorithm& algorithm : algorithms_of(plans_.handle(), shape, plan.description)) {
            plan.algorithm = algorithm;
            candidates.push_back({plan, [this, &shape, &operands, plan](i64 use) {
                                      const ProductCall call = operands.call(shape, use);
                                      return enqueue(plans_.handle(), stream_, shape, plan, call,
                                                     scratch(stream_, product_workspace)) == CUBLAS_STATUS_SUCCESS;
                                  }});
        }
        if (shape.epilogue != Epilogue::none) {
            plan.way = ProductPlan::Way::apart;
            candidates.push_back({plan, [this, &shape, &operands](i64 use) {
                                      const ProductCall call = operands.call(shape, use);
                                      const ProductShape alone = plain(shape);
                                      ProductCall product = call;
                                      product.bias = product.aux = nullptr;
                                      const bool ran =
                                          enqueue(plans_.handle(), stream_, alone, plans_.look_at(alone), product,
                                                  scratch(stream_, product_workspace)) == CUBLAS_STATUS_SUCCESS;
                                      pass_apart(stream_, shape, call);
                                      return ran;
                                  }});
        }
        return candidates;
    }

    // The fastest few in turn, three times: the clock drifts while one runs. Each keeps its median.
    const Candidate& again(std::vector<Candidate>& sorted) const {
        constexpr std::size_t few = 4;
        const std::size_t count = std::min(few, sorted.size());
        std::vector<std::vector<double>> times(count);
        for (int round = 0; round < 3 && elapsed() < budget_; ++round) {
            for (std::size_t i = 0; i < count; ++i) {
                times[i].push_back(std::isfinite(sorted[i].seconds) ? time_of(stream_, sorted[i], 2e-3)
                                                                    : sorted[i].seconds);
            }
        }
        const Candidate* best = &sorted.front();
        for (std::size_t i = 0; i < count; ++i) {
            if (!times[i].empty()) {
                std::sort(times[i].begin(), times[i].end());
                sorted[i].seconds = times[i][times[i].size() / 2];
            }
            best = sorted[i].seconds < best->seconds ? &sorted[i] : best;
        }
        return *best;
    }

    Stream stream_;
    double budget_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    ProductPlans& plans_ = ProductPlans::of_current_device();
};

}  // namespace

ProductSearch search_products(Stream stream, const std::vector<ProductShape>& shapes, double seconds) {
    Search search(stream, seconds);
    search.result.settled =
        std::count_if(shapes.begin(), shapes.end(), [&](const ProductShape& shape) { return search.settled(shape); });
    for (const ProductShape& shape : shapes) {
        search.choose(shape);
    }
    // What the searches took goes back to the driver now, not when somebody next waits.
    synchronize(stream);
    int device = 0;
    cudaMemPool_t pool = nullptr;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
    check(cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo");
    search.result.seconds = search.elapsed();
    return search.result;
}

}  // namespace ogrom::cuda
