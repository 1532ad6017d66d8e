// The checker refuses what is wrong: seeded bad lists, each with the words that name the fault.
#include "src/pipeline/check.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "src/pipeline/schedule.h"
#include "src/pipeline/slots.h"

#include "tests/unit/pipeline/specs.h"

namespace ogrom::test {
namespace {

using Kind = ActionKind;
constexpr auto training = SchedulePurpose::training;

const ScheduleSpec deep = {PipelineSchedule::one_f_one_b, 3, 1, 5};

Action& nth(StageSchedule& list, Kind kind, std::size_t n) {
    for (Action& action : list.actions) {
        if (action.kind == kind && n-- == 0) {
            return action;
        }
    }
    ADD_FAILURE() << "no such action";
    return list.actions.front();
}

void erase(StageSchedule& list, Kind kind, std::size_t n) {
    list.actions.erase(list.actions.begin() + (&nth(list, kind, n) - list.actions.data()));
}

void expect_refused(const ScheduleSpec& spec, const std::vector<StageSchedule>& lists, const std::string& words,
                    SchedulePurpose purpose = training) {
    const std::optional<std::string> violation = check_schedules(spec, lists, purpose);
    ASSERT_TRUE(violation.has_value()) << "accepted; expected: " << words;
    EXPECT_NE(violation->find(words), std::string::npos) << *violation;
}

TEST(ScheduleCheck, RefusesEveryMissingOrDoubledAction) {
    for (const ScheduleSpec& spec :
         {deep, ScheduleSpec{PipelineSchedule::zero_bubble, 3, 1, 5},
          ScheduleSpec{PipelineSchedule::interleaved, 2, 2, 3}, ScheduleSpec{PipelineSchedule::gpipe, 2, 1, 3},
          ScheduleSpec{PipelineSchedule::interleaved, 1, 2, 2}}) {
        const std::vector<StageSchedule> good = make_stage_schedules(spec);
        ASSERT_EQ(check_schedules(spec, good, training), std::nullopt);
        for (std::size_t s = 0; s < good.size(); ++s) {
            for (std::size_t i = 0; i < good[s].actions.size(); ++i) {
                const auto at = static_cast<std::ptrdiff_t>(i);
                std::vector<StageSchedule> bad = good;
                bad[s].actions.erase(bad[s].actions.begin() + at);
                EXPECT_TRUE(check_schedules(spec, bad, training).has_value())
                    << text_of(spec) << ": accepted without " << describe(good[s].actions[i]);
                bad = good;
                bad[s].actions.insert(bad[s].actions.begin() + at, good[s].actions[i]);
                EXPECT_TRUE(check_schedules(spec, bad, training).has_value())
                    << text_of(spec) << ": accepted twice " << describe(good[s].actions[i]);
            }
        }
    }
}

// Any one number of any one action changed: a wrong micro-batch, chunk, slot, buffer or weight slot is always seen.
TEST(ScheduleCheck, RefusesEveryChangedNumber) {
    for (const ScheduleSpec& spec :
         {ScheduleSpec{PipelineSchedule::zero_bubble, 3, 1, 5}, ScheduleSpec{PipelineSchedule::interleaved, 2, 2, 4}}) {
        const std::vector<StageSchedule> good = make_stage_schedules(spec);
        for (std::size_t s = 0; s < good.size(); ++s) {
            for (std::size_t i = 0; i < good[s].actions.size(); ++i) {
                const Kind kind = good[s].actions[i].kind;
                const bool has_slot = kind != Kind::receive_backward && kind != Kind::send_backward;
                const auto refuse = [&](i64 Action::*number, i64 by) {
                    std::vector<StageSchedule> bad = good;
                    bad[s].actions[i].*number += by;
                    EXPECT_TRUE(check_schedules(spec, bad, training).has_value())
                        << text_of(spec) << ", stage " << s << ": accepted " << describe(bad[s].actions[i])
                        << " instead of " << describe(good[s].actions[i]);
                };
                for (const i64 by : {-1, 1}) {
                    refuse(&Action::micro_batch, by);
                    refuse(&Action::chunk, by);
                    if (has_slot) {
                        refuse(&Action::slot, by);
                    }
                    if (uses_buffer(kind)) {
                        refuse(&Action::buffer, by);
                    }
                    if (uses_weight_slot(kind)) {
                        refuse(&Action::weight_slot, by);
                    }
                }
            }
        }
    }
}

TEST(ScheduleCheck, NamesTheFault) {
    std::vector<StageSchedule> lists = make_stage_schedules(deep);
    std::swap(nth(lists[2], Kind::backward, 0).micro_batch, nth(lists[2], Kind::backward, 1).micro_batch);
    expect_refused(deep, lists, "the slot does not hold this forward pass");
    lists = make_stage_schedules(deep);
    erase(lists[1], Kind::send_forward, 1);
    expect_refused(deep, lists, "stage 1");
    lists = make_stage_schedules(deep);
    nth(lists[1], Kind::receive_forward, 2).slot = nth(lists[1], Kind::receive_forward, 1).slot;
    expect_refused(deep, lists, "the slot still holds micro-batch 1");
    lists = make_stage_schedules(deep);
    lists[0].slots[0] = 1;
    expect_refused(deep, lists, "slot 1 is not below 1");
    lists = make_stage_schedules(deep);
    std::swap(nth(lists[1], Kind::receive_forward, 0), nth(lists[1], Kind::receive_forward, 1));
    expect_refused(deep, lists, "expects");
    expect_refused(deep, make_evaluation_stage_schedules(deep, 5), "0 of 5 backward");
    expect_refused(deep, make_stage_schedules(deep), "no backward pass", SchedulePurpose::evaluation);
    lists.pop_back();
    expect_refused(deep, lists, "2 lists for 3 stages");
}

TEST(ScheduleCheck, RefusesBackwardInAnotherOrder) {
    const ScheduleSpec spec = {PipelineSchedule::gpipe, 1, 1, 2};
    StageSchedule list{.actions = {}, .slots = {2}, .buffers = 1};
    list.actions = {
        {Kind::forward, 0, 0, 0}, {Kind::forward, 1, 0, 1}, {Kind::backward, 1, 0, 1}, {Kind::backward, 0, 0, 0}};
    expect_refused(spec, {list}, "micro-batch 1 comes where 0 is due");
    std::swap(list.actions[2], list.actions[3]);
    EXPECT_EQ(check_schedules(spec, std::vector{list}, training), std::nullopt);
}

// Stage 0 waits for the gradient of micro-batch 0, stage 1 for the activation of micro-batch 1.
TEST(ScheduleCheck, RefusesListsThatWaitForEachOther) {
    const ScheduleSpec spec = {PipelineSchedule::gpipe, 2, 1, 2};
    StageSchedule first{.actions = {}, .slots = {2}, .buffers = 2}, second{.actions = {}, .slots = {2}, .buffers = 2};
    for (const i64 m : {0, 1}) {
        first.actions.insert(first.actions.end(), {{Kind::forward, m, 0, m},
                                                   {Kind::send_forward, m, 0, m},
                                                   {Kind::receive_backward, m, 0, 0, m},
                                                   {Kind::backward, m, 0, m, m}});
        second.actions.insert(second.actions.end(), {{Kind::receive_forward, m, 0, m}, {Kind::forward, m, 0, m}});
    }
    for (const i64 m : {0, 1}) {
        second.actions.insert(second.actions.end(), {{Kind::backward, m, 0, m, m}, {Kind::send_backward, m, 0, 0, m}});
    }
    expect_refused(spec, {first, second}, "deadlock");
    expect_refused(spec, {first, second}, "stage 1, action 3 (forward of micro-batch 1");
    std::rotate(first.actions.begin() + 2, first.actions.begin() + 4, first.actions.begin() + 6);
    EXPECT_EQ(check_schedules(spec, std::vector{first, second}, training), std::nullopt);
}

// Runs where messages are buffered, not without: three micro-batches go round a ring of two stages with one slot per
// chunk before the first one is taken up again. Two slots are enough.
TEST(ScheduleCheck, BufferingIsNotAssumed) {
    const ScheduleSpec spec = {PipelineSchedule::interleaved, 2, 2, 3};
    const auto lists = [&](i64 slots) {
        std::vector<StageSchedule> stages;
        for (const i64 s : {0, 1}) {
            StageSchedule& list = stages.emplace_back();
            list.slots = {slots, slots};
            for (const i64 c : {0, 1}) {
                for (i64 m = 0; m < spec.micro_batches; ++m) {
                    if (input_is_received(spec, s, c)) {
                        list.actions.push_back({Kind::receive_forward, m, c, m % slots});
                    }
                    list.actions.push_back({Kind::forward, m, c, m % slots});
                    if (output_is_sent(spec, s, c)) {
                        list.actions.push_back({Kind::send_forward, m, c, m % slots});
                    }
                }
            }
        }
        return stages;
    };
    expect_refused(spec, lists(1), "deadlock", SchedulePurpose::evaluation);
    EXPECT_EQ(check_schedules(spec, lists(2), SchedulePurpose::evaluation), std::nullopt);
}

// Narayanan's order with the last group simply cut short: stage 0 waits for the last micro-batch to come round the
// ring, which stands behind backward passes that wait for stage 0. With the group's empty places left out it runs.
TEST(ScheduleCheck, RefusesAShortLastGroupThatWaitsForItself) {
    const ScheduleSpec spec = {PipelineSchedule::interleaved, 4, 3, 5};
    const auto direction = [&](Kind kind) {
        std::vector<SchedulePass> order;
        for (i64 first = 0; first < spec.micro_batches; first += spec.stages) {
            for (const i64 i : {0, 1, 2}) {
                for (i64 m = first; m < std::min(first + spec.stages, spec.micro_batches); ++m) {
                    order.push_back({kind, m, kind == Kind::forward ? i : 2 - i});
                }
            }
        }
        return order;
    };
    const std::vector<SchedulePass> forward = direction(Kind::forward), backward = direction(Kind::backward);
    std::vector<StageSchedule> lists;
    for (i64 s = 0; s < spec.stages; ++s) {
        const auto warm_up = static_cast<std::size_t>(2 * (spec.stages - s - 1) + 2 * spec.stages);
        std::vector<SchedulePass> order;
        for (std::size_t i = 0; i < forward.size() + warm_up; ++i) {
            if (i < forward.size()) {
                order.push_back(forward[i]);
            }
            if (i >= warm_up && i - warm_up < backward.size()) {
                order.push_back(backward[i - warm_up]);
            }
        }
        lists.push_back(place_passes(spec, s, order, slots_needed(spec, order), training));
    }
    expect_refused(spec, lists, "deadlock");
    EXPECT_EQ(check_schedules(spec, make_stage_schedules(spec), training), std::nullopt);
}

}  // namespace
}  // namespace ogrom::test
