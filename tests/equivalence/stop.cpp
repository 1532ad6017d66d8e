// A stop is agreed at one micro-batch on all ranks, and a step or an evaluation
// that is left has changed nothing.
#include <gtest/gtest.h>

#include "src/train/evaluate.h"

#include "tests/equivalence/corpus.h"

namespace ogrom::test {
namespace {

// Wishes to stop on the last rank alone, from its `from`-th vote on.
struct LateWish {
    int from = 0, asked = 0;
    std::function<bool()> ask() {
        return [this] { return ++asked >= from && session().rank() == session().size() - 1; };
    }
};

std::vector<double> copy_of(std::span<double> values) {
    return {values.begin(), values.end()};
}

TEST(Stop, IsHeardByAllRanksOneVoteLaterAndStays) {
    LateWish wish{3};
    StopVote vote(session().world(), wish.ask());
    for (int call = 1; call <= 6; ++call) {
        EXPECT_EQ(vote.heard(), call > 3) << "call " << call << " on rank " << session().rank();
    }
    EXPECT_EQ(wish.asked, 3);
}

TEST(Stop, WithinAStepLeavesTheWeightsOfTheLastOne) {
    Communicator& dp = session().world();
    const RunConfig run = tiny_run(dp.size(), {1, 5});
    const auto step = [&](Engine<double>& engine, StopVote* vote) {
        const std::vector<Batch> batches = make_batches(run, dp.rank(), engine.step);
        return train_step<double>(engine, batches, agree_control(engine.mesh, batches, Wish::go_on).targets, vote);
    };
    const std::shared_ptr<Engine<double>> engine = make_engine<double>(dp, run);
    step(*engine, nullptr);
    const std::vector<double> weights = copy_of(weights_of(*engine)), moments = copy_of(engine->state.moment2.data());

    LateWish wish{2};
    StopVote vote(dp, wish.ask());
    EXPECT_TRUE(step(*engine, &vote).stopped);
    EXPECT_EQ(wish.asked, 2) << "left at the third micro-batch on every rank";
    EXPECT_EQ(engine->step, 1);
    EXPECT_EQ(copy_of(weights_of(*engine)), weights);
    EXPECT_EQ(copy_of(engine->state.moment2.data()), moments);

    const StepResult again = step(*engine, nullptr);
    const std::shared_ptr<Engine<double>> straight = make_engine<double>(dp, run);
    step(*straight, nullptr);
    const StepResult second = step(*straight, nullptr);
    EXPECT_EQ(again.loss, second.loss);
    EXPECT_EQ(again.norm, second.norm);
    EXPECT_EQ(copy_of(weights_of(*engine)), copy_of(weights_of(*straight)));
}

TEST(Stop, VotesChangeNoBitOfAStep) {
    Communicator& dp = session().world();
    const RunConfig run = tiny_run(dp.size(), {2, 3});
    const auto weights_after = [&](StopVote* vote) {
        const std::shared_ptr<Engine<double>> engine = make_engine<double>(dp, run);
        for (i64 step = 0; step < 3; ++step) {
            const std::vector<Batch> batches = make_batches(run, dp.rank(), step);
            train_step<double>(*engine, batches, agree_control(engine->mesh, batches, Wish::go_on).targets, vote);
        }
        return copy_of(weights_of(*engine));
    };
    StopVote vote(dp, [] { return false; });
    EXPECT_EQ(weights_after(&vote), weights_after(nullptr));
}

TEST(Stop, WithinAnEvaluation) {
    const SharedFolder folder;
    const std::string corpus = folder.path("corpus");
    write_corpus(corpus);
    const RunConfig run = corpus_run(corpus, folder.path("run"), {});
    Communicator& dp = session().world();
    const Sampler samples(run.data, run.train.sequence, run.model.vocab, SplitPart::train);
    const std::shared_ptr<Engine<double>> engine = make_engine<double>(dp, run);
    // An odd number: the ranks' parts differ by a sample, the number of votes
    // must not.
    const i64 wanted = 3 * dp.size() * run.train.micro_batch + 1;
    ASSERT_LE(wanted, samples.samples_per_epoch());
    StopVote never(dp, [] { return false; });
    const std::optional<Evaluation> whole = evaluate<double>(*engine, samples, wanted, never);
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->samples, wanted);
    LateWish wish{2};
    StopVote vote(dp, wish.ask());
    EXPECT_FALSE(evaluate<double>(*engine, samples, wanted, vote));
    EXPECT_EQ(wish.asked, 2);
}

}  // namespace
}  // namespace ogrom::test
