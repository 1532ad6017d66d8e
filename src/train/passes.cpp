// Comes in: the step's micro-batches [B, T] of this rank (host).
// Goes out: their losses in engine.sums where the head is; gradients under way to their owners (optim/units).
// Next: data/batch_upload.cpp, then pipeline/execute.cpp, which calls train/work.cpp
#include "src/train/passes.h"

#include "src/train/pass_graphs.h"
#include "src/train/work.h"

namespace ogrom {

template <class T>
PassesEnd run_passes(Engine<T>& engine, std::span<const Batch> batches, const typename Stage<T>::StepInfo& info,
                     StopVote* vote) {
    const std::vector<BatchView> views = engine.batches.put(batches);
    ModelWork<T> work(engine, views, info, Passes::training);
    engine.sums.clear();
    if (engine.graphs != nullptr) {
        engine.graphs->begin_step(engine, info);
    }
    engine.units.begin_step(engine.uses);
    for (std::size_t pass = 0; pass < engine.passes.size(); ++pass) {
        const bool last = pass + 1 == engine.passes.size();
        // The last one is not left any more: the step ends with it.
        if (vote != nullptr && !last && vote->heard()) {
            engine.units.abandon();
            wait(engine.stream);  // the next batches are written where these were
            return PassesEnd::left;
        }
        run_schedule(engine, engine.passes[pass], work);
    }
    return PassesEnd::complete;
}

template PassesEnd run_passes<float>(Engine<float>&, std::span<const Batch>, const Stage<float>::StepInfo&, StopVote*);
template PassesEnd run_passes<double>(Engine<double>&, std::span<const Batch>, const Stage<double>::StepInfo&,
                                      StopVote*);
template PassesEnd run_passes<Bf16>(Engine<Bf16>&, std::span<const Batch>, const Stage<Bf16>::StepInfo&, StopVote*);
template PassesEnd run_passes<Fp16>(Engine<Fp16>&, std::span<const Batch>, const Stage<Fp16>::StepInfo&, StopVote*);

}  // namespace ogrom
