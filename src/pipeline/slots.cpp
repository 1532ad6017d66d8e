#include "src/pipeline/slots.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

namespace ogrom {
namespace {

using Kind = ActionKind;

constexpr i64 gradient_buffers = 3;  // one is received into, one is computed in, one is sent from

bool frees_slot(Kind kind) {
    const bool too_early = fault_active("slot_freed_before_weight_half");
    return kind == Kind::backward || kind == (too_early ? Kind::backward_input : Kind::backward_weight);
}

// Numbers 0 .. limit - 1. `smallest` keeps the count low; `oldest` hands out what has been free longest, where a send
// may still read what was given back last.
class NumberPool {
public:
    enum class Reuse { smallest, oldest };
    NumberPool(i64 limit, Reuse reuse) : reuse_(reuse) {
        for (i64 i = 0; i < limit; ++i) {
            free_.push_back(i);
        }
    }
    std::optional<i64> take() {
        if (free_.empty()) {
            return std::nullopt;
        }
        const auto at = reuse_ == Reuse::smallest ? std::min_element(free_.begin(), free_.end()) : free_.begin();
        const i64 number = *at;
        free_.erase(at);
        used_ = std::max(used_, number + 1);
        return number;
    }
    void give_back(i64 number) { free_.push_back(number); }
    [[nodiscard]] i64 used() const { return used_; }

private:
    std::deque<i64> free_;
    Reuse reuse_;
    i64 used_ = 0;
};

// Puts slots, buffers and transfers around the passes of one stage.
class ListBuilder {
public:
    ListBuilder(const ScheduleSpec& spec, i64 stage, std::span<const SchedulePass> order,
                std::span<const i64> slot_limits, SchedulePurpose purpose)
        : spec_(spec),
          stage_(stage),
          order_(order),
          purpose_(purpose),
          buffers_(spec.stages == 1 ? 1 : gradient_buffers, NumberPool::Reuse::oldest),
          weight_slots_(spec.micro_batches, NumberPool::Reuse::smallest) {
        for (const i64 limit : slot_limits) {
            slots_.emplace_back(
                limit, purpose == SchedulePurpose::training ? NumberPool::Reuse::smallest : NumberPool::Reuse::oldest);
        }
        const auto places = static_cast<std::size_t>(spec.virtual_stages * spec.micro_batches);
        slot_of_.assign(places, -1);
        buffer_of_.assign(places, -1);
        weight_slot_of_.assign(places, -1);
        for (std::size_t i = 0; i < order.size(); ++i) {
            const SchedulePass& pass = order[i];
            if (pass.kind == Kind::forward && input_is_received(spec, stage, pass.chunk)) {
                forward_receives_.push_back(i);
            } else if (is_backward(pass.kind) && output_is_sent(spec, stage, pass.chunk)) {
                backward_receives_.push_back(i);
            }
        }
    }

    StageSchedule build() {
        for (std::size_t i = 0; i < order_.size(); ++i) {
            post_receives(i, Kind::receive_forward, forward_receives_, forward_posted_);
            post_receives(i, Kind::receive_backward, backward_receives_, backward_posted_);
            if (order_[i].kind == Kind::forward) {
                forward(order_[i]);
            } else if (order_[i].kind == Kind::backward_weight) {
                backward_weight(order_[i]);
            } else {
                backward(order_[i]);
            }
        }
        for (const NumberPool& pool : slots_) {
            list_.slots.push_back(pool.used());
        }
        list_.buffers = purpose_ == SchedulePurpose::training ? buffers_.used() : 0;
        list_.weight_slots = weight_slots_.used();
        return std::move(list_);
    }

private:
    static bool is_backward(Kind kind) { return kind == Kind::backward || kind == Kind::backward_input; }
    [[nodiscard]] std::size_t place(const SchedulePass& pass) const {
        return static_cast<std::size_t>(pass.chunk * spec_.micro_batches + pass.micro_batch);
    }
    void add(Kind kind, const SchedulePass& pass) {
        const std::size_t p = place(pass);
        const auto or_zero = [](i64 value) { return std::max<i64>(value, 0); };
        list_.actions.push_back({kind, pass.micro_batch, pass.chunk, or_zero(slot_of_[p]), or_zero(buffer_of_[p]),
                                 or_zero(weight_slot_of_[p])});
    }
    // False where all are in use.
    static bool take(NumberPool& pool, i64& number) {
        if (const std::optional<i64> taken = pool.take()) {
            number = *taken;
            return true;
        }
        return false;
    }
    static void must_take(NumberPool& pool, i64& number) {
        const bool taken = take(pool, number);
        OGROM_ASSERT(taken);
    }

    // Posts the receive of pass i where it has not been posted, and the next one of the same direction where memory is
    // free.
    void post_receives(std::size_t i, Kind kind, const std::vector<std::size_t>& receives, std::size_t& posted) {
        while (posted < receives.size() && (posted == 0 || receives[posted - 1] <= i)) {
            const SchedulePass& pass = order_[receives[posted]];
            const std::size_t p = place(pass);
            const bool room = kind == Kind::receive_forward
                                  ? take(slots_[static_cast<std::size_t>(pass.chunk)], slot_of_[p])
                                  : take(buffers_, buffer_of_[p]);
            OGROM_ASSERT(room || receives[posted] > i);
            if (!room) {
                return;
            }
            add(kind, pass);
            ++posted;
        }
    }

    void forward(const SchedulePass& pass) {
        NumberPool& pool = slots_[static_cast<std::size_t>(pass.chunk)];
        i64& slot = slot_of_[place(pass)];
        if (slot < 0) {
            must_take(pool, slot);
        }
        add(Kind::forward, pass);
        if (output_is_sent(spec_, stage_, pass.chunk)) {
            add(Kind::send_forward, pass);
        }
        if (purpose_ == SchedulePurpose::evaluation) {
            pool.give_back(slot);
        }
    }

    void backward(const SchedulePass& pass) {
        const std::size_t p = place(pass);
        if (buffer_of_[p] < 0) {
            must_take(buffers_, buffer_of_[p]);  // with one stage the only one: it goes through the chunks in place
        }
        if (pass.kind == Kind::backward_input) {
            must_take(weight_slots_, weight_slot_of_[p]);
        }
        add(pass.kind, pass);
        if (input_is_received(spec_, stage_, pass.chunk)) {
            add(Kind::send_backward, pass);
        }
        buffers_.give_back(buffer_of_[p]);
        free_slot(pass);
    }

    void backward_weight(const SchedulePass& pass) {
        const std::size_t p = place(pass);
        add(Kind::backward_weight, pass);
        free_slot(pass);
        weight_slots_.give_back(weight_slot_of_[p]);
    }

    void free_slot(const SchedulePass& pass) {
        if (frees_slot(pass.kind)) {
            slots_[static_cast<std::size_t>(pass.chunk)].give_back(slot_of_[place(pass)]);
        }
    }

    const ScheduleSpec& spec_;
    i64 stage_;
    std::span<const SchedulePass> order_;
    SchedulePurpose purpose_;
    std::vector<NumberPool> slots_;
    NumberPool buffers_, weight_slots_;
    std::vector<i64> slot_of_, buffer_of_, weight_slot_of_;          // [chunk][micro-batch], -1 = none yet
    std::vector<std::size_t> forward_receives_, backward_receives_;  // passes whose input is received
    std::size_t forward_posted_ = 0, backward_posted_ = 0;           // of those, how many are posted
    StageSchedule list_;
};

}  // namespace

std::vector<i64> slots_needed(const ScheduleSpec& spec, std::span<const SchedulePass> order) {
    std::vector<i64> now(static_cast<std::size_t>(spec.virtual_stages)), most(now.size());
    for (const SchedulePass& pass : order) {
        const auto c = static_cast<std::size_t>(pass.chunk);
        now[c] += pass.kind == Kind::forward ? 1 : frees_slot(pass.kind) ? -1 : 0;
        most[c] = std::max(most[c], now[c]);
    }
    return most;
}

StageSchedule place_passes(const ScheduleSpec& spec, i64 stage, std::span<const SchedulePass> order,
                           std::span<const i64> slot_limits, SchedulePurpose purpose) {
    return ListBuilder(spec, stage, order, slot_limits, purpose).build();
}

}  // namespace ogrom
