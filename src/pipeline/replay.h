// Executes action lists on paper, all stages together, under the rules of execute with zero buffering: the common
// ground of pipeline/check (does it hold) and pipeline/simulate (when does it happen).
//
// A stage takes its actions in order. A message moves once its send is started and its receive is posted, and after the
// message before it on the same channel; a compute action waits for its message; memory that is being sent is written
// only when the send is complete. Times follow from these waits alone, so the order in which stages are tried here does
// not matter.
#pragma once
#include <array>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/pipeline/simulate.h"

namespace ogrom {

class ScheduleReplay {
public:
    ScheduleReplay(const ScheduleSpec& spec, std::span<const StageSchedule> stages, const ScheduleCosts& costs,
                   SchedulePurpose purpose);
    // To the end of all lists; the first violation in words, or nothing. Once per object.
    std::optional<std::string> run();
    [[nodiscard]] const std::vector<std::vector<PassSpan>>& spans() const { return spans_; }  // [stage], as executed

private:
    // Thrown inside run(): the text says what is wrong with the action at hand.
    struct Violation {
        std::string text;
    };
    enum class Progress { done, blocked };

    struct Message {
        std::optional<double> sent, posted, arrived;
        i64 micro_batch = 0, part = 0;  // part of the model that made it
    };
    struct Channel {
        std::deque<Message> messages;  // addresses stay valid while it grows
        std::size_t sends = 0, receives = 0;
        double free_at = 0;
    };
    // An activation slot, a gradient buffer or a weight slot.
    enum class Content { free, receiving, forwarded, sent, half_done, gradient };
    struct Cell {
        Content content = Content::free;
        i64 micro_batch = -1, chunk = -1;
        Message* incoming = nullptr;  // while receiving
        Message* outgoing = nullptr;  // the last send that reads this memory
        void hold(Content what, const Action& action) {
            content = what;
            micro_batch = action.micro_batch;
            chunk = action.chunk;
        }
        [[nodiscard]] bool holds(Content what, const Action& action) const {
            return content == what && micro_batch == action.micro_batch && chunk == action.chunk;
        }
    };
    struct StageState {
        std::size_t next = 0;  // action
        double clock = 0;
        std::vector<std::vector<Cell>> slots;  // [chunk][slot]
        std::vector<Cell> buffers, weight_slots;
        std::vector<i64> next_backward, next_weight;  // [chunk] micro-batch whose turn it is
        std::vector<std::vector<char>> forward_done;  // [chunk][micro-batch]
        i64 forwards = 0, inputs = 0, weights = 0;    // passes done; a whole backward counts as both halves
    };

    Progress execute(i64 stage, const Action& action);
    Progress receive_forward(i64 stage, const Action& action);
    Progress forward(i64 stage, const Action& action);
    Progress send_forward(i64 stage, const Action& action);
    Progress receive_backward(i64 stage, const Action& action);
    Progress backward(i64 stage, const Action& action);
    Progress backward_weight(i64 stage, const Action& action);
    Progress send_backward(i64 stage, const Action& action);
    Progress take_gradient(i64 stage, const Action& action);

    void check_ranges(i64 stage, const Action& action) const;
    void check_end() const;
    void check_ascending(std::vector<i64>& next, const Action& action, const char* what) const;
    [[noreturn]] static void violated(std::string text) { throw Violation{std::move(text)}; }
    [[nodiscard]] std::string where(i64 stage, const Action& action) const;
    [[nodiscard]] std::string stuck() const;

    Channel& channel(PipelineChannel direction, i64 from);
    static Message& message(Channel& channel, std::size_t number);
    void post(Cell& cell, PipelineChannel direction, i64 from, const Action& action, i64 part, double now);
    void send(Cell& cell, PipelineChannel direction, i64 from, const Action& action, double now);
    void settle(Channel& channel, std::size_t number) const;
    static bool may_write(const Cell& cell, double& clock);  // false: a send still reads it
    static bool has_arrived(const Cell& cell, double& clock);
    void compute(i64 stage, const Action& action, double seconds);
    [[nodiscard]] const PassCosts& cost(i64 stage, const Action& action) const;
    [[nodiscard]] i64 part_of(i64 stage, i64 chunk) const { return chunk * spec_.stages + stage; }

    ScheduleSpec spec_;
    std::span<const StageSchedule> lists_;
    const ScheduleCosts& costs_;
    SchedulePurpose purpose_;
    std::vector<StageState> states_;
    std::array<std::vector<Channel>, 2> channels_;  // [PipelineChannel][sending stage]
    std::vector<std::vector<PassSpan>> spans_;
};

}  // namespace ogrom
