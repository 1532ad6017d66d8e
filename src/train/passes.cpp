// Comes in: the step's micro-batches [B, T] of this rank. Goes out: their loss sum, gradients under way over dp.
// Next: pipeline/execute.cpp
#include "src/train/passes.h"

#include "src/pipeline/execute.h"

namespace ogrom {

template <class T>
std::optional<double> run_passes(Engine<T>& engine, std::span<const Batch> batches,
                                 const typename Stage<T>::StepInfo& info, StopVote* vote) {
    double loss_sum = 0;
    for (std::size_t pass = 0; pass < engine.passes.size(); ++pass) {
        const bool last = pass + 1 == engine.passes.size();
        // The last one is not left any more: its buckets go out while it runs, and the step ends with it.
        if (vote != nullptr && !last && vote->heard()) {
            return std::nullopt;
        }
        const auto before_backward = [&](i64, bool) { engine.reducer.begin(last); };
        loss_sum += execute(engine.stream, engine.stage, engine.passes[pass], batches, info, before_backward);
    }
    return loss_sum;
}

template std::optional<double> run_passes<float>(Engine<float>&, std::span<const Batch>, const Stage<float>::StepInfo&,
                                                 StopVote*);
template std::optional<double> run_passes<double>(Engine<double>&, std::span<const Batch>,
                                                  const Stage<double>::StepInfo&, StopVote*);

}  // namespace ogrom
