// B19: the samples that a run takes in before and after its restarts are those of the straight run, in order, nothing
// twice and nothing missing, whatever data ranks, micro-batches and what happened just before the save.
#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <sstream>

#include "src/base/file.h"
#include "src/data/token_set_writer.h"

#include "tests/equivalence/corpus.h"

namespace ogrom::test {
namespace {

constexpr i64 T = 8;
constexpr i64 global_batch = 8;
using Overrides = std::vector<std::string>;

// 1000 documents of T tokens with their end token: one sample each but for the last (its target would be beyond the
// end), 124 whole steps and 7 samples in an epoch.
void write_numbered(const std::string& prefix) {
    if (session().rank() == 0) {
        const Tokenizer tokenizer = Tokenizer::byte_level();
        TokenSetWriter writer(prefix, tokenizer, "byte");
        for (int document = 0; document < 1000; ++document) {
            std::vector<std::int32_t> ids;
            for (i64 i = 0; i + 1 < T; ++i) {
                ids.push_back((document >> (8 * (i % 2))) & 255);
            }
            writer.add(ids);
        }
        writer.finish({});
    }
    session().world().barrier("corpus").wait();
}

// (step, sample of the step) -> the number of the sample and its tokens, over all ranks.
struct Taken {
    i64 id = 0;
    std::vector<std::int32_t> tokens;
    bool operator==(const Taken&) const = default;
};
using Sequence = std::map<std::pair<i64, i64>, Taken>;

class Samples : public testing::Test {
protected:
    Samples() { write_numbered(corpus_); }

    [[nodiscard]] RunConfig run_of(const std::string& output, Overrides overrides) const {
        for (const char* common : {"model.hidden=20", "model.heads=2", "model.layers=4", "train.steps=20",
                                   "train.global_batch=8", "data.valid_fraction=0", "checkpoint.keep_last=50",
                                   "optimizer.decay_steps=200", "optimizer.warmup_steps=2"}) {
            const std::string key = std::string(common).substr(0, std::string(common).find('=') + 1);
            if (std::none_of(overrides.begin(), overrides.end(), [&](const auto& o) { return o.starts_with(key); })) {
                overrides.emplace_back(common);
            }
        }
        overrides.push_back(fmt::format("model.sequence={}", T));
        return corpus_run(corpus_, folder_.path(output), overrides);
    }

    // Trains and adds what all ranks take in to `seen`; a sample that comes twice fails the test.
    TrainSummary train(const RunConfig& run, TrainOptions options, Sequence& seen, UnitHook<double> hook = {}) const {
        std::vector<Batch> mine;
        options.observe = [&](std::span<const Batch> batches) {
            mine.insert(mine.end(), batches.begin(), batches.end());
        };
        Trainer<double> trainer(session(), run, options, std::move(hook));
        const i64 first = trainer.engine().step;
        const MeshPlace place = trainer.engine().mesh.place;
        const TrainSummary summary = trainer.run();
        // A step that is not made (the run stops there) takes its batches out of the read-ahead too.
        const std::size_t used = static_cast<std::size_t>((summary.steps - first) * run.train.accumulation);
        EXPECT_GE(mine.size(), used);
        mine.resize(used);
        std::string text;
        for (std::size_t i = 0; i < mine.size() && place.pp == 0 && place.tp == 0; ++i) {
            for (i64 row = 0; row < mine[i].B; ++row) {
                const auto at = static_cast<std::size_t>(row);
                text += fmt::format("{} {} {}", first + static_cast<i64>(i) / run.train.accumulation,
                                    mine[i].sample[at], mine[i].sample_id[at]);
                for (i64 t = 0; t < T; ++t) {
                    text += fmt::format(" {}", mine[i].tokens[static_cast<std::size_t>(row * T + t)]);
                }
                text += '\n';
            }
        }
        for (const std::string& lines : gather_text(session().world(), text, "samples")) {
            add(lines, seen);
        }
        return summary;
    }

    static void add(const std::string& lines, Sequence& seen) {
        std::istringstream in(lines);
        for (std::string line; std::getline(in, line);) {
            std::istringstream words(line);
            std::pair<i64, i64> place;
            Taken taken;
            words >> place.first >> place.second >> taken.id;
            for (std::int32_t token = 0; words >> token;) {
                taken.tokens.push_back(token);
            }
            EXPECT_TRUE(seen.emplace(place, taken).second)
                << "sample " << place.second << " of step " << place.first << " came twice";
        }
    }

    // The straight run's, from the sampler alone.
    static void expect_straight(const RunConfig& run, const Sequence& seen, i64 first, i64 last) {
        const Sampler sampler(run.data, T, run.model.vocab, SplitPart::train);
        ASSERT_EQ(static_cast<i64>(seen.size()), (last - first) * global_batch);
        for (const auto& [place, taken] : seen) {
            EXPECT_EQ(taken.id, place.first * global_batch + place.second);
            std::vector<std::int32_t> ids;
            sampler.read(taken.id, ids);
            ids.pop_back();
            EXPECT_EQ(taken.tokens, ids) << "sample " << taken.id;
        }
    }

    // Layouts of all ranks with fewer and fewer data ranks, and cuts of the same global batch.
    static std::vector<Overrides> layouts() {
        switch (session().size()) {
            case 1:
                return {{"train.micro_batch=2"}, {"train.micro_batch=8"}, {"train.micro_batch=1"}};
            case 2:
                return {{"train.micro_batch=1"},
                        {"parallel.data=1", "parallel.tensor=2", "train.micro_batch=2"},
                        {"train.micro_batch=4", "parallel.zero=1"}};
            default:
                return {{"train.micro_batch=1"},
                        {"parallel.data=2", "parallel.pipeline=2", "train.micro_batch=1"},
                        {"train.micro_batch=2", "parallel.zero=2"},
                        {"parallel.data=1", "parallel.tensor=2", "parallel.pipeline=2", "train.micro_batch=2"}};
        }
    }

    SharedFolder folder_;
    std::string corpus_ = folder_.path("numbered");
};

// Save at 7 with accumulation, then after every 5 steps: each time under the next layout.
TEST_F(Samples, B19EveryLayoutReadsOn) {
    Sequence seen;
    i64 last = 0;
    for (const Overrides& layout : layouts()) {
        const bool first = last == 0;
        const TrainOptions options{.resume = first ? ResumeChoice{} : parse_resume(""),
                                   .stop_after_steps = first ? 7 : 5};
        Overrides overrides = layout;
        overrides.emplace_back("train.steps=200");
        last = train(run_of("run", overrides), options, seen).steps;
    }
    EXPECT_EQ(last, 7 + 5 * (static_cast<i64>(layouts().size()) - 1));
    expect_straight(run_of("run", layouts().front()), seen, 0, last);
}

// The epoch has 999 samples: step 124 reads over its end. Saved before it, within the second epoch, and resumed there.
TEST_F(Samples, B19ResumesInTheSecondEpoch) {
    Sequence seen;
    const Overrides steps = {"train.steps=140", "model.layers=1", "train.micro_batch=2"};
    EXPECT_EQ(train(run_of("run", steps), {.stop_after_steps = 123}, seen).steps, 123);
    EXPECT_EQ(train(run_of("run", steps), {.resume = parse_resume(""), .stop_after_steps = 6}, seen).steps, 129);
    EXPECT_EQ(train(run_of("run", steps), {.resume = parse_resume("")}, seen).steps, 140);
    expect_straight(run_of("run", steps), seen, 0, 140);
}

// A step that updates nothing still used its samples; an evaluation reads others; both stand just before the save.
TEST_F(Samples, B19AfterASkippedStepAndAnEvaluation) {
    const Overrides overrides = {"numerics.on_nonfinite=skip", "train.eval_interval_steps=6", "train.eval_samples=8",
                                 "data.valid_fraction=0.1",    "train.micro_batch=1",         "train.steps=16"};
    const RunConfig run = run_of("run", overrides);
    i64 calls = 0;
    const UnitHook<double> spoil = [&](i64, FlatRange range, double* values) {
        // The first unit that is ready in step 7 (steps of this rank count by its last micro-batch's calls).
        if (range.first == 0 && calls++ / run.train.accumulation == 6) {
            values[0] = std::numeric_limits<double>::quiet_NaN();
        }
    };
    Sequence seen;
    const TrainSummary first = train(run, {.stop_after_steps = 7}, seen, spoil);
    EXPECT_EQ(first.steps, 7);
    EXPECT_EQ(first.skipped, 1);
    EXPECT_EQ(train(run, {.resume = parse_resume("")}, seen).steps, 16);
    expect_straight(run, seen, 0, 16);
}

std::string refusal(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ExitCode::usage || error.code() == ExitCode::checkpoint);
        return error.what();
    }
    ADD_FAILURE() << "the run went on";
    return {};
}

// Another global batch or seed needs a permission; then the position is the count of samples, not of steps.
TEST_F(Samples, B19AnotherBatchOrSeedReadsOnByPermissionAlone) {
    const Overrides small = {"train.micro_batch=1"};
    Sequence seen, after;
    train(run_of("run", small), {.stop_after_steps = 7}, seen);
    const TrainOptions resume{.resume = parse_resume(""), .stop_after_steps = 3};
    for (const char* change : {"train.global_batch=16", "data.seed=99"}) {
        const std::string said = refusal([&] { train(run_of("run", {"train.micro_batch=1", change}), resume, after); });
        EXPECT_NE(said.find(std::string(change).substr(0, std::string(change).find('='))), std::string::npos) << said;
        EXPECT_NE(said.find("checkpoint.allow_changed"), std::string::npos) << said;
    }
    ASSERT_TRUE(after.empty());
    const RunConfig large = run_of(
        "run", {"train.micro_batch=1", "train.global_batch=16", "checkpoint.allow_changed=[\"train.global_batch\"]"});
    EXPECT_EQ(train(large, resume, after).steps, 10);
    EXPECT_EQ(train(large, resume, after).steps, 13) << "and its own checkpoint says where it is";
    ASSERT_EQ(after.size(), 6U * 16U);
    i64 expected = 7 * global_batch;
    for (const auto& [place, taken] : after) {
        EXPECT_EQ(taken.id, expected++);
    }
    const RunConfig other = run_of("run", {"train.micro_batch=1", "train.global_batch=16", "data.seed=99",
                                           "checkpoint.allow_changed=[\"train.global_batch\", \"data.seed\"]"});
    Sequence shuffled;
    EXPECT_EQ(train(other, resume, shuffled).steps, 16);
    const Sampler sampler(other.data, T, other.model.vocab, SplitPart::train);
    for (const auto& [place, taken] : shuffled) {
        EXPECT_EQ(taken.id, expected++);
        std::vector<std::int32_t> ids;
        sampler.read(taken.id, ids);
        ids.pop_back();
        EXPECT_EQ(taken.tokens, ids) << "the order of the new seed";
    }
}

}  // namespace
}  // namespace ogrom::test
