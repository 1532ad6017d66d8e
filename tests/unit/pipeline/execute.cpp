// The executor on threads with a network that buffers nothing: every chunk of every micro-batch gets exactly what its
// predecessor made.
#include "src/pipeline/execute.h"

#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

#include "kernels/common/error.h"

#include "src/pipeline/schedule.h"

#include "tests/unit/pipeline/fake_network.h"
#include "tests/unit/pipeline/origin_work.h"
#include "tests/unit/pipeline/specs.h"

namespace ogrom::test {
namespace {

using Kind = ActionKind;

struct Outcome {
    std::vector<std::string> faults;
    std::vector<std::vector<Action>> done, before;  // [stage]
    std::vector<i64> activation_bytes, gradient_bytes;
    std::vector<std::vector<TraceSpan>> spans;
};

Outcome run_on_threads(const ScheduleSpec& spec, const std::vector<StageSchedule>& lists) {
    FakeNetwork activations, gradients;
    const auto epoch = Trace::Clock::now();
    const auto stages = static_cast<std::size_t>(spec.stages);
    std::vector<OriginWork> works;
    std::vector<FakeCommunicator> forward, backward;
    std::vector<Trace> traces(stages, Trace(10'000, epoch));
    for (std::size_t s = 0; s < stages; ++s) {
        works.emplace_back(spec, static_cast<i64>(s), lists[s]);
        forward.emplace_back(activations, static_cast<int>(s), static_cast<int>(stages));
        backward.emplace_back(gradients, static_cast<int>(s), static_cast<int>(stages));
    }
    Outcome outcome;
    outcome.before.resize(stages);
    std::vector<std::string> errors(stages);
    std::vector<std::thread> threads;
    for (std::size_t s = 0; s < stages; ++s) {
        threads.emplace_back([&, s] {
            try {
                traces[s].set_step(3);
                PipelineRun run{.work = works[s], .trace = &traces[s]};
                run.forward = stages > 1 ? &forward[s] : nullptr;
                run.backward = stages > 1 ? &backward[s] : nullptr;
                run.before = [&](const Action& action) { outcome.before[s].push_back(action); };
                execute(lists[s], run);
            } catch (const std::exception& error) {
                errors[s] = error.what();
                activations.set_failed();
                gradients.set_failed();
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (std::size_t s = 0; s < stages; ++s) {
        outcome.faults.insert(outcome.faults.end(), works[s].faults.begin(), works[s].faults.end());
        if (!errors[s].empty()) {
            outcome.faults.push_back(errors[s]);
        }
        outcome.done.push_back(works[s].done);
        outcome.activation_bytes.push_back(forward[s].bytes_by_label()[std::string(activation_label)]);
        outcome.gradient_bytes.push_back(backward[s].bytes_by_label()[std::string(gradient_label)]);
        outcome.spans.emplace_back(traces[s].spans().begin(), traces[s].spans().end());
    }
    return outcome;
}

std::vector<Action> computes(const StageSchedule& list) {
    std::vector<Action> result;
    std::copy_if(list.actions.begin(), list.actions.end(), std::back_inserter(result),
                 [](const Action& action) { return is_compute(action.kind); });
    return result;
}

void expect_right(const ScheduleSpec& spec, const std::vector<StageSchedule>& lists) {
    SCOPED_TRACE(text_of(spec));
    const Outcome outcome = run_on_threads(spec, lists);
    EXPECT_EQ(outcome.faults, std::vector<std::string>{});
    for (std::size_t s = 0; s < lists.size(); ++s) {
        EXPECT_EQ(outcome.done[s], computes(lists[s])) << "stage " << s;
        EXPECT_EQ(outcome.before[s], lists[s].actions) << "stage " << s;
        const auto count = [&](Kind kind) {
            return std::count_if(lists[s].actions.begin(), lists[s].actions.end(),
                                 [&](const Action& action) { return action.kind == kind; });
        };
        constexpr i64 bytes = OriginWork::elements * 8;
        EXPECT_EQ(outcome.activation_bytes[s], bytes * count(Kind::send_forward));
        EXPECT_EQ(outcome.gradient_bytes[s], bytes * count(Kind::send_backward));
    }
}

TEST(RunActions, EveryChunkGetsWhatItsPredecessorMade) {
    for (const ScheduleSpec& spec : all_specs(5, 7)) {
        expect_right(spec, make_stage_schedules(spec));
    }
    for (const PipelineSchedule kind : {PipelineSchedule::one_f_one_b, PipelineSchedule::zero_bubble}) {
        expect_right({kind, 8, 1, 17}, make_stage_schedules({kind, 8, 1, 17}));
    }
    const ScheduleSpec wide = {PipelineSchedule::interleaved, 8, 3, 17};
    expect_right(wide, make_stage_schedules(wide));
}

TEST(RunActions, EvaluationInOneTwoAndThreeSlots) {
    for (const ScheduleSpec& spec : all_specs(4, 6)) {
        for (const i64 slots : {1, 2, 3}) {
            expect_right(spec, make_evaluation_stage_schedules(spec, slots));
        }
    }
}

// One slot, nobody receives: the second forward pass must not start, for the slot still holds what is being sent.
TEST(RunActions, MemoryThatIsBeingSentIsNotWritten) {
    const ScheduleSpec spec = {PipelineSchedule::one_f_one_b, 2, 1, 4};
    const std::vector<StageSchedule> lists = make_evaluation_stage_schedules(spec, 1);
    FakeNetwork activations, gradients;
    FakeCommunicator forward(activations, 0, 2), backward(gradients, 0, 2);
    OriginWork first(spec, 0, lists[0]), second(spec, 1, lists[1]);
    std::atomic<bool> ended = false;
    std::atomic<i64> forwards = 0;
    std::thread sender([&] {
        PipelineRun run{.work = first, .forward = &forward, .backward = &backward};
        run.before = [&](const Action& action) { forwards += action.kind == Kind::send_forward ? 1 : 0; };
        execute(lists[0], run);
        ended = true;
    });
    while (!ended && activations.waits() == 0) {
        std::this_thread::yield();
    }
    EXPECT_FALSE(ended);
    EXPECT_EQ(forwards, 1);
    FakeCommunicator forward_in(activations, 1, 2), backward_in(gradients, 1, 2);
    execute(lists[1], {.work = second, .forward = &forward_in, .backward = &backward_in});
    sender.join();
    EXPECT_EQ(forwards, spec.micro_batches);
    EXPECT_EQ(second.faults, std::vector<std::string>{});
}

TEST(RunActions, APassWithoutItsReceiveIsAnError) {
    const ScheduleSpec spec = {PipelineSchedule::gpipe, 2, 1, 2};
    StageSchedule list = make_stage_schedule(spec, 1);
    std::erase_if(list.actions,
                  [](const Action& action) { return action.kind == Kind::receive_forward && action.micro_batch == 0; });
    FakeNetwork network;
    FakeCommunicator comm(network, 1, 2);
    OriginWork work(spec, 1, list);
    try {
        execute(list, {.work = work, .forward = &comm, .backward = &comm});
        FAIL() << "ran a pass on nothing";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::peer);
        EXPECT_NE(std::string(error.what()).find("forward of micro-batch 0"), std::string::npos) << error.what();
    }
}

TEST(RunActions, TheTraceHoldsEveryPassAndMessageOnce) {
    const ScheduleSpec spec = {PipelineSchedule::zero_bubble, 3, 1, 4};
    const std::vector<StageSchedule> lists = make_stage_schedules(spec);
    const Outcome outcome = run_on_threads(spec, lists);
    for (std::size_t s = 0; s < lists.size(); ++s) {
        const std::vector<PassSpan> passes = passes_of(outcome.spans[s], 3);
        const std::vector<Action> expected = computes(lists[s]);
        ASSERT_EQ(passes.size(), expected.size());
        for (std::size_t i = 0; i < passes.size(); ++i) {
            EXPECT_EQ(passes[i].kind, expected[i].kind);
            EXPECT_EQ(passes[i].micro_batch, expected[i].micro_batch);
            EXPECT_LE(passes[i].start, passes[i].end);
            EXPECT_TRUE(i == 0 || passes[i - 1].end <= passes[i].start);
        }
        EXPECT_TRUE(passes_of(outcome.spans[s], 4).empty());
        const auto messages =
            std::count_if(outcome.spans[s].begin(), outcome.spans[s].end(), [](const TraceSpan& span) {
                return span.category == SpanCategory::communication && span.bytes == OriginWork::elements * 8;
            });
        EXPECT_EQ(messages, static_cast<i64>(lists[s].actions.size() - expected.size()));
    }
}

}  // namespace
}  // namespace ogrom::test
