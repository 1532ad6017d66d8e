// The schedule of one stage, and its execution on a real one.
#include "src/pipeline/execute.h"

#include <gtest/gtest.h>

#include "kernels/common/error.h"

#include "tests/unit/model/tiny.h"

namespace ogrom::test {
namespace {

TEST(Schedule, OneStageAlternatesInOneSlot) {
    const ActionList actions = make_schedule(1, 0, 3);
    ASSERT_EQ(actions.size(), 6U);
    for (std::size_t i = 0; i < actions.size(); ++i) {
        EXPECT_EQ(actions[i].kind, i % 2 == 0 ? ActionKind::forward : ActionKind::backward);
        EXPECT_EQ(actions[i].micro_batch, static_cast<i64>(i / 2));
        EXPECT_EQ(actions[i].slot, 0);
        EXPECT_EQ(actions[i].chunk, 0);
    }
    EXPECT_THROW(make_schedule(2, 0, 3), Error);
    EXPECT_THROW(make_schedule(1, 0, 0), Error);
}

TEST(Execute, RunsEveryMicroBatchInOrderAndNamesTheLast) {
    const ModelConfig model = tiny_config();
    TinyModel<double> tiny(model, {.micro_batch = 2, .sequence = 11, .logits_rows = 7, .threads = 2});
    const std::vector<Batch> batches = {make_batch(model, 0, 2, 11, 4), make_batch(model, 2, 1, 11, 4),
                                        make_batch(model, 3, 2, 7, 4)};
    const double loss = tiny.step(batches, 0.05);
    const std::vector<double> gradient = tiny.gradient_copy();
    std::fill(tiny.gradients.begin(), tiny.gradients.end(), 0.0);
    std::vector<std::pair<i64, bool>> calls;
    const Stage<double>::StepInfo info{.loss_scale = 0.05, .seed = 5};
    const double executed = execute<double>({}, *tiny.stage, make_schedule(1, 0, 3), batches, info,
                                            [&](i64 m, bool last) { calls.emplace_back(m, last); });
    EXPECT_EQ(executed, loss);
    EXPECT_EQ(tiny.gradient_copy(), gradient);
    EXPECT_EQ(calls, (std::vector<std::pair<i64, bool>>{{0, false}, {1, false}, {2, true}}));
    EXPECT_THROW(execute<double>({}, *tiny.stage, make_schedule(1, 0, 4), batches, info, {}), Error);
}

}  // namespace
}  // namespace ogrom::test
