// Comes in: ranges of gradients[size] (flat, arena) that the backward pass has finished, as local sums.
// Goes out: the whole buffer summed over dp, equal on all ranks.
// Next: optim/clip.cpp.
#include "src/optim/gradients.h"

#include <algorithm>
#include <chrono>
#include <deque>

#include "kernels/common/fault.h"
#include "kernels/ops/norm.h"

namespace ogrom {
namespace {

// Buckets under way at a time: enough to hide the latency of one behind another; bounds the fixed-order scratch.
constexpr i64 in_flight_limit = 4;
constexpr const char* scratch_line = "gradients.reduction";

i64 scratch_per_bucket(const ParameterLayout& layout, int dp, i64 bucket_elements, ReduceOrder order) {
    return order == ReduceOrder::fixed ? fixed_order_scratch(std::min(bucket_elements, layout.size()), dp) : 0;
}

i64 slots_needed(const ParameterLayout& layout, i64 bucket_elements) {
    return std::min(in_flight_limit, ceil_div(layout.size(), bucket_elements));
}

}  // namespace

std::vector<Bucket> make_buckets(i64 size, i64 elements) {
    OGROM_ASSERT(size >= 0 && elements > 0);
    std::vector<Bucket> buckets;
    for (i64 last = size; last > 0; last -= elements) {
        buckets.push_back({std::max<i64>(0, last - elements), last});
    }
    return buckets;
}

template <class T>
struct GradientReducer<T>::Impl {
    Communicator& dp;
    const ParameterLayout& layout;
    std::span<T> gradients;
    Options options;
    std::vector<Bucket> buckets;
    std::vector<i64> missing;  // elements of each bucket that are not final yet
    i64 next = 0;              // first bucket not issued
    std::deque<Pending> under_way;
    i64 slots = 1;
    std::span<T> scratch;
    i64 scratch_each = 0;
    bool last_micro_batch = false;
    i64 nonfinite = -1;  // tensor of the layout
    double exposed = 0;

    Impl(Communicator& dp_, const ParameterLayout& layout_, std::span<T> gradients_, Arena& arena,
         const Options& options_)
        : dp(dp_), layout(layout_), gradients(gradients_), options(options_) {
        buckets = make_buckets(layout.size(), options.bucket_elements);
        slots = slots_needed(layout, options.bucket_elements);
        scratch_each = scratch_per_bucket(layout, dp.size(), options.bucket_elements, options.order);
        if (scratch_each > 0) {
            scratch = arena.take<T>(scratch_line);
        }
    }

    // First tensor of [first, last) with a NaN or Inf of this rank, looked for from the end: the backward pass walks
    // that way, and everything after the first one may only have caught it.
    void check_finite(i64 first, i64 last) {
        const std::span<const LocalTensor> tensors = layout.tensors();
        for (i64 t = static_cast<i64>(tensors.size()) - 1; t >= 0 && nonfinite < 0; --t) {
            const LocalTensor& tensor = tensors[static_cast<std::size_t>(t)];
            const i64 from = std::max(first, tensor.offset);
            const i64 to = std::min(last, tensor.offset + tensor.count);
            if (from < to && !ops::all_finite<T>(Stream{}, gradients.data() + from, to - from)) {
                nonfinite = t;
            }
        }
    }

    void mark(i64 first, i64 last) {
        for (std::size_t b = 0; b < buckets.size(); ++b) {
            const i64 covered = std::min(last, buckets[b].last) - std::max(first, buckets[b].first);
            if (covered > 0) {
                missing[b] -= covered;
                OGROM_ASSERT(missing[b] >= 0);
            }
        }
    }

    [[nodiscard]] bool may_issue() const {
        return next < static_cast<i64>(buckets.size()) && missing[static_cast<std::size_t>(next)] == 0 &&
               static_cast<i64>(under_way.size()) < slots;
    }

    void issue() {
        const Bucket& bucket = buckets[static_cast<std::size_t>(next)];
        if (fault_active("bucket_last_dropped") && next + 1 == static_cast<i64>(buckets.size())) {
            ++next;
            return;
        }
        // Buckets complete in order of issue, so slot `next mod slots` is free again.
        T* const slot = scratch.empty() ? nullptr : scratch.data() + next % slots * scratch_each;
        under_way.push_back(dp.all_reduce(gradients.data() + bucket.first, bucket.last - bucket.first, dtype_of<T>(),
                                          ReduceOp::sum, options.order, slot, "gradient bucket"));
        ++next;
    }

    // Issues what is complete and has a free slot; never waits.
    void pump() {
        dp.progress();
        while (!under_way.empty() && under_way.front().test()) {
            under_way.pop_front();
        }
        while (may_issue()) {
            issue();
        }
    }
};

template <class T>
void GradientReducer<T>::declare(Ledger& ledger, const ParameterLayout& layout, int dp, const Options& options) {
    if (dp == 1) {
        return;
    }
    const i64 slots = slots_needed(layout, options.bucket_elements);
    const i64 size = static_cast<i64>(sizeof(T));
    const i64 each = scratch_per_bucket(layout, dp, options.bucket_elements, options.order);
    if (each > 0) {
        ledger.add(scratch_line, Tier::device, slots * each * size,
                   std::to_string(slots) + " buckets under way x contributions of " + std::to_string(dp) + " ranks");
    } else {
        ledger.add("gradients.mpi", Tier::baseline, std::min(slots * options.bucket_elements, layout.size()) * size,
                   "MPI's own copies of " + std::to_string(slots) + " buckets under way");
    }
}

template <class T>
GradientReducer<T>::GradientReducer(Communicator& dp, const ParameterLayout& layout, std::span<T> gradients,
                                    Arena& arena, const Options& options)
    : impl_(std::make_unique<Impl>(dp, layout, gradients, arena, options)) {}

template <class T>
GradientReducer<T>::~GradientReducer() = default;

template <class T>
void GradientReducer<T>::begin(bool last_micro_batch) {
    Impl& r = *impl_;
    OGROM_ASSERT(r.under_way.empty());
    r.last_micro_batch = last_micro_batch;
    if (last_micro_batch) {
        r.next = 0;
        r.nonfinite = -1;
        r.exposed = 0;
        r.missing.clear();
        for (const Bucket& bucket : r.buckets) {
            r.missing.push_back(bucket.last - bucket.first);
        }
    }
}

template <class T>
void GradientReducer<T>::ready(i64 first, i64 last) {
    Impl& r = *impl_;
    if (!r.last_micro_batch) {
        return;
    }
    r.check_finite(first, last);
    r.mark(first, last);
    if (r.options.overlap && r.dp.size() > 1) {
        r.pump();
    }
}

template <class T>
void GradientReducer<T>::finish() {
    Impl& r = *impl_;
    OGROM_ASSERT(r.last_micro_batch);
    OGROM_ASSERT(std::all_of(r.missing.begin(), r.missing.end(), [](i64 left) { return left == 0; }));
    r.last_micro_batch = false;
    if (r.dp.size() == 1) {
        return;
    }
    const auto start = std::chrono::steady_clock::now();
    r.pump();
    while (!r.under_way.empty()) {
        r.under_way.front().wait();
        r.under_way.pop_front();
        r.pump();
    }
    OGROM_ASSERT(r.next == static_cast<i64>(r.buckets.size()));
    r.exposed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class T>
NonFiniteReport GradientReducer<T>::agree_nonfinite() {
    Impl& r = *impl_;
    // One maximum over ranks carries both: the lowest rank gives the largest number, the tensor sits in the low half.
    constexpr i64 half = i64{1} << 32;
    const i64 mine = r.nonfinite < 0 ? 0 : (r.dp.size() - r.dp.rank()) * half + r.nonfinite;
    const i64 agreed = agree_max(r.dp, mine, "non-finite gradient");
    if (agreed == 0) {
        return {};
    }
    const LocalTensor& tensor = r.layout.tensors()[static_cast<std::size_t>(agreed % half)];
    return {true, r.dp.size() - static_cast<int>(agreed / half), tensor.parameter->name};
}

template <class T>
double GradientReducer<T>::exposed_s() const {
    return impl_->exposed;
}

template class GradientReducer<float>;
template class GradientReducer<double>;

}  // namespace ogrom
