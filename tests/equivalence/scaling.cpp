// The loss scale of fp16, over engines of the CPU's types: a factor that is taken off again leaves the bits, an
// overflow on one rank is skipped on all, and the factor is run state.
#include <gtest/gtest.h>
#include <limits>

#include "src/base/file.h"

#include "tests/equivalence/corpus.h"

namespace ogrom::test {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

LossScaling scaling_of(i64 initial, i64 window) {
    return LossScaling({.weights = Dtype::fp16, .loss_scale_initial = initial, .loss_scale_window = window});
}

bool on_last_rank() {
    return session().rank() == session().size() - 1;
}

template <class T>
StepResult step_of(Engine<T>& engine) {
    const std::vector<Batch> batches = make_batches(engine.run, engine.mesh.place.dp, engine.step);
    return train_step<T>(engine, batches, agree_control(engine.mesh, batches, Wish::go_on).targets);
}

// ZeRO stages over all ranks, and two of them as a pipeline.
std::vector<std::vector<std::string>> layouts() {
    std::vector<std::vector<std::string>> all = {{}};
    for (const char* zero : {"1", "2", "3"}) {
        if (session().size() > 1) {
            all.push_back({std::string("parallel.zero=") + zero});
        }
    }
    if (session().size() == 2) {
        all.push_back({"parallel.pipeline=2"});
        all.push_back({"parallel.pipeline=2", "parallel.schedule=zb-h1"});
    }
    return all;
}

template <class T>
void expect_equal_bits(const std::vector<std::string>& overrides, const LossScaling& scaling) {
    const RunConfig run = tiny_run(session().size(), {1, 2}, overrides);
    const std::shared_ptr<Engine<T>> plain = make_engine<T>(session().world(), run),
                                     scaled = make_engine<T>(session().world(), run);
    scaled->scaling = scaling;
    for (int i = 0; i < 5; ++i) {
        const StepResult want = step_of(*plain), got = step_of(*scaled);
        EXPECT_EQ(got.loss, want.loss) << i;
        EXPECT_EQ(got.norm, want.norm) << i;
        EXPECT_EQ(got.clip, want.clip) << i;
        EXPECT_LT(got.clip, 1) << "the factor of the clip is seen";
        EXPECT_EQ(want.loss_scale, 1);
        EXPECT_GT(got.loss_scale, 1);
    }
    EXPECT_EQ(scaled->model_hash(), plain->model_hash());
}

TEST(Scaling, AFactorThatIsTakenOffAgainLeavesTheBits) {
    for (std::vector<std::string> overrides : layouts()) {
        SCOPED_TRACE(overrides.empty() ? "zero 0" : overrides.back());
        overrides.emplace_back("optimizer.clip_norm=0.05");
        expect_equal_bits<double>(overrides, scaling_of(65536, 2));
        overrides.emplace_back("numerics.compute=fp32");
        expect_equal_bits<float>(overrides, scaling_of(256, 3));
    }
}

// Inf in one rank's own gradient of one step: every rank leaves that step out and halves, and all goes on as if the
// step had not been; the run stops for a non-finite number (numerics.on_nonfinite), and this is none.
TEST(Scaling, AnOverflowOnOneRankIsSkippedOnAll) {
    for (const std::vector<std::string>& overrides : layouts()) {
        SCOPED_TRACE(overrides.empty() ? "zero 0" : overrides.back());
        const RunConfig run = tiny_run(session().size(), {1, 2}, overrides);
        const std::shared_ptr<Engine<double>> engine = make_engine<double>(session().world(), run);
        engine->scaling = scaling_of(1024, 2);
        bool spoil = false;
        engine->units.set_hook([&spoil](i64, FlatRange, double* values) {
            if (spoil && on_last_rank()) {
                values[0] = infinite;
            }
        });
        EXPECT_FALSE(step_of(*engine).skipped);
        const u64 before = engine->model_hash();
        spoil = true;
        for (const double factor : {1024.0, 512.0}) {
            const StepResult result = step_of(*engine);
            EXPECT_TRUE(result.skipped);
            EXPECT_TRUE(result.overflow);
            EXPECT_FALSE(result.nonfinite.found);
            EXPECT_EQ(result.loss_scale, factor);
        }
        EXPECT_EQ(engine->model_hash(), before);
        EXPECT_EQ(engine->scaling.factor(), 256);
        EXPECT_EQ(engine->skipped, 2);
        EXPECT_EQ(engine->updates(), 1);
        EXPECT_EQ(engine->consecutive_skips, 0);
        spoil = false;
        for (const double factor : {256.0, 256.0, 512.0}) {
            const StepResult result = step_of(*engine);
            EXPECT_FALSE(result.skipped);
            EXPECT_EQ(result.loss_scale, factor);
        }
        EXPECT_NE(engine->model_hash(), before);
    }
}

TEST(Scaling, AtTheSmallestFactorItIsAFault) {
    const RunConfig run = tiny_run(session().size(), {1, 2});
    const std::shared_ptr<Engine<double>> engine = make_engine<double>(session().world(), run);
    engine->scaling = scaling_of(2, 100);
    engine->units.set_hook([](i64 unit, FlatRange, double* values) {
        if (unit == 2 && on_last_rank()) {
            values[1] = infinite;
        }
    });
    EXPECT_TRUE(step_of(*engine).overflow);
    const StepResult result = step_of(*engine);
    EXPECT_TRUE(result.skipped);
    EXPECT_FALSE(result.overflow);
    EXPECT_EQ(result.nonfinite.parameter, "block.1.norm1.weight");
    EXPECT_EQ(result.nonfinite.rank, session().size() - 1);
    EXPECT_EQ(engine->consecutive_skips, 1);
}

// Through the trainer: in metrics, events and the checkpoint.
TEST(Scaling, IsWrittenDown) {
    const SharedFolder folder;
    write_corpus(folder.path("corpus"));
    const RunConfig run = corpus_run(folder.path("corpus"), folder.path("run"), {});
    i64 calls = 0;  // of the first unit in backward, once a micro-batch
    const UnitHook<double> hook = [&](i64 unit, FlatRange, double* values) {
        if (unit == 0 && calls++ / run.train.accumulation == 3 && on_last_rank()) {
            values[0] = infinite;
        }
    };
    Trainer<double> trainer(session(), run, {}, hook);
    trainer.engine().scaling = scaling_of(4096, 5);
    const TrainSummary summary = trainer.run();
    EXPECT_EQ(summary.steps, 12);
    EXPECT_EQ(summary.skipped, 1);
    if (session().rank() != 0) {
        return;
    }
    const std::vector<StepMetrics> rows = read_metrics_csv(join_path(run.run.output, "metrics.csv"));
    ASSERT_EQ(rows.size(), 12U);
    for (const StepMetrics& row : rows) {
        EXPECT_EQ(row.skipped, row.step == 4);
        EXPECT_EQ(row.loss_scale, row.step <= 4 || row.step > 9 ? 4096 : 2048) << row.step;
    }
    const std::string events = read_file(join_path(run.run.output, "events.jsonl"), 1 << 20);
    EXPECT_NE(events.find("step 4: overflow in fp16 with the loss scale 4096, 2048 from now on"), std::string::npos);
    const CheckpointHeader header = read_header(summary.checkpoint);
    LossScaling resumed = scaling_of(65536, 5);
    resumed.load(header.extra);
    EXPECT_EQ(resumed.factor(), trainer.engine().scaling.factor());
    EXPECT_EQ(header.extra.at("loss_scale_good_steps"), "3");
}

}  // namespace
}  // namespace ogrom::test
