// Field cases B49 (divisibility), B50 (batch and ranks) and B53 (schedule in optimizer steps).
#include <gtest/gtest.h>

#include "tests/unit/config/case.h"

namespace ogrom {
namespace {

std::string without_batch() {
    std::string text = small_run;
    const std::string line = "micro_batch = 2\n";
    return text.erase(text.find(line), line.size());
}

TEST(Divisibility, B49NamesBothValuesAndTheNearestValidOnes) {
    expect_fault(faults_of(small_run, {"model.layers=3", "parallel.pipeline=4"}, 4),
                 "--set 2: parallel.pipeline: 4 stages for model.layers 3: one would have no layer; would be right: ",
                 "pipeline at most 3, or model.layers 4 or more");
    const std::string heads = faults_of(small_run, {"model.hidden=1024", "model.heads=12"});
    expect_fault(heads, "--set 2: model.heads: 12 does not divide model.hidden 1024",
                 "heads 8 or 16, or hidden 1020 or 1032");
    const std::string split = faults_of(small_run, {"model.hidden=768", "model.heads=12", "parallel.tensor=8"}, 8);
    expect_has(split, "parallel.tensor: 8 does not divide model.heads 12");
    expect_has(split, "parallel.tensor 6 or 12, or model.heads 8 or 16");
    const std::string inner = faults_of(small_run, {"model.ffn_hidden=4095", "parallel.tensor=2"}, 2);
    expect_has(inner, "parallel.tensor: 2 does not divide model.ffn_hidden 4095");
    expect_has(inner, "parallel.tensor 1, or model.ffn_hidden 4094 or 4096");
    expect_has(faults_of(small_run, {"model.hidden=1024", "model.heads=2"}), "at least 4 heads");
}

TEST(Divisibility, B49FaultyExtentsOfTheMesh) {
    for (const char* value : {"0", "-1", "3.0", "'2'", "1e30", "99999999999999999999"}) {
        const std::string message = faults_of(small_run, {std::string("parallel.tensor=") + value});
        expect_fault(message, "--set 1: parallel.tensor: ", "would be right: ");
    }
    // A product beyond 2^63 must not wrap round to something valid.
    const std::string huge = faults_of(
        small_run,
        {"parallel.tensor=1000000", "parallel.context=1000000", "parallel.expert=1000000", "parallel.pipeline=4"}, 4);
    expect_has(huge, "does not divide the 4 ranks");
}

TEST(Derivation, ModelExtents) {
    const RunConfig run = parse(small_run, {"model.vocab=509"});
    EXPECT_EQ(run.model.kv_heads, 4);
    EXPECT_EQ(run.model.head_dim, 16);
    EXPECT_EQ(run.model.ffn_hidden, 256);
    EXPECT_EQ(run.model.padded_vocab, 512);
    EXPECT_EQ(run.train.sequence, 32);
    EXPECT_EQ(run.train.logits_rows, 64);
    EXPECT_EQ(parse(small_run, {"model.vocab_multiple=1", "model.vocab=509"}).model.padded_vocab, 509);
    EXPECT_EQ(parse(small_run, {"train.sequence=17"}).train.logits_rows, 34);
    expect_fault(faults_of(small_run, {"train.sequence=33"}),
                 "--set 1: train.sequence: 33 is longer than model.sequence 32", "at most 32");
}

TEST(Derivation, VocabularyComesFromTheTokenizerOrMustHoldIt) {
    ParseInput input = input_of(small_run, {"model.vocab=0"});
    EXPECT_EQ(parse_run(input).model.vocab, 0);
    input.tokenizer_vocab = 300;
    EXPECT_EQ(parse_run(input).model.vocab, 300);
    EXPECT_EQ(parse_run(input).model.padded_vocab, 320);
    input.overrides = {"model.vocab=299"};
    try {
        parse_run(input);
        FAIL() << "a token id could be as large as the vocabulary";
    } catch (const Error& error) {
        expect_fault(error.what(), "--set 1: model.vocab: 299 is less than the tokenizer's 300 entries", "300");
    }
    input.overrides = {"model.vocab=301"};
    EXPECT_TRUE(noted(parse_run(input), "ids from 300 on never occur"));
}

struct Triple {
    std::vector<std::string> overrides;
    i64 ranks, micro, accumulation, global;
};

TEST(Batch, B50EquationHoldsWhateverIsLeftOut) {
    const std::vector<Triple> triples = {
        {{}, 1, 4, 1, 4},
        {{}, 3, 4, 1, 12},
        {{"train.micro_batch=3"}, 2, 3, 1, 6},
        {{"train.accumulation=40"}, 2, 4, 40, 320},
        {{"train.global_batch=64"}, 4, 4, 4, 64},
        {{"train.global_batch=12"}, 4, 3, 1, 12},
        {{"train.global_batch=14"}, 2, 1, 7, 14},
        {{"train.global_batch=64", "train.micro_batch=2"}, 8, 2, 4, 64},
        {{"train.global_batch=64", "train.accumulation=8"}, 2, 4, 8, 64},
        {{"train.micro_batch=2", "train.accumulation=5"}, 2, 2, 5, 20},
        {{"train.micro_batch=2", "train.accumulation=5", "train.global_batch=20"}, 2, 2, 5, 20},
        {{"train.global_batch=2147483648", "train.micro_batch=1024"}, 2, 1024, 1048576, 2147483648},
    };
    for (const Triple& triple : triples) {
        const RunConfig run = parse(without_batch(), triple.overrides, triple.ranks);
        EXPECT_EQ(run.train.micro_batch, triple.micro);
        EXPECT_EQ(run.train.accumulation, triple.accumulation);
        EXPECT_EQ(run.train.global_batch, triple.global);
        EXPECT_EQ(run.parallel.data, triple.ranks);
        EXPECT_EQ(run.train.global_batch, run.train.micro_batch * run.train.accumulation * run.parallel.data);
    }
}

TEST(Batch, B50PrintedWithDerivedValuesMarked) {
    EXPECT_TRUE(noted(parse(without_batch(), {"train.global_batch=64", "train.micro_batch=2"}, 8),
                      "batch: global_batch 64 = micro_batch 2 x accumulation 4 (derived) x data 8"));
}

TEST(Batch, B50DisagreementShowsTheEquation) {
    const std::string message =
        faults_of(without_batch(), {"train.global_batch=64", "train.micro_batch=2", "train.accumulation=4"}, 4);
    expect_fault(message,
                 "--set 1: train.global_batch: global_batch = micro_batch x accumulation x data does not hold: ",
                 "64 is not 2 x 4 x 4 = 32");
    expect_has(message, "global_batch = 32, or accumulation = 8, or micro_batch = 4");
}

TEST(Batch, B50IndivisibleNamesBothNumbersAndTheNearest) {
    const std::string micro = faults_of(without_batch(), {"train.global_batch=64", "train.micro_batch=3"}, 4);
    expect_fault(micro, "--set 2: train.micro_batch: global_batch 64 = micro_batch 3 x data 4 x 5.333",
                 "does not come out even");
    expect_has(micro, "micro_batch 2 or 4, or global_batch 60 or 72");
    expect_fault(faults_of(without_batch(), {"train.global_batch=64"}, 3),
                 "--set 1: train.global_batch: 64 cannot be shared by parallel.data 3 copies", "63 or 66");
    expect_fault(faults_of(without_batch(), {"train.global_batch=2"}, 4),
                 "--set 1: train.global_batch: 2 cannot be shared", "global_batch 4");
}

TEST(Batch, B50OverflowIsRefused) {
    const std::string message =
        faults_of(without_batch(), {"train.micro_batch=1000000", "train.accumulation=500000"}, 64);
    expect_fault(message, "--set 2: train.accumulation: micro_batch 1000000 x accumulation 500000 x data 64",
                 "smaller factors");
    expect_has(
        faults_of(without_batch(), {"train.micro_batch=1000000", "train.accumulation=500000", "train.global_batch=1"}),
        "does not hold");
}

// Every extent is within its own range; only their product is not (B11).
TEST(Size, ProductsBeyond64BitsAreRefused) {
    const std::vector<std::string> wide = {"model.layers=100000", "model.hidden=1000000", "model.heads=5000",
                                           "model.ffn_hidden=10000000"};
    expect_fault(faults_of(small_run, wide), "--set 2: model.hidden: layers 100000, hidden 1000000", "parameters");
    expect_fault(faults_of(small_run, {"model.layers=100000", "model.sequence=100000000", "train.micro_batch=1000000"}),
                 "--set 3: train.micro_batch: micro_batch 1000000 x sequence 100000000", "smaller extents");
    EXPECT_EQ(parse(small_run, {"model.layers=10000", "model.hidden=100000", "model.heads=500"}).model.layers, 10000);
}

TEST(Ranks, B50IdleRanksAreAnError) {
    const std::string idle = faults_of(small_run, {"parallel.data=8"}, 16);
    expect_fault(idle, "--set 1: parallel.data: pipeline 1 x tensor 1 x data 8 = 8, but 16 ranks",
                 "8 would stand idle");
    expect_has(idle, "data = 16, or start 8 ranks");
    expect_has(faults_of(small_run, {"parallel.data=2"}, 1), "2, but 1 rank was started");
    const std::string odd = faults_of(small_run, {"parallel.tensor=2", "parallel.pipeline=3"}, 8);
    expect_has(odd, "= 6 does not divide the 8 ranks that were started, 2 would stand idle");
    expect_has(odd, "start 6 or 12 ranks");
    EXPECT_EQ(parse(small_run, {"parallel.data=2"}, 2).parallel.data, 2);
}

TEST(Schedule, B53StepsAreOptimizerSteps) {
    // Accumulation and ranks change nothing about the step at which lr peaks.
    const RunConfig run = parse(small_run,
                                {"train.steps=1000", "optimizer.warmup_steps=100", "train.accumulation=4",
                                 "train.eval_interval_steps=300", "checkpoint.interval_steps=200"},
                                8);
    EXPECT_EQ(run.optimizer.warmup_steps, 100);
    EXPECT_EQ(run.optimizer.decay_steps, 1000);
    EXPECT_EQ(run.optimizer.min_lr, 1e-4);
    EXPECT_TRUE(noted(run, "warm-up ends at step 100 (lr 0.001); cosine decay ends at step 1000 (lr 0.0001)"));
    EXPECT_TRUE(noted(run, "evaluation at steps: 300, 600, 900, 1000 (end)"));
    EXPECT_TRUE(noted(run, "saves at steps: 200, 400, 600, ..., 1000"));
    const RunConfig wsd = parse(small_run, {"optimizer.schedule=wsd", "optimizer.warmup_steps=10"});
    EXPECT_EQ(wsd.optimizer.decay_steps, 10);
    EXPECT_TRUE(noted(wsd, "constant until step 90, linear decay to 0.0001 at step 100"));
    EXPECT_TRUE(
        noted(parse(small_run, {"optimizer.decay_steps=200"}), "step 200 (lr 0.0001), after the end of the run"));
    EXPECT_TRUE(noted(parse(small_run, {"checkpoint.at_end=false", "data.valid=''"}), "saves at steps: never"));
}

TEST(Schedule, B53ContradictionsAreRefused) {
    expect_fault(faults_of(small_run, {"optimizer.warmup_steps=101"}),
                 "--set 1: optimizer.warmup_steps: 101 optimizer steps", "at most 100");
    EXPECT_EQ(parse(small_run, {"optimizer.warmup_steps=100", "optimizer.schedule=constant"}).optimizer.warmup_steps,
              100);
    expect_fault(faults_of(small_run, {"optimizer.warmup_steps=50", "optimizer.decay_steps=50"}),
                 "--set 2: optimizer.decay_steps: the decay would end at step 50", "more than 50");
    expect_fault(
        faults_of(small_run, {"optimizer.schedule=wsd", "optimizer.warmup_steps=50", "optimizer.decay_steps=51"}),
        "--set 3: optimizer.decay_steps: warmup_steps 50 + decay_steps 51 = 101", "at most 50");
    expect_fault(faults_of(small_run, {"optimizer.min_lr=0.002"}), "--set 1: optimizer.min_lr: 0.002 is above",
                 "at most lr");
}

TEST(Schedule, B53AmbiguousUnitsAreRefused) {
    for (const char* value : {"1M", "1MiB", "10m", "1e6", "'1_000_000'", "0.1", "1.0", "1_0__0", "10 %"}) {
        const std::string message = faults_of(small_run, {std::string("optimizer.warmup_steps=") + value});
        expect_fault(message, "--set 1: optimizer.warmup_steps: ", "an integer >= 0");
        expect_has(message, "optimizer steps");
    }
    EXPECT_EQ(parse(small_run, {"train.steps=1_000_000"}).train.steps, 1'000'000);
    expect_has(faults_of(small_run, {"checkpoint.interval_steps=10m"}), "without unit or suffix");
}

}  // namespace
}  // namespace ogrom
