// Runs one stage's action list: computes through StageWork, moves boundaries through two communicators over the pp axis
// (one channel per direction). Knows no tensor type and no layer, so that a test can put timed or recording work in
// place of the model.
#pragma once
#include <functional>

#include "kernels/common/dtype.h"

#include "src/comm/communicator.h"
#include "src/pipeline/actions.h"
#include "src/pipeline/trace.h"

namespace ogrom {

// Memory that crosses from one part of the model to the next: [B, T, C], or [B, T/tp, C] under sequence parallelism.
struct Boundary {
    void* data = nullptr;
    i64 count = 0;  // elements
    Dtype type = Dtype::fp32;
};

// One stage's side of the pipeline. The chunk's own input comes from data where it is the model's first part; the loss
// starts backward where it is the last part, which then writes d(input) into the buffer without reading it.
class StageWork {
public:
    virtual ~StageWork() = default;
    // activation_in(chunk, slot) -> activation_out(chunk, slot); the slot keeps what backward needs.
    virtual void forward(const Action& action) = 0;
    // gradient(buffer): d(output) -> d(input) in place; gradients of the weights added.
    virtual void backward(const Action& action) = 0;
    // The same in two halves. After the first one the buffer may be sent and reused: what the second one needs of it is
    // kept in weight_slot. The activation slot stays in use until the second half is done.
    virtual void backward_input(const Action& action) = 0;
    virtual void backward_weight(const Action& action) = 0;
    // Where the boundary of a micro-batch lies. Received into and sent from directly, never copied.
    virtual Boundary activation_in(const Action& action) = 0;   // slot action.slot of action.chunk
    virtual Boundary activation_out(const Action& action) = 0;  // the same slot's output
    virtual Boundary gradient(const Action& action) = 0;        // buffer action.buffer
    // Several chunks on one stage: the output `from` becomes the next chunk's input `to` without a message.
    virtual void hand_over(const Boundary& from, const Boundary& to);
};

struct PipelineRun {
    StageWork& work;
    Communicator* forward = nullptr;   // activations, over the pp axis in stage order; null with one stage
    Communicator* backward = nullptr;  // gradients, over the same ranks
    Trace* trace = nullptr;            // null: nothing is recorded
    // Called on the stage's thread before each action, in list order: where the caller sets up dropout, gradients,
    // votes.
    std::function<void(const Action& action)> before = {};
};

// Runs the list to its end; every send has left when it returns. Waits only where it must: a compute action waits for
// its own receive, and a slot or buffer is not written before the send that reads it is complete. Throws Error(peer)
// where a list names a compute action whose input was never received, and whatever the work or a communicator throws.
// Bytes sent per step and stage: (sends in the list) * count * size_of(type), under the labels below.
void execute(const StageSchedule& schedule, const PipelineRun& run);

inline constexpr std::string_view activation_label = "pipeline activation";
inline constexpr std::string_view gradient_label = "pipeline gradient";

}  // namespace ogrom
