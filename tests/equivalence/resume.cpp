// A resumed run equals the straight run bit for bit; a non-finite step is
// skipped or stops the run on all ranks alike.
#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>

#include "src/base/file.h"
#include "src/optim/learning_rate.h"

#include "tests/equivalence/corpus.h"

namespace ogrom::test {
namespace {

using Overrides = std::vector<std::string>;

std::vector<StepMetrics> rows_of(const RunConfig& run) {
    return read_metrics_csv(join_path(run.run.output, "metrics.csv"));
}

void expect_equal_rows(const std::vector<StepMetrics>& b, const std::vector<StepMetrics>& a, i64 steps) {
    ASSERT_EQ(static_cast<i64>(a.size()), steps);
    ASSERT_EQ(b.size(), a.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(b[i].step, static_cast<i64>(i) + 1) << "no step repeated or missed";
        EXPECT_EQ(b[i].loss, a[i].loss) << "step " << a[i].step;
        EXPECT_EQ(b[i].gradient_norm, a[i].gradient_norm) << "step " << a[i].step;
        EXPECT_EQ(b[i].lr, a[i].lr) << "step " << a[i].step;  // B13
    }
}

template <class T>
void expect_resumed_equals_straight(const Overrides& overrides) {
    const SharedFolder folder;
    const std::string corpus = folder.path("corpus");
    write_corpus(corpus);
    const RunConfig straight = corpus_run(corpus, folder.path("straight"), overrides);
    const RunConfig cut = corpus_run(corpus, folder.path("cut"), overrides);

    const TrainSummary whole = run_trainer<T>(straight, {});
    const TrainSummary first = run_trainer<T>(cut, {.stop_after_steps = 5});
    EXPECT_EQ(first.code, ExitCode::saved_for_requeue);
    EXPECT_EQ(first.steps, 5);
    const TrainSummary second = run_trainer<T>(cut, {.resume = parse_resume(""), .stop_after_steps = 3});
    EXPECT_EQ(second.steps, 8);
    const TrainSummary third = run_trainer<T>(cut, {.resume = parse_resume("auto")});

    EXPECT_EQ(third.code, ExitCode::done);
    EXPECT_EQ(third.steps, 12);
    EXPECT_EQ(third.weight_hash, whole.weight_hash);
    EXPECT_EQ(std::bit_cast<u64>(third.loss), std::bit_cast<u64>(whole.loss));
    ASSERT_TRUE(third.valid && whole.valid);
    EXPECT_EQ(std::bit_cast<u64>(third.valid->loss), std::bit_cast<u64>(whole.valid->loss));
    if (session().rank() != 0) {
        return;
    }
    expect_equal_rows(rows_of(cut), rows_of(straight), 12);
    EXPECT_LT(whole.loss, rows_of(straight)[0].loss) << "it learns";
}

TEST(Resume, EqualsTheStraightRunInSingle) {
    expect_resumed_equals_straight<float>({"numerics.compute=fp32", "train.eval_interval_steps=4"});
}
TEST(Resume, EqualsTheStraightRunInDouble) {
    expect_resumed_equals_straight<double>({"checkpoint.interval_steps=4"});
}
TEST(Resume, SgdWithMomentumToo) {
    expect_resumed_equals_straight<double>({"optimizer.kind=sgd", "optimizer.momentum=0.9", "optimizer.lr=0.1"});
}

// A save in the middle changes nothing under a layout of several ranks, bit for bit.
void expect_equal_after(i64 cut_at, i64 steps, Overrides overrides) {
    const SharedFolder folder;
    const std::string corpus = folder.path("corpus");
    write_corpus(corpus);
    overrides.push_back(fmt::format("train.steps={}", steps));
    const RunConfig straight = corpus_run(corpus, folder.path("straight"), overrides);
    const RunConfig cut = corpus_run(corpus, folder.path("cut"), overrides);
    const u64 whole = run_trainer<double>(straight, {}).weight_hash;
    EXPECT_EQ(run_trainer<double>(cut, {.stop_after_steps = cut_at}).steps, cut_at);
    EXPECT_EQ(run_trainer<double>(cut, {.resume = parse_resume("")}).weight_hash, whole);
    if (session().rank() == 0) {
        expect_equal_rows(rows_of(cut), rows_of(straight), steps);
    }
}

// B10: masks come from seed, step and global index, so a restart draws those of the straight run on every rank: tensor
// ranks (with data ranks beside them) under residual and attention dropout.
TEST(Resume, B10MasksAreThoseOfTheStraightRun) {
    if (session().size() % 2 == 0) {
        expect_equal_after(
            3, 6, {"parallel.tensor=2", "model.heads=6", "train.micro_batch=2", "parallel.sequence_parallel=false"});
    } else {
        expect_equal_after(3, 6, {"train.recompute=full"});
    }
}

// B01: an update that reached one copy of a tied table alone shows in the copies, which are compared before a save, or
// in the first loss after the load, which fills both from one. (Copies after every step: layout_trial and restart.cpp.)
// Untied tables have no copy.
TEST(Resume, B01TiedTablesStayEqualOverStages) {
    const int ranks = session().size();
    for (const char* tied : {"true", "false"}) {
        Overrides overrides = {"model.layers=4", "optimizer.weight_decay=0.1", "data.valid_fraction=0",
                               fmt::format("model.tied={}", tied)};
        if (ranks > 1) {
            overrides.push_back(fmt::format("parallel.pipeline={}", ranks));
        }
        expect_equal_after(10, 20, overrides);
    }
}

RunConfig schedule_run(const SharedFolder& folder, const std::string& output, Overrides overrides) {
    for (const char* common :
         {"model.hidden=12", "model.heads=2", "model.layers=1", "model.sequence=8", "train.steps=1000",
          "train.global_batch=4", "train.micro_batch=4", "optimizer.warmup_steps=100", "data.valid_fraction=0"}) {
        const std::string key = std::string(common).substr(0, std::string(common).find('=') + 1);
        if (std::none_of(overrides.begin(), overrides.end(), [&](const auto& o) { return o.starts_with(key); })) {
            overrides.emplace_back(common);
        }
    }
    return corpus_run(folder.path("corpus"), folder.path(output), overrides);
}

// B13: saved inside the warm-up, at its end and on the way down: the rate of every later step has the straight run's
// bits. One rank: the schedule knows none.
TEST(Resume, B13TheScheduleGoesOn) {
    if (session().size() > 1) {
        return;
    }
    const SharedFolder folder;
    write_corpus(folder.path("corpus"));
    const RunConfig straight =
        schedule_run(folder, "straight", {"checkpoint.interval_steps=50", "checkpoint.keep_last=20"});
    run_trainer<double>(straight, {});
    const std::vector<StepMetrics> a = rows_of(straight);
    ASSERT_EQ(a.size(), 1000U);
    const auto saved = [&](i64 step) {
        return parse_resume(fmt::format("{}/checkpoints/step-{:08}", straight.run.output, step));
    };
    // Rows of a run that goes on elsewhere begin after the checkpoint.
    const auto expect_tail = [&](const RunConfig& run, i64 first, i64 last, const auto& rate) {
        const std::vector<StepMetrics> b = rows_of(run);
        ASSERT_EQ(static_cast<i64>(b.size()), last - first);
        for (std::size_t i = 0; i < b.size(); ++i) {
            ASSERT_EQ(b[i].step, first + static_cast<i64>(i) + 1) << "no step repeated or missed";
            ASSERT_EQ(b[i].lr, rate(b[i].step)) << "step " << b[i].step << " after a save at " << first;
        }
    };
    const auto straight_rate = [&](i64 step) { return a[static_cast<std::size_t>(step - 1)].lr; };
    for (const i64 step : {50, 100, 500}) {
        const RunConfig run = schedule_run(folder, fmt::format("from{}", step), {});
        EXPECT_EQ(run_trainer<double>(run, {.resume = saved(step)}).steps, 1000);
        expect_tail(run, step, 1000, straight_rate);
        EXPECT_EQ(rows_of(run).back().loss, a.back().loss);
    }
    // Another length: by permission alone, and then the schedule of that length.
    const Overrides longer = {"train.steps=2000"};
    EXPECT_THROW(run_trainer<double>(schedule_run(folder, "refused", longer), {.resume = saved(500)}), Error);
    const RunConfig allowed = schedule_run(
        folder, "longer", {longer[0], "checkpoint.allow_changed=[\"train.steps\", \"optimizer.decay_steps\"]"});
    run_trainer<double>(allowed, {.resume = saved(500), .stop_after_steps = 5});
    expect_tail(allowed, 500, 505, [&](i64 step) { return learning_rate(allowed.optimizer, 2000, step - 1); });
    // Another batch: steps are optimizer steps, whatever they read.
    const RunConfig batch =
        schedule_run(folder, "batch", {"train.global_batch=8", "checkpoint.allow_changed=[\"train.global_batch\"]"});
    run_trainer<double>(batch, {.resume = saved(500), .stop_after_steps = 5});
    expect_tail(batch, 500, 505, straight_rate);
}

// Spoils an element of a parameter in the own gradient of one rank, in the
// steps from `first` to `last` (from 0).
UnitHook<double> poison(int rank, i64 element, i64 micro_batches, i64 first, i64 last, double value) {
    if (session().rank() != rank) {
        return {};
    }
    const auto calls = std::make_shared<i64>(0);  // once a micro-batch
    return [=](i64, FlatRange range, double* values) {
        if (element < range.first || element >= range.last) {
            return;
        }
        const i64 step = (*calls)++ / micro_batches;
        if (step >= first && step <= last) {
            values[element - range.first] = value;
        }
    };
}
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

struct Spoiled {
    SharedFolder folder;
    std::string corpus = folder.path("corpus");
    int rank = session().size() - 1;
    i64 element = 0;
    static constexpr const char* parameter = "block.1.mlp.up.weight";

    i64 micro_batches = 1;

    Spoiled() {
        write_corpus(corpus);
        const RunConfig run = corpus_run(corpus, folder.path("layout"), {});
        element = TinyLayout(run).layout.tensor(parameter).offset + 5;
        micro_batches = run.train.accumulation;
    }
    [[nodiscard]] UnitHook<double> poison_at(i64 step) const {
        return poison(rank, element, micro_batches, step, step, not_a_number);
    }
};

TEST(NonFinite, ASkippedStepChangesNothingAndIsNamed) {
    Spoiled spoiled;
    const RunConfig run = corpus_run(spoiled.corpus, spoiled.folder.path("skip"), {"numerics.on_nonfinite=skip"});
    Trainer<double> trainer(session(), run, {}, spoiled.poison_at(3));
    // The weights before and after the spoilt step, by the hash after 3 and after
    // 4 steps of runs that stop there.
    const RunConfig three = corpus_run(spoiled.corpus, spoiled.folder.path("three"), {"numerics.on_nonfinite=skip"});
    const RunConfig four = corpus_run(spoiled.corpus, spoiled.folder.path("four"), {"numerics.on_nonfinite=skip"});
    const u64 before = run_trainer<double>(three, {.stop_after_steps = 3}).weight_hash;
    const TrainSummary spoilt = run_trainer<double>(four, {.stop_after_steps = 4}, spoiled.poison_at(3));
    EXPECT_EQ(spoilt.weight_hash, before);
    EXPECT_EQ(spoilt.steps, 4);
    EXPECT_EQ(spoilt.skipped, 1);
    const TrainSummary whole = trainer.run();
    EXPECT_EQ(whole.steps, 12);
    EXPECT_EQ(whole.skipped, 1);
    EXPECT_EQ(trainer.engine().updates(), 11) << "the bias corrections do not count a skipped step";
    if (session().rank() == 0) {
        const std::string events = read_file(join_path(run.run.output, "events.jsonl"), 1 << 20);
        EXPECT_NE(events.find(fmt::format("step 4: not finite")), std::string::npos) << events;
        EXPECT_NE(events.find(fmt::format("gradient of {} on rank {}", Spoiled::parameter, spoiled.rank)),
                  std::string::npos)
            << events;
        const std::vector<StepMetrics> rows = rows_of(run);
        ASSERT_EQ(rows.size(), 12u);
        EXPECT_TRUE(rows[3].skipped);
        EXPECT_FALSE(rows[4].skipped);
    }
    // The count of updates survives a resume: straight and resumed spoilt runs
    // agree.
    const TrainSummary resumed = run_trainer<double>(four, {.resume = parse_resume("")});
    EXPECT_EQ(resumed.weight_hash, whole.weight_hash);
}

std::string stop_message(const RunConfig& run, UnitHook<double> hook) {
    try {
        run_trainer<double>(run, {}, std::move(hook));
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::numerics);
        return error.what();
    }
    ADD_FAILURE() << "the run went on";
    return {};
}

TEST(NonFinite, StopEndsEveryRankAlike) {
    Spoiled spoiled;
    const RunConfig run = corpus_run(spoiled.corpus, spoiled.folder.path("stop"), {});
    const std::string message = stop_message(run, spoiled.poison_at(2));
    EXPECT_NE(message.find("step 3: not finite"), std::string::npos) << message;
    EXPECT_NE(message.find(Spoiled::parameter), std::string::npos) << message;
    EXPECT_NE(message.find(fmt::format("on rank {}", spoiled.rank)), std::string::npos) << message;
}

TEST(NonFinite, TooManySkipsInARowStop) {
    Spoiled spoiled;
    const RunConfig run = corpus_run(spoiled.corpus, spoiled.folder.path("skips"),
                                     {"numerics.on_nonfinite=skip", "numerics.max_skipped_steps=2"});
    const UnitHook<double> always = poison(spoiled.rank, spoiled.element, spoiled.micro_batches, 1, 1'000'000,
                                           std::numeric_limits<double>::infinity());
    const std::string message = stop_message(run, always);
    EXPECT_NE(message.find("step 4"), std::string::npos) << message;
    EXPECT_NE(message.find("3 steps in a row"), std::string::npos) << message;
}

// B55: after the first evaluations and saves nothing grows.
TEST(Memory, ResidentDoesNotGrowAfterWarmUp) {
    const SharedFolder folder;
    const std::string corpus = folder.path("corpus");
    write_corpus(corpus);
    const RunConfig run = corpus_run(corpus, folder.path("long"),
                                     {"train.steps=80", "train.eval_interval_steps=2", "checkpoint.interval_steps=4",
                                      "checkpoint.keep_last=2", "numerics.compute=fp32"});
    run_trainer<float>(run, {});
    if (session().rank() == 0) {
        const std::vector<StepMetrics> rows = rows_of(run);
        ASSERT_EQ(rows.size(), 80u);
        // memory_bytes is the peak so far; metrics.h5 is rebuilt from all rows, 200
        // bytes each.
        EXPECT_LE(rows.back().memory_bytes - rows[30].memory_bytes, 1 << 20);
        EXPECT_GT(rows[30].memory_bytes, 1 << 20);
    }
}

}  // namespace
}  // namespace ogrom::test
