// Comes in: weights (arena), held-out samples by number. Goes out: loss and
// perplexity, equal on all ranks. Next: train/work.cpp (forward only)
#include "src/train/evaluate.h"

#include <algorithm>
#include <cmath>

#include "src/train/work.h"

namespace ogrom {
namespace {

// Samples [first, last) into the batch; rows beyond them repeat a held-out
// sample with every target masked, so that they add nothing.
void fill_rows(const Sampler& sampler, SamplePart part, i64 samples, Batch& batch) {
    for (i64 row = 0; row < batch.B; ++row) {
        const i64 number = part.first + row;
        sampler.fill(std::clamp<i64>(number, 0, samples - 1), batch, row);
        batch.sample[static_cast<std::size_t>(row)] = row;
        if (number >= part.last) {
            std::fill_n(batch.loss_mask.begin() + row * batch.T, batch.T, std::uint8_t{0});
        }
    }
    batch.unmasked = std::count(batch.loss_mask.begin(), batch.loss_mask.end(), std::uint8_t{1});
}

// As many micro-batches on every rank: a part may be shorter than another, and
// every stage must see each of them.
template <class T>
class Rounds {
public:
    Rounds(Engine<T>& engine, const Sampler& valid, i64 samples)
        : engine_(engine),
          valid_(valid),
          samples_(samples),
          part_(evaluation_part(samples, engine.mesh.shape.dp, engine.mesh.place.dp)) {
        const i64 longest = ceil_div(samples, i64{engine.mesh.shape.dp});
        micro_batches_ = ceil_div(longest, engine.run.train.micro_batch);
    }
    [[nodiscard]] bool done() const { return next_ == micro_batches_; }

    // The next group of micro-batches through one forward-only schedule.
    void run() {
        const i64 count = std::min(engine_.decisions.evaluation_batch, micro_batches_ - next_);
        std::vector<Batch> batches;
        for (i64 m = 0; m < count; ++m, ++next_) {
            batches.push_back(make_batch(engine_.run.train.micro_batch, engine_.run.train.sequence));
            const i64 first = part_.first + next_ * batches.back().B;
            fill_rows(valid_, {first, std::min(part_.last, first + batches.back().B)}, samples_, batches.back());
            targets += engine_.has_loss() ? batches.back().unmasked : 0;
        }
        const StageSchedule schedule = schedule_of(count);
        engine_.units.begin_step(uses_of(engine_.layout, schedule.actions, Passes::evaluation));
        typename Stage<T>::StepInfo info;
        info.training = false;
        const std::vector<BatchView> views = engine_.batches.put(batches);
        engine_.sums.clear();
        ModelWork<T> work(engine_, views, info, Passes::evaluation);
        run_schedule(engine_, schedule, work);
        engine_.units.finish();
        engine_.sums.read();
        loss_sum += engine_.has_loss() ? engine_.sums.loss_sum() : 0;
    }

    double loss_sum = 0;
    i64 targets = 0;

private:
    // In the memory that training has.
    [[nodiscard]] StageSchedule schedule_of(i64 micro_batches) const {
        ScheduleSpec spec = engine_.decisions.schedule;
        spec.micro_batches = micro_batches;
        const std::vector<i64>& slots = engine_.decisions.actions.slots;
        const i64 fewest = *std::min_element(slots.begin(), slots.end());
        return make_evaluation_stage_schedule(spec, engine_.mesh.place.pp, std::min<i64>(2, fewest));
    }

    Engine<T>& engine_;
    const Sampler& valid_;
    i64 samples_;
    SamplePart part_;
    i64 micro_batches_ = 0, next_ = 0;
};

}  // namespace

i64 evaluation_samples(const Sampler& valid, i64 wanted) {
    const i64 all = valid.samples_per_epoch();
    return wanted > 0 ? std::min(wanted, all) : all;
}

SamplePart evaluation_part(i64 samples, int ranks, int rank) {
    return {samples * rank / ranks, samples * (rank + 1) / ranks};
}

template <class T>
std::optional<Evaluation> evaluate(Engine<T>& engine, const Sampler& valid, i64 wanted_samples, StopVote& vote) {
    Evaluation result;
    result.samples = evaluation_samples(valid, wanted_samples);
    Rounds<T> rounds(engine, valid, result.samples);
    while (!rounds.done()) {
        if (vote.heard()) {
            return std::nullopt;
        }
        rounds.run();
        engine.world.progress();  // of the vote
    }
    result.targets = agree_sum(engine.world, rounds.targets, "evaluation targets");
    const double sum = agree_sum(engine.world, rounds.loss_sum, "evaluation loss");
    result.loss = result.targets > 0 ? sum / static_cast<double>(result.targets) : 0;
    result.perplexity = std::exp(result.loss);
    return result;
}

template std::optional<Evaluation> evaluate<float>(Engine<float>&, const Sampler&, i64, StopVote&);
template std::optional<Evaluation> evaluate<double>(Engine<double>&, const Sampler&, i64, StopVote&);
template std::optional<Evaluation> evaluate<Bf16>(Engine<Bf16>&, const Sampler&, i64, StopVote&);
template std::optional<Evaluation> evaluate<Fp16>(Engine<Fp16>&, const Sampler&, i64, StopVote&);

}  // namespace ogrom
