// A stage whose boundaries name their origin: activation 1000 * part + micro-batch, gradient the same plus a million.
// Every pass checks what it was given and what its slots still hold, and notes what is wrong in `faults`.
#pragma once
#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "src/pipeline/execute.h"

namespace ogrom::test {

class OriginWork : public StageWork {
public:
    static constexpr i64 elements = 7;
    static constexpr i64 poison = -1;
    using Cell = std::vector<i64>;

    OriginWork(const ScheduleSpec& spec, i64 stage, const StageSchedule& list) : spec_(spec), stage_(stage) {
        for (const i64 slots : list.slots) {
            in_.emplace_back(static_cast<std::size_t>(slots), Cell(elements, poison));
        }
        out_ = kept_ = in_;
        gradients_.assign(static_cast<std::size_t>(list.buffers), Cell(elements, poison));
        weight_kept_.assign(static_cast<std::size_t>(list.weight_slots), poison);
    }

    void forward(const Action& action) override {
        note(action);
        const i64 input = part(action) == 0 ? own_input : activation(part(action) - 1, action.micro_batch);
        if (part(action) == 0) {
            fill(cell(in_, action), own_input);  // the tokens
        }
        expect(action, "input", cell(in_, action), input);
        fill(cell(out_, action), activation(part(action), action.micro_batch));
        fill(cell(kept_, action), activation(part(action), action.micro_batch));
    }
    void backward(const Action& action) override {
        backward_pass(action);
        leave_slot(action);
    }
    void backward_input(const Action& action) override {
        backward_pass(action);
        weight_kept_.at(static_cast<std::size_t>(action.weight_slot)) = gradient_of(part(action), action.micro_batch);
    }
    void backward_weight(const Action& action) override {
        note(action);
        expect(action, "kept activation", cell(kept_, action), activation(part(action), action.micro_batch));
        i64& kept = weight_kept_.at(static_cast<std::size_t>(action.weight_slot));
        if (kept != gradient_of(part(action), action.micro_batch)) {
            faults.push_back(fmt::format("{}: weight slot holds {}", describe(action), kept));
        }
        kept = poison;
        leave_slot(action);
    }
    Boundary activation_in(const Action& action) override { return boundary(cell(in_, action)); }
    Boundary activation_out(const Action& action) override { return boundary(cell(out_, action)); }
    Boundary gradient(const Action& action) override {
        return boundary(gradients_.at(static_cast<std::size_t>(action.buffer)));
    }

    std::vector<std::string> faults;
    std::vector<Action> done;

private:
    static constexpr i64 own_input = 77;
    static i64 activation(i64 part, i64 micro_batch) { return 1000 * (part + 1) + micro_batch; }
    static i64 gradient_of(i64 part, i64 micro_batch) { return 1'000'000 + activation(part, micro_batch); }

    // d(output) of a part is what the part behind it has left: d(input) of that one, named by its maker.
    void backward_pass(const Action& action) {
        note(action);
        expect(action, "kept activation", cell(kept_, action), activation(part(action), action.micro_batch));
        Cell& gradient = gradients_.at(static_cast<std::size_t>(action.buffer));
        if (!is_last_part(spec_, stage_, action.chunk)) {
            expect(action, "gradient", gradient, gradient_of(part(action) + 1, action.micro_batch));
        }
        fill(gradient, gradient_of(part(action), action.micro_batch));
    }
    void leave_slot(const Action& action) {
        fill(cell(in_, action), poison);
        fill(cell(kept_, action), poison);
    }
    void note(const Action& action) { done.push_back(action); }
    void expect(const Action& action, const char* what, const Cell& values, i64 expected) {
        for (const i64 value : values) {
            if (value != expected) {
                faults.push_back(
                    fmt::format("stage {}, {}: {} is {}, not {}", stage_, describe(action), what, value, expected));
                return;
            }
        }
    }
    [[nodiscard]] i64 part(const Action& action) const { return action.chunk * spec_.stages + stage_; }
    static Cell& cell(std::vector<std::vector<Cell>>& cells, const Action& action) {
        return cells.at(static_cast<std::size_t>(action.chunk)).at(static_cast<std::size_t>(action.slot));
    }
    static void fill(Cell& values, i64 value) { std::fill(values.begin(), values.end(), value); }
    static Boundary boundary(Cell& values) { return {values.data(), elements, Dtype::i64}; }

    ScheduleSpec spec_;
    i64 stage_;
    std::vector<std::vector<Cell>> in_, out_, kept_;  // [chunk][slot]
    std::vector<Cell> gradients_;
    std::vector<i64> weight_kept_;
};

}  // namespace ogrom::test
