// In: the sampler, this rank's place in dp. Out: the micro-batches of each step, host memory, made ahead by a thread
// that makes no MPI call. Next: train/step.cpp.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

#include "src/data/sampler.h"

namespace ogrom {

struct Prefetch::Impl {
    void run();
    [[nodiscard]] std::vector<Batch> make(i64 step) const;

    const Sampler* sampler = nullptr;
    i64 micro = 0, accumulation = 0, global_batch = 0, sequence = 0, dp_rank = 0;
    i64 first_step = 0, first_sample = 0, depth = 0;
    i64 wanted = 0;  // step that next() must be asked for
    double waited_s = 0;

    std::mutex lock;
    std::condition_variable changed;
    std::deque<std::vector<Batch>> ready;
    std::exception_ptr fault;
    bool stop = false;
    std::thread thread;
};

std::vector<Batch> Prefetch::Impl::make(i64 step) const {
    const i64 offset = dp_rank * micro * (fault_active("prefetch_accumulation_order") ? 1 : accumulation);
    std::vector<Batch> batches;
    for (i64 m = 0; m < accumulation; ++m) {
        Batch batch = make_batch(micro, sequence);
        for (i64 row = 0; row < micro; ++row) {
            const i64 s = offset + m * micro + row;
            batch.sample[row] = s;
            const i64 skipped = fault_active("sampler_resume_off_by_one") && first_step > 0 ? 1 : 0;
            sampler->fill(first_sample + (step - first_step) * global_batch + s + skipped, batch, row);
        }
        batches.push_back(std::move(batch));
    }
    return batches;
}

void Prefetch::Impl::run() {
    try {
        for (i64 step = first_step;; ++step) {
            auto batches = make(step);
            std::unique_lock hold(lock);
            changed.wait(hold, [&] { return stop || static_cast<i64>(ready.size()) < depth; });
            if (stop) {
                return;
            }
            ready.push_back(std::move(batches));
            changed.notify_all();
        }
    } catch (...) {
        const std::lock_guard guard(lock);
        fault = std::current_exception();
        changed.notify_all();
    }
}

Prefetch::Prefetch(const Sampler& sampler, const TrainConfig& train, i64 dp_rank, i64 first_step,
                   std::optional<i64> first_sample, i64 depth)
    : impl_(std::make_unique<Impl>()) {
    OGROM_ASSERT(train.micro_batch > 0 && train.accumulation > 0 && depth > 0 && first_step >= 0);
    OGROM_ASSERT(train.global_batch % (train.micro_batch * train.accumulation) == 0);
    OGROM_ASSERT(dp_rank >= 0 && (dp_rank + 1) * train.micro_batch * train.accumulation <= train.global_batch);
    impl_->sampler = &sampler;
    impl_->micro = train.micro_batch;
    impl_->accumulation = train.accumulation;
    impl_->global_batch = train.global_batch;
    impl_->sequence = train.sequence;
    impl_->dp_rank = dp_rank;
    impl_->first_step = impl_->wanted = first_step;
    impl_->first_sample = first_sample.value_or(first_step * train.global_batch);
    impl_->depth = depth;
    impl_->thread = std::thread([this] { impl_->run(); });
}

Prefetch::~Prefetch() {
    {
        const std::lock_guard guard(impl_->lock);
        impl_->stop = true;
    }
    impl_->changed.notify_all();
    impl_->thread.join();
}

std::vector<Batch> Prefetch::next(i64 step) {
    OGROM_ASSERT(step == impl_->wanted);
    const auto begin = std::chrono::steady_clock::now();
    std::unique_lock hold(impl_->lock);
    impl_->changed.wait(hold, [&] { return !impl_->ready.empty() || impl_->fault; });
    impl_->waited_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (impl_->ready.empty()) {
        std::rethrow_exception(impl_->fault);
    }
    auto batches = std::move(impl_->ready.front());
    impl_->ready.pop_front();
    ++impl_->wanted;
    impl_->changed.notify_all();
    return batches;
}

double Prefetch::waited_s() const {
    return impl_->waited_s;
}

}  // namespace ogrom
