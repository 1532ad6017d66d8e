// Comes in: the step's micro-batches [B, T] on the host, and the schedule's action list.
// Goes out: the sum of their losses (double), gradients added to the flat gradient buffer.
// Next: model/stage.cpp
#include "src/pipeline/execute.h"

#include <algorithm>

namespace ogrom {

template <class T>
double execute(Stream stream, Stage<T>& stage, const ActionList& actions, std::span<const Batch> batches,
               const typename Stage<T>::StepInfo& info, const BeforeBackward& before_backward) {
    const auto is_backward = [](const Action& action) { return action.kind == ActionKind::backward; };
    i64 backward_left = std::count_if(actions.begin(), actions.end(), is_backward);
    double loss_sum = 0;
    for (const Action& action : actions) {
        OGROM_ASSERT(action.micro_batch >= 0 && action.micro_batch < static_cast<i64>(batches.size()));
        const Batch& batch = batches[static_cast<std::size_t>(action.micro_batch)];
        if (action.kind == ActionKind::forward) {
            stage.forward(stream, batch, action.slot, info);
            continue;
        }
        --backward_left;
        if (before_backward) {
            before_backward(action.micro_batch, backward_left == 0);
        }
        loss_sum += stage.backward(stream, batch, action.slot, info);
    }
    return loss_sum;
}

template double execute<float>(Stream, Stage<float>&, const ActionList&, std::span<const Batch>,
                               const Stage<float>::StepInfo&, const BeforeBackward&);
template double execute<double>(Stream, Stage<double>&, const ActionList&, std::span<const Batch>,
                                const Stage<double>::StepInfo&, const BeforeBackward&);

}  // namespace ogrom
