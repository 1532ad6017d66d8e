// What each schedule promises: proven lists, bounded memory, one order of sums, receives posted ahead.
#include "src/pipeline/schedule.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>

#include "kernels/common/error.h"

#include "src/pipeline/check.h"

#include "tests/unit/pipeline/specs.h"

namespace ogrom::test {
namespace {

using Kind = ActionKind;

std::vector<Action> of_kind(const StageSchedule& list, Kind kind) {
    std::vector<Action> result;
    std::copy_if(list.actions.begin(), list.actions.end(), std::back_inserter(result),
                 [&](const Action& action) { return action.kind == kind; });
    return result;
}

// "F0 F1 B0 ...": the compute actions of one chunk-less list.
std::string passes(const StageSchedule& list) {
    const std::map<Kind, std::string> letters = {
        {Kind::forward, "F"}, {Kind::backward, "B"}, {Kind::backward_input, "I"}, {Kind::backward_weight, "W"}};
    std::string text;
    for (const Action& action : list.actions) {
        if (is_compute(action.kind)) {
            text += fmt::format("{}{}{} ", letters.at(action.kind), action.micro_batch,
                                std::string(static_cast<std::size_t>(action.chunk), '\''));
        }
    }
    return text;
}

TEST(Schedules, AreProvenForEveryLayout) {
    i64 checked = 0;
    for (const ScheduleSpec& spec : all_specs(8, 17)) {
        const std::optional<std::string> violation =
            check_schedules(spec, make_stage_schedules(spec), SchedulePurpose::training);
        EXPECT_FALSE(violation.has_value()) << text_of(spec) << ": " << violation.value_or("");
        ++checked;
    }
    EXPECT_EQ(checked, 6 * 8 * 17);
}

// Refused by its count, in no time and no memory; the largest one is made.
TEST(Schedules, OfTooManyActionsAreRefusedBeforeTheyAreMade) {
    const auto refused = [](const ScheduleSpec& spec) {
        try {
            (void)make_stage_schedule(spec, 0);
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            return std::string(error.what());
        }
        return std::string();
    };
    constexpr i64 huge = std::numeric_limits<i64>::max();
    for (const auto& [kind, stages, chunks, most] :
         {std::tuple(PipelineSchedule::one_f_one_b, 1, 1, most_actions / 2),
          std::tuple(PipelineSchedule::one_f_one_b, 2, 1, most_actions / 6),
          std::tuple(PipelineSchedule::zero_bubble, 2, 1, most_actions / 7),
          std::tuple(PipelineSchedule::interleaved, 2, 3, most_actions / 18)}) {
        EXPECT_LE(static_cast<i64>(make_stage_schedule({kind, stages, chunks, most}, 0).actions.size()), most_actions);
        for (const i64 more : {most + 1, i64{2147483648}, huge}) {
            const std::string text = refused({kind, stages, chunks, more});
            EXPECT_NE(text.find(fmt::format("train.accumulation {}: ", more)), std::string::npos) << text;
            EXPECT_NE(text.find(fmt::format("at most {}, with", most)), std::string::npos) << text;
        }
    }
    EXPECT_NE(refused({PipelineSchedule::interleaved, 2, huge, 1}), "");
}

TEST(Schedules, AreProvenForEvaluationInAnyMemory) {
    for (const ScheduleSpec& spec : all_specs(8, 17)) {
        for (const i64 slots : {1, 2, 3}) {
            const std::vector<StageSchedule> lists = make_evaluation_stage_schedules(spec, slots);
            const std::optional<std::string> violation = check_schedules(spec, lists, SchedulePurpose::evaluation);
            EXPECT_FALSE(violation.has_value()) << text_of(spec) << ": " << violation.value_or("");
            for (const StageSchedule& list : lists) {
                EXPECT_LE(*std::max_element(list.slots.begin(), list.slots.end()), slots);
                EXPECT_EQ(list.buffers, 0);
                EXPECT_EQ(list.weight_slots, 0);
            }
        }
    }
}

TEST(Schedules, NoStageKeepsMoreThanThePipelineIsDeep) {
    for (const ScheduleSpec& spec : all_specs(8, 17)) {
        const i64 depth = std::min(spec.stages, spec.micro_batches);
        for (i64 s = 0; s < spec.stages; ++s) {
            const StageSchedule list = make_stage_schedule(spec, s);
            SCOPED_TRACE(text_of(spec) + fmt::format(", stage {}", s));
            EXPECT_LE(list.buffers, 3);
            if (spec.stages == 1) {
                EXPECT_EQ(list.slots, std::vector<i64>(static_cast<std::size_t>(spec.virtual_stages), 1));
                EXPECT_EQ(list.buffers, 1);
            } else if (spec.kind == PipelineSchedule::gpipe) {
                EXPECT_EQ(list.slots, std::vector<i64>{spec.micro_batches});
            } else if (spec.virtual_stages == 1) {
                EXPECT_LE(list.slots[0], depth);
                EXPECT_GE(list.slots[0], std::min(spec.micro_batches, spec.stages - s));
            } else {
                // Warm-up of 2 (p - s - 1) + (v - 1) p passes, one more in flight, one received ahead.
                const i64 in_flight = 2 * (spec.stages - s - 1) + (spec.virtual_stages - 1) * spec.stages + 1;
                i64 total = 0;
                for (const i64 slots : list.slots) {
                    EXPECT_LE(slots, std::min(2 * spec.stages, spec.micro_batches));
                    total += slots;
                }
                EXPECT_LE(total, in_flight + spec.virtual_stages + spec.stages);
            }
            const bool splits = spec.kind == PipelineSchedule::zero_bubble && spec.stages > 1;
            EXPECT_EQ(list.weight_slots, splits ? std::min(s + 1, spec.micro_batches) : 0);
        }
    }
}

TEST(Schedules, BackwardPassesOfAChunkAscend) {
    for (const ScheduleSpec& spec : all_specs(6, 13)) {
        for (i64 s = 0; s < spec.stages; ++s) {
            const StageSchedule list = make_stage_schedule(spec, s);
            for (const Kind kind : {Kind::backward, Kind::backward_input, Kind::backward_weight}) {
                std::vector<i64> next(static_cast<std::size_t>(spec.virtual_stages), 0);
                for (const Action& action : of_kind(list, kind)) {
                    EXPECT_EQ(action.micro_batch, next[static_cast<std::size_t>(action.chunk)]++) << text_of(spec);
                }
            }
        }
    }
}

TEST(Schedules, KnownLists) {
    const auto list = [](PipelineSchedule kind, i64 stages, i64 chunks, i64 micro_batches, i64 stage) {
        return passes(make_stage_schedule({kind, stages, chunks, micro_batches}, stage));
    };
    EXPECT_EQ(list(PipelineSchedule::zero_bubble, 1, 1, 2, 0), "F0 B0 F1 B1 ");
    EXPECT_EQ(list(PipelineSchedule::interleaved, 1, 2, 2, 0), "F0 F0' B0' B0 F1 F1' B1' B1 ");
    EXPECT_EQ(list(PipelineSchedule::gpipe, 3, 1, 2, 1), "F0 F1 B0 B1 ");
    EXPECT_EQ(list(PipelineSchedule::one_f_one_b, 3, 1, 4, 0), "F0 F1 F2 B0 F3 B1 B2 B3 ");
    EXPECT_EQ(list(PipelineSchedule::one_f_one_b, 3, 1, 4, 2), "F0 B0 F1 B1 F2 B2 F3 B3 ");
    EXPECT_EQ(list(PipelineSchedule::one_f_one_b, 4, 1, 2, 0), "F0 F1 B0 B1 ");
    EXPECT_EQ(list(PipelineSchedule::zero_bubble, 3, 1, 4, 0), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3 ");
    EXPECT_EQ(list(PipelineSchedule::zero_bubble, 3, 1, 4, 2), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3 ");
    EXPECT_EQ(list(PipelineSchedule::interleaved, 2, 2, 2, 1), "F0 F1 F0' B0' F1' B1' B0 B1 ");
    EXPECT_EQ(list(PipelineSchedule::interleaved, 2, 2, 3, 1), "F0 F1 F0' B0' F1' B1' F2 B0 B1 F2' B2' B2 ");
}

// Of all receives that compute actions wait for, those posted before the compute action ahead of theirs: every one that
// memory allows, which is all but the first where one slot or buffer more than needed is there.
TEST(Schedules, ReceivesArePostedAhead) {
    const auto posted_right_before = [](const StageSchedule& list, Kind receive) {
        i64 late = 0, computes = 0;
        std::map<std::pair<i64, i64>, i64> posted;
        for (const Action& action : list.actions) {
            const std::pair key{action.chunk, action.micro_batch};
            if (action.kind == receive) {
                posted[key] = computes;
            } else if (is_compute(action.kind)) {
                const bool forward = action.kind == Kind::forward;
                const bool mine = action.kind != Kind::backward_weight && forward == (receive == Kind::receive_forward);
                late += mine && posted.contains(key) && posted[key] == computes ? 1 : 0;
                ++computes;
            }
        }
        return late;
    };
    for (const ScheduleSpec& spec : all_specs(6, 13)) {
        for (i64 s = 0; s < spec.stages; ++s) {
            SCOPED_TRACE(text_of(spec) + fmt::format(", stage {}", s));
            const StageSchedule list = make_stage_schedule(spec, s);
            EXPECT_LE(posted_right_before(list, Kind::receive_backward), 1);
            const bool has_room = spec.kind == PipelineSchedule::gpipe ||
                                  (spec.kind == PipelineSchedule::one_f_one_b && s > 0 && spec.stages > 1);
            if (has_room) {
                EXPECT_LE(posted_right_before(list, Kind::receive_forward), 1);
            }
        }
    }
}

// One stage sends what the next one receives, in the same order, and nothing else.
TEST(Schedules, MessagesMatchAlongTheRing) {
    for (const ScheduleSpec& spec : all_specs(5, 9)) {
        const std::vector<StageSchedule> lists = make_stage_schedules(spec);
        for (i64 s = 0; s < spec.stages; ++s) {
            const i64 next = next_stage(spec, s);
            const i64 up = next == 0 ? 1 : 0;  // the ring goes on one chunk higher
            const auto compare = [&](i64 from, Kind send, i64 to, Kind receive, i64 chunk_up) {
                std::vector<std::pair<i64, i64>> sent, received;
                for (const Action& action : of_kind(lists[static_cast<std::size_t>(from)], send)) {
                    sent.emplace_back(action.micro_batch, action.chunk + chunk_up);
                }
                for (const Action& action : of_kind(lists[static_cast<std::size_t>(to)], receive)) {
                    received.emplace_back(action.micro_batch, action.chunk);
                }
                EXPECT_EQ(sent, received) << text_of(spec);
            };
            compare(s, Kind::send_forward, next, Kind::receive_forward, up);
            compare(next, Kind::send_backward, s, Kind::receive_backward, -up);
        }
    }
}

TEST(Schedules, RefuseWhatHasNoMeaning) {
    EXPECT_THROW(make_stage_schedule({PipelineSchedule::gpipe, 2, 1, 0}, 0), Error);
    EXPECT_THROW(make_stage_schedules({PipelineSchedule::gpipe, 0, 1, 1}), Error);
    EXPECT_THROW(make_stage_schedule({PipelineSchedule::interleaved, 2, 0, 1}, 0), Error);
    EXPECT_THROW(make_stage_schedule({PipelineSchedule::one_f_one_b, 2, 1, 3}, 2), Error);
    try {
        make_stage_schedule({PipelineSchedule::zero_bubble, 2, 3, 4}, 0);
        FAIL() << "accepted 3 chunks";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        EXPECT_NE(std::string(error.what()).find("3 virtual stages"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("interleaved"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace ogrom::test
