#include "src/train/layout_trial.h"

#include "kernels/common/hash.h"

#include "src/train/step.h"

namespace ogrom {

RunConfig parse_layout(const SelftestLayout& layout, i64 ranks) {
    ParseInput input;
    input.path = "selftest";
    input.text = layout.run_text();
    input.ranks = ranks;
    return parse_run(input);
}

// Skewed towards small ids, so that there is something to learn; every fifth
// target is masked.
std::vector<Batch> trial_batches(const RunConfig& run, i64 data_rank, i64 step) {
    const auto token = [&](i64 sample, i64 place) {
        const u64 word = mix64(static_cast<u64>(sample * 1000 + place) * 2654435761ULL + 17);
        const u64 wide = word % static_cast<u64>(run.model.vocab);
        return static_cast<std::int32_t>(word % 3 == 0 ? wide : wide % 23);
    };
    std::vector<Batch> batches;
    i64 sample = step * run.train.global_batch + data_rank * run.train.micro_batch * run.train.accumulation;
    for (i64 m = 0; m < run.train.accumulation; ++m) {
        Batch batch = make_batch(run.train.micro_batch, run.train.sequence);
        for (i64 row = 0; row < batch.B; ++row, ++sample) {
            for (i64 t = 0; t < batch.T; ++t) {
                const auto at = static_cast<std::size_t>(row * batch.T + t);
                batch.tokens[at] = token(sample, t);
                batch.targets[at] = token(sample, t + 1);
                batch.loss_mask[at] = (sample + t) % 5 == 0 ? 0 : 1;
                batch.unmasked += batch.loss_mask[at];
            }
            batch.sample_id[static_cast<std::size_t>(row)] = sample;
            batch.sample[static_cast<std::size_t>(row)] = sample % run.train.global_batch;
        }
        batches.push_back(std::move(batch));
    }
    return batches;
}

template <class T>
std::unique_ptr<Engine<T>> make_trial(const RunConfig& run, Mesh& mesh, const Device& device, Stream stream) {
    const Decisions decisions = decide(run, mesh.shape, mesh.place, 1, device.backend);
    return std::make_unique<Engine<T>>(run, decisions, make_ledger(run, decisions), mesh, device, stream);
}

template <class T>
Course run_trial(Engine<T>& engine) {
    Course course;
    for (i64 step = 0; step < engine.run.train.steps; ++step) {
        const std::vector<Batch> batches = trial_batches(engine.run, engine.mesh.place.dp, step);
        const i64 targets = agree_control(engine.mesh, batches, Wish::go_on).targets;
        const StepResult result = train_step<T>(engine, batches, targets);
        course.losses.push_back(result.loss);
        course.norms.push_back(result.norm);
        engine.require_equal_copies();
    }
    return course;
}

template std::unique_ptr<Engine<float>> make_trial<float>(const RunConfig&, Mesh&, const Device&, Stream);
template std::unique_ptr<Engine<double>> make_trial<double>(const RunConfig&, Mesh&, const Device&, Stream);
template Course run_trial<float>(Engine<float>&);
template Course run_trial<double>(Engine<double>&);

}  // namespace ogrom
