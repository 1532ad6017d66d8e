// Comes in: one stage's action list; the stage's work; two channels over the pp axis.
// Goes out: all passes of the list made, every boundary sent; spans in the trace where one is given.
// Next: train/work.cpp
#include "src/pipeline/execute.h"

#include <cstring>
#include <fmt/format.h>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

namespace ogrom {
namespace {

using Kind = ActionKind;

// A message under way: the last one that wrote, or reads, its slot or buffer.
struct Transfer {
    Pending pending;
    bool active = false;
    i64 micro_batch = -1, chunk = -1;  // of the last message, also when it is complete
    TraceSpan span;
    std::string_view name;
};

class ListRunner {
public:
    ListRunner(const StageSchedule& schedule, const PipelineRun& run)
        : schedule_(schedule), run_(run), slot_base_(schedule.slots.size() + 1, 0) {
        if (run.forward != nullptr) {
            OGROM_ASSERT(run.backward != nullptr && run.backward->size() == run.forward->size() &&
                         run.backward->rank() == run.forward->rank());
            spec_.stages = run.forward->size();
            stage_ = run.forward->rank();
        }
        spec_.virtual_stages = static_cast<i64>(schedule.slots.size());
        for (std::size_t c = 0; c < schedule.slots.size(); ++c) {
            slot_base_[c + 1] = slot_base_[c] + schedule.slots[c];
        }
        slot_receives_.resize(static_cast<std::size_t>(slot_base_.back()));
        slot_sends_.resize(slot_receives_.size());
        buffer_receives_.resize(static_cast<std::size_t>(schedule.buffers));
        buffer_sends_.resize(buffer_receives_.size());
    }

    void run() {
        for (const Action& action : schedule_.actions) {
            if (run_.before) {
                run_.before(action);
            }
            take(action);
            poll();
        }
        for (std::vector<Transfer>* sends : {&slot_sends_, &buffer_sends_}) {
            for (Transfer& transfer : *sends) {
                finish(transfer);
            }
        }
    }

private:
    void take(const Action& action) {
        switch (action.kind) {
            case Kind::receive_forward:
                return receive(action, slot(slot_receives_, action), slot(slot_sends_, action));
            case Kind::receive_backward:
                return receive(action, buffer(buffer_receives_, action), buffer(buffer_sends_, action));
            case Kind::send_forward:
                return send(action, slot(slot_sends_, action));
            case Kind::send_backward:
                return send(action, buffer(buffer_sends_, action));
            case Kind::forward:
                return forward(action);
            case Kind::backward:
            case Kind::backward_input:
            case Kind::backward_weight:
                return backward(action);
        }
    }

    void receive(const Action& action, Transfer& transfer, Transfer& last_send) {
        Action into = action;
        const bool is_forward = action.kind == Kind::receive_forward;
        if (is_forward && fault_active("stage_receives_wrong_slot")) {
            into.slot = (action.slot + 1) % schedule_.slots[static_cast<std::size_t>(action.chunk)];
        }
        finish(last_send);
        OGROM_ASSERT(!transfer.active);
        const Boundary boundary = is_forward ? run_.work.activation_in(into) : run_.work.gradient(into);
        Communicator& channel = communicator(is_forward);
        const i64 from = is_forward ? previous_stage(spec_, stage_) : next_stage(spec_, stage_);
        const std::string_view label = is_forward ? activation_label : gradient_label;
        open(transfer, action, is_forward ? "receive activation" : "receive gradient", boundary);
        transfer.pending = channel.receive(boundary.data, boundary.count, boundary.type, static_cast<int>(from), label);
    }

    void send(const Action& action, Transfer& transfer) {
        finish(transfer);
        const bool is_forward = action.kind == Kind::send_forward;
        const Boundary boundary = is_forward ? run_.work.activation_out(action) : run_.work.gradient(action);
        Communicator& channel = communicator(is_forward);
        const i64 to = is_forward ? next_stage(spec_, stage_) : previous_stage(spec_, stage_);
        const std::string_view label = is_forward ? activation_label : gradient_label;
        open(transfer, action, is_forward ? "send activation" : "send gradient", boundary);
        transfer.pending = channel.send(boundary.data, boundary.count, boundary.type, static_cast<int>(to), label);
    }

    void forward(const Action& action) {
        if (input_is_received(spec_, stage_, action.chunk)) {
            await(action, slot(slot_receives_, action));
        } else {
            finish(slot(slot_sends_, action));
            if (action.chunk > 0) {
                run_.work.hand_over(last_output_, run_.work.activation_in(action));
            }
        }
        compute(action, &StageWork::forward);
        if (spec_.stages == 1 && action.chunk + 1 < spec_.virtual_stages) {
            last_output_ = run_.work.activation_out(action);
        }
    }

    void backward(const Action& action) {
        if (action.kind == Kind::backward_weight) {
            return compute(action, &StageWork::backward_weight);
        }
        if (output_is_sent(spec_, stage_, action.chunk)) {
            await(action, buffer(buffer_receives_, action));
        } else {
            finish(buffer(buffer_sends_, action));
        }
        compute(action, action.kind == Kind::backward ? &StageWork::backward : &StageWork::backward_input);
    }

    void compute(const Action& action, void (StageWork::*pass)(const Action&)) {
        const TraceScope scope(run_.trace, name_of(action.kind), SpanCategory::compute, action.micro_batch,
                               action.chunk);
        (run_.work.*pass)(action);
    }

    // The input of a pass.
    void await(const Action& action, Transfer& transfer) {
        if (transfer.micro_batch != action.micro_batch || transfer.chunk != action.chunk) {
            fail(ExitCode::peer,
                 fmt::format("pipeline stage {}: {} has no receive before it", stage_, describe(action)));
        }
        if (transfer.active && !transfer.pending.test()) {
            const TraceScope scope(run_.trace,
                                   action.kind == Kind::forward ? "wait for activation" : "wait for gradient",
                                   SpanCategory::wait, action.micro_batch, action.chunk);
            transfer.pending.wait();
        }
        close(transfer);
    }

    // Before memory is written that a send may still read.
    void finish(Transfer& transfer) {
        if (transfer.active && !fault_active("pipeline_send_not_awaited")) {
            if (!transfer.pending.test()) {
                const TraceScope scope(run_.trace, "wait for send", SpanCategory::wait, transfer.micro_batch,
                                       transfer.chunk);
                transfer.pending.wait();
            }
            close(transfer);
        }
    }

    // Moves what is under way, and gives spans their true ends.
    void poll() {
        for (std::vector<Transfer>* transfers : {&slot_receives_, &slot_sends_, &buffer_receives_, &buffer_sends_}) {
            for (Transfer& transfer : *transfers) {
                if (transfer.active && transfer.pending.test()) {
                    close(transfer);
                }
            }
        }
    }

    void open(Transfer& transfer, const Action& action, std::string_view name, const Boundary& boundary) {
        transfer.active = true;
        transfer.micro_batch = action.micro_batch;
        transfer.chunk = action.chunk;
        transfer.name = name;
        if (run_.trace != nullptr) {
            transfer.span = {.category = SpanCategory::communication, .start = run_.trace->now()};
            transfer.span.micro_batch = action.micro_batch;
            transfer.span.chunk = action.chunk;
            transfer.span.bytes = boundary.count * size_of(boundary.type);
        }
    }

    void close(Transfer& transfer) {
        if (!transfer.active) {
            return;
        }
        transfer.active = false;
        transfer.pending = Pending();
        if (run_.trace != nullptr) {
            transfer.span.end = run_.trace->now();
            run_.trace->add(transfer.name, transfer.span);
        }
    }

    [[nodiscard]] Communicator& communicator(bool is_forward) const {
        Communicator* const channel = is_forward ? run_.forward : run_.backward;
        OGROM_ASSERT(channel != nullptr);
        return *channel;
    }
    [[nodiscard]] Transfer& slot(std::vector<Transfer>& transfers, const Action& action) const {
        OGROM_ASSERT(action.chunk >= 0 && action.chunk < spec_.virtual_stages);
        const auto c = static_cast<std::size_t>(action.chunk);
        OGROM_ASSERT(action.slot >= 0 && action.slot < schedule_.slots[c]);
        return transfers[static_cast<std::size_t>(slot_base_[c] + action.slot)];
    }
    [[nodiscard]] Transfer& buffer(std::vector<Transfer>& transfers, const Action& action) const {
        OGROM_ASSERT(action.buffer >= 0 && action.buffer < schedule_.buffers);
        return transfers[static_cast<std::size_t>(action.buffer)];
    }

    const StageSchedule& schedule_;
    const PipelineRun& run_;
    ScheduleSpec spec_;
    i64 stage_ = 0;
    std::vector<i64> slot_base_;  // [chunk] place of the chunk's first slot below
    std::vector<Transfer> slot_receives_, slot_sends_, buffer_receives_, buffer_sends_;
    Boundary last_output_;  // one stage: of the chunk that ran last
};

}  // namespace

void StageWork::hand_over(const Boundary& from, const Boundary& to) {
    OGROM_ASSERT(from.count == to.count && from.type == to.type);
    std::memcpy(to.data, from.data, static_cast<std::size_t>(from.count * size_of(from.type)));
}

void execute(const StageSchedule& schedule, const PipelineRun& run) {
    ListRunner(schedule, run).run();
}

}  // namespace ogrom
