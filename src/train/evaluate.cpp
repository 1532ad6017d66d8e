// Comes in: weights [P] (arena), held-out samples by number. Goes out: loss and perplexity, equal on all ranks.
// Next: model/stage.cpp (forward only)
#include "src/train/evaluate.h"

#include <algorithm>
#include <cmath>

namespace ogrom {
namespace {

// Samples [first, last) into the batch; rows beyond them repeat the last sample with every target masked, so that they
// add nothing.
void fill_rows(const Sampler& sampler, i64 first, i64 last, Batch& batch) {
    for (i64 row = 0; row < batch.B; ++row) {
        sampler.fill(std::min(first + row, last - 1), batch, row);
        batch.sample[static_cast<std::size_t>(row)] = row;
        if (first + row >= last) {
            std::fill_n(batch.loss_mask.begin() + row * batch.T, batch.T, std::uint8_t{0});
        }
    }
    batch.unmasked = std::count(batch.loss_mask.begin(), batch.loss_mask.end(), std::uint8_t{1});
}

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
    const StageExtents& extents = engine.decisions.extents;
    Evaluation result;
    result.samples = evaluation_samples(valid, wanted_samples);
    const SamplePart part = evaluation_part(result.samples, engine.dp.size(), engine.dp.rank());
    Batch batch = make_batch(extents.micro_batch, extents.sequence);
    double loss_sum = 0;
    i64 targets = 0;
    // As many rounds on every rank, for the votes; a part may be one round shorter than another.
    const i64 rounds = ceil_div(ceil_div(result.samples, i64{engine.dp.size()}), extents.micro_batch);
    for (i64 round = 0; round < rounds; ++round) {
        if (vote.heard()) {
            return std::nullopt;
        }
        const i64 first = part.first + round * extents.micro_batch;
        if (first >= part.last) {
            continue;
        }
        fill_rows(valid, first, std::min(part.last, first + extents.micro_batch), batch);
        loss_sum += engine.stage.evaluate(engine.stream, batch);
        targets += batch.unmasked;
        engine.dp.progress();  // of the vote
    }
    result.targets = agree_sum(engine.dp, targets, "evaluation targets");
    const double sum = agree_sum(engine.dp, loss_sum, "evaluation loss");
    result.loss = result.targets > 0 ? sum / static_cast<double>(result.targets) : 0;
    result.perplexity = std::exp(result.loss);
    return result;
}

template std::optional<Evaluation> evaluate<float>(Engine<float>&, const Sampler&, i64, StopVote&);
template std::optional<Evaluation> evaluate<double>(Engine<double>&, const Sampler&, i64, StopVote&);

}  // namespace ogrom
