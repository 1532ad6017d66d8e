// Comes in: the step's micro-batches [B, T] of this rank (host).
// Goes out: the sum of their losses where the head is; gradients under way to their owners (optim/units).
// Next: pipeline/execute.cpp, which calls train/work.cpp
#include "src/train/passes.h"

#include "src/train/work.h"

namespace ogrom {

template <class T>
std::optional<double> run_passes(Engine<T>& engine, std::span<const Batch> batches,
                                 const typename Stage<T>::StepInfo& info, StopVote* vote) {
    ModelWork<T> work(engine, batches, info, Passes::training);
    engine.units.begin_step(engine.uses);
    for (std::size_t pass = 0; pass < engine.passes.size(); ++pass) {
        const bool last = pass + 1 == engine.passes.size();
        // The last one is not left any more: the step ends with it.
        if (vote != nullptr && !last && vote->heard()) {
            engine.units.abandon();
            return std::nullopt;
        }
        run_schedule(engine, engine.passes[pass], work);
    }
    return work.loss_sum();
}

template std::optional<double> run_passes<float>(Engine<float>&, std::span<const Batch>, const Stage<float>::StepInfo&,
                                                 StopVote*);
template std::optional<double> run_passes<double>(Engine<double>&, std::span<const Batch>,
                                                  const Stage<double>::StepInfo&, StopVote*);

}  // namespace ogrom
