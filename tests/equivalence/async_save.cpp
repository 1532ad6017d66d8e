// A run whose saves are written behind its steps is the run whose saves are waited for: the same weights, the same
// checkpoints bit for bit, each of the state at its own step however long it took to write.
#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/base/file.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/manifest.h"

#include "tests/equivalence/corpus.h"

namespace ogrom::test {
namespace {

using Overrides = std::vector<std::string>;

// Name, bytes and hashes of the files that hold tensors. (The master has the run file and its keys in it.)
std::vector<FileRecord> parts_of(const RunConfig& run, i64 step) {
    std::vector<FileRecord> files = read_manifest(join_path(checkpoints_of(run), step_name(step))).files;
    std::erase_if(files, [](const FileRecord& record) { return record.file == master_name; });
    return files;
}

// A pace at which the moments of the tiny model are written long after the weights: the steps in between change both.
const Overrides slow = {"checkpoint.async=true", "checkpoint.write_mb_per_s=0.05", "checkpoint.keep_last=100"};

Overrides joined(Overrides all, const Overrides& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

template <class T>
void expect_async_equals_waited_for(const Overrides& overrides, i64 interval) {
    const SharedFolder folder;
    const std::string corpus = folder.path("corpus");
    write_corpus(corpus);
    const Overrides common = joined(overrides, {fmt::format("checkpoint.interval_steps={}", interval)});
    const RunConfig waited = corpus_run(corpus, folder.path("waited"), joined(common, {"checkpoint.keep_last=100"}));
    const RunConfig async = corpus_run(corpus, folder.path("async"), joined(common, slow));
    const TrainSummary a = run_trainer<T>(waited, {}), b = run_trainer<T>(async, {});
    EXPECT_EQ(a.weight_hash, b.weight_hash);
    EXPECT_EQ(std::bit_cast<u64>(a.loss), std::bit_cast<u64>(b.loss));
    if (session().rank() == 0) {
        i64 compared = 0;
        for (i64 step = interval; step <= 12; step += interval, ++compared) {
            EXPECT_EQ(parts_of(async, step), parts_of(waited, step)) << "step " << step;
        }
        EXPECT_EQ(compared, 12 / interval);
    }
    session().world().barrier("compared").wait();
    // The weights of each are those of its hash: a load compares.
    EXPECT_EQ(run_trainer<T>(async, {.resume = parse_resume("")}).weight_hash, a.weight_hash);
}

struct Layout {
    const char* name;
    int ranks;
    Overrides overrides;
};

TEST(AsyncSave, EqualsASaveThatIsWaitedForUnderEveryLayout) {
    const std::vector<Layout> layouts = {
        {"alone", 1, {}},
        {"zero3", 2, {"parallel.data=2", "parallel.zero=3"}},
        {"pipeline", 2, {"parallel.pipeline=2", "train.micro_batch=3"}},
        {"replicas", 4, {"parallel.data=4", "parallel.zero=1", "parallel.zero_group=2"}},
        {"mixed", 4, {"parallel.pipeline=2", "parallel.data=2", "parallel.zero=2"}},
    };
    for (const Layout& layout : layouts) {
        if (layout.ranks == session().size()) {
            SCOPED_TRACE(layout.name);
            expect_async_equals_waited_for<double>(layout.overrides, 3);
        }
    }
}

// Every save falls due while the one before is under way.
TEST(AsyncSave, AfterEveryStep) {
    expect_async_equals_waited_for<float>({"numerics.compute=fp32", "train.eval_interval_steps=4"}, 1);
}

// Training goes on between the begin of a save and its end: the first checkpoint has no name yet when steps after it
// are done, and at the stop it is finished before the last one.
TEST(AsyncSave, StepsGoOnMeanwhileAndAStopFinishesBoth) {
    const SharedFolder folder;
    const std::string corpus = folder.path("corpus");
    write_corpus(corpus);
    const RunConfig run = corpus_run(corpus, folder.path("run"), joined({"checkpoint.interval_steps=4"}, slow));
    i64 steps = 0, unnamed = 0;
    const auto look = [&](std::span<const Batch>) {
        ++steps;  // this one is step `steps`
        unnamed += steps > 5 && !file_exists(join_path(checkpoints_of(run), step_name(4))) ? 1 : 0;
    };
    TrainOptions options;
    options.stop_after_steps = 7;
    options.observe = look;
    const TrainSummary summary = run_trainer<double>(run, options);
    EXPECT_EQ(summary.code, ExitCode::saved_for_requeue);
    EXPECT_EQ(summary.steps, 7);
    EXPECT_GE(unnamed, 2) << "steps 6 and 7 were begun with the save of step 4 under way";
    std::vector<std::string> passed;
    EXPECT_EQ(complete_checkpoints(checkpoints_of(run), passed).size(), 2u);
    EXPECT_TRUE(passed.empty());
    EXPECT_TRUE(summary.checkpoint.ends_with(step_name(7))) << summary.checkpoint;
}

}  // namespace
}  // namespace ogrom::test
