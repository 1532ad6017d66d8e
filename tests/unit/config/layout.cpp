// The keys of every parallel layout: mesh, tensor and sequence, pipeline, ZeRO and recomputation; B49 and B50.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/config/case.h"

namespace ogrom {
namespace {

struct MeshCase {
    std::vector<std::string> overrides;
    i64 ranks, pp, dp, tp;
};

TEST(Mesh, B50AnAxisLeftOutIsDerived) {
    const std::vector<MeshCase> cases = {
        {{}, 8, 1, 8, 1},
        {{"parallel.tensor=2"}, 8, 1, 4, 2},
        {{"parallel.pipeline=2"}, 8, 2, 4, 1},
        {{"parallel.pipeline=2", "parallel.tensor=2"}, 8, 2, 2, 2},
        {{"parallel.data=2", "parallel.tensor=2"}, 8, 2, 2, 2},
        {{"parallel.data=4", "parallel.pipeline=1"}, 8, 1, 4, 2},
        {{"parallel.data=8"}, 8, 1, 8, 1},
        {{"parallel.data=1", "parallel.pipeline=4", "parallel.tensor=2"}, 8, 4, 1, 2},
        {{"parallel.data=1", "parallel.tensor=4"}, 0, 1, 1, 4},  // ranks not known: the file's own mesh
        {{"parallel.pipeline=3"}, 0, 3, 1, 1},
    };
    for (const MeshCase& c : cases) {
        const RunConfig run = parse(small_run, c.overrides, c.ranks);
        EXPECT_EQ(run.parallel.pipeline, c.pp);
        EXPECT_EQ(run.parallel.data, c.dp);
        EXPECT_EQ(run.parallel.tensor, c.tp);
        EXPECT_EQ(run.train.global_batch, run.train.micro_batch * run.train.accumulation * c.dp);
    }
    expect_has(parse(small_run, {"parallel.data=4", "parallel.pipeline=1"}, 8).resolved_toml,
               "tensor = 2  # derived: 8 ranks / (pipeline 1 x data 4)\n");
}

TEST(Mesh, B50WhatDoesNotMatchTheRanksNamesBothNumbers) {
    const std::string tensor = faults_of(small_run, {"parallel.data=3", "parallel.pipeline=1"}, 8);
    expect_fault(tensor, "--set 1: parallel.data: pipeline 1 x data 3 = 3 does not divide the 8 ranks",
                 "2 would stand idle; would be right: start 6 or 9 ranks, a multiple of 3, or keys whose product "
                 "divides 8 (2 or 4)");
    expect_has(faults_of(small_run, {"parallel.tensor=2", "parallel.data=3"}, 8),
               "tensor 2 x data 3 = 6 does not divide the 8 ranks that were started, 2 would stand idle");
    const std::string all = faults_of(small_run, {"parallel.pipeline=2", "parallel.tensor=2", "parallel.data=4"}, 8);
    expect_fault(all, "--set 3: parallel.data: pipeline 2 x tensor 2 x data 4 = 16, but 8 ranks",
                 "data = 2, or start 16 ranks");
    // Two axes left out beside data: they are 1, not guessed.
    expect_has(faults_of(small_run, {"parallel.data=2"}, 4), "= 2, but 4 ranks were started, 2 would stand idle");
    expect_has(faults_of(small_run, {"parallel.tensor=16"}, 8), "too few; would be right: start 16 ranks");
}

TEST(Tensor, B49DividesHeadsAndInnerWidth) {
    // ffn_hidden 768 = 2^8 x 3 and heads 12: what divides both is 1, 2, 3, 4, 6, 12.
    const std::vector<std::string> shape = {"model.hidden=96", "model.heads=12", "model.ffn_hidden=768"};
    auto with = [&](const char* tensor) {
        std::vector<std::string> all = shape;
        all.emplace_back(tensor);
        return all;
    };
    EXPECT_EQ(parse(small_run, with("parallel.tensor=6"), 6).parallel.tensor, 6);
    expect_fault(faults_of(small_run, with("parallel.tensor=8"), 8),
                 "--set 4: parallel.tensor: 8 does not divide model.heads 12 (whole heads on each rank)",
                 "parallel.tensor 6 or 12, or model.heads 8 or 16");
    const std::string both = faults_of(small_run, with("parallel.tensor=5"), 5);
    expect_has(both,
               "5 does not divide model.heads 12 (whole heads on each rank); would be right: parallel.tensor 4 or 6");
    expect_has(both,
               "5 does not divide model.ffn_hidden 768 (equal columns on each rank); would be right: parallel.tensor "
               "4 or 6, or model.ffn_hidden 765 or 770");
    expect_has(both, "or model.ffn_hidden 765 or 770; with 5 ranks: tensor 1");
    const std::string grouped = faults_of(small_run, {"model.kv_heads=2", "parallel.tensor=4"}, 4);
    expect_has(grouped, "parallel.tensor: 4 does not divide model.kv_heads 2");
    expect_has(grouped, "would be right: parallel.tensor 2, or model.kv_heads 4");
}

TEST(Tensor, StoredVocabularyIsAMultipleOfBoth) {
    struct Rows {
        i64 vocab, multiple, tensor, padded;
    };
    for (const Rows& rows : {Rows{509, 64, 1, 512}, Rows{509, 64, 2, 512}, Rows{509, 64, 3, 576}, Rows{509, 1, 4, 512},
                             Rows{509, 1, 1, 509}, Rows{509, 6, 4, 516}, Rows{5, 1, 4, 8}, Rows{3, 1, 4, 4}}) {
        const RunConfig run = parse(
            small_run,
            {fmt::format("model.vocab={}", rows.vocab), "model.hidden=60", "model.heads=12",
             fmt::format("model.vocab_multiple={}", rows.multiple), fmt::format("parallel.tensor={}", rows.tensor)},
            rows.tensor);
        EXPECT_EQ(run.model.padded_vocab, rows.padded) << rows.vocab << " " << rows.multiple << " " << rows.tensor;
        EXPECT_EQ(run.model.vocab, rows.vocab) << "the logical vocabulary";
    }
    EXPECT_TRUE(noted(parse(small_run, {"model.vocab=509", "model.vocab_multiple=1", "parallel.tensor=4"}, 4),
                      "vocabulary: 509 tokens, stored as 512 rows (multiple of 1 and of tensor 4)"));
}

TEST(SequenceParallel, OnWherePossibleUnlessRefused) {
    EXPECT_FALSE(parse(small_run).parallel.sequence_parallel);
    EXPECT_TRUE(parse(small_run, {"parallel.tensor=2"}, 2).parallel.sequence_parallel);
    EXPECT_FALSE(
        parse(small_run, {"parallel.tensor=2", "parallel.sequence_parallel=false"}, 2).parallel.sequence_parallel);
    // It follows the samples that are trained on, not the longest possible ones.
    const RunConfig odd = parse(small_run, {"parallel.tensor=2", "train.sequence=17"}, 2);
    EXPECT_FALSE(odd.parallel.sequence_parallel);
    EXPECT_TRUE(noted(odd,
                      "no sequence parallelism: train.sequence 17 is not a multiple of parallel.tensor 2; for it: "
                      "train.sequence 16 or 18"));
    EXPECT_TRUE(parse(small_run, {"parallel.tensor=2", "model.sequence=33", "train.sequence=32"}, 2)
                    .parallel.sequence_parallel);
}

TEST(SequenceParallel, B49IndivisibleSequenceNamesTheNearest) {
    const std::vector<std::string> base = {"parallel.tensor=4", "parallel.sequence_parallel=true"};
    auto with = [&](std::vector<std::string> more) {
        more.insert(more.begin(), base.begin(), base.end());
        return faults_of(small_run, more, 4);
    };
    expect_fault(
        with({"train.sequence=30"}),
        "--set 2: parallel.sequence_parallel: true, but train.sequence 30 is not a multiple of parallel.tensor 4",
        "would be right: train.sequence 28 or 32, or false");
    expect_fault(with({"model.sequence=31"}), "--set 2: parallel.sequence_parallel: true, but train.sequence 31",
                 "would be right: train.sequence 28, or false");
    expect_fault(with({"model.sequence=3"}), "--set 2: parallel.sequence_parallel: true, but train.sequence 3",
                 "model.sequence and train.sequence of at least 4, or false");
}

TEST(Pipeline, B49UnevenButComplete) {
    const RunConfig run = parse(small_run, {"model.layers=30", "parallel.pipeline=4"}, 4);
    EXPECT_EQ(run.parallel.stage_layers, (std::vector<i64>{8, 8, 7, 7}));
    EXPECT_TRUE(noted(run,
                      "layer map: stage 0: layers 0-7; stage 1: layers 8-15; stage 2: layers 16-22; stage 3: "
                      "layers 23-29"));
    EXPECT_EQ(run.parallel.schedule, PipelineSchedule::one_f_one_b);
    EXPECT_EQ(parse(small_run).parallel.stage_layers, std::vector<i64>{4});
    const RunConfig chunks = parse(
        small_run,
        {"model.layers=5", "parallel.pipeline=2", "parallel.schedule=interleaved", "parallel.virtual_stages=2"}, 2);
    EXPECT_EQ(chunks.parallel.virtual_stages, 2);
    EXPECT_TRUE(noted(chunks, "layer map: stage 0: layers 0-1, 3; stage 1: layers 2, 4"));
}

TEST(Pipeline, SchedulesByName) {
    EXPECT_EQ(parse(small_run, {"parallel.pipeline=2", "parallel.schedule=gpipe"}, 2).parallel.schedule,
              PipelineSchedule::gpipe);
    EXPECT_EQ(parse(small_run, {"parallel.pipeline=2", "parallel.schedule=1f1b"}, 2).parallel.schedule,
              PipelineSchedule::one_f_one_b);
    EXPECT_EQ(parse(small_run, {"parallel.pipeline=2", "parallel.schedule=zb-h1"}, 2).parallel.schedule,
              PipelineSchedule::zero_bubble);
    expect_fault(faults_of(small_run, {"parallel.pipeline=2", "parallel.schedule=1f1"}, 2),
                 "--set 2: parallel.schedule: unknown value \"1f1\"",
                 "gpipe | 1f1b | interleaved | zb-h1 (nearest: \"1f1b\")");
}

TEST(Pipeline, InterleavedNeedsTwoChunksAndLayersForThem) {
    const std::vector<std::string> two = {"parallel.pipeline=2", "parallel.schedule=interleaved"};
    expect_fault(faults_of(small_run, two, 2), "--set 2: parallel.schedule: \"interleaved\" with virtual_stages 1",
                 "would be right: parallel.virtual_stages = 2, or \"1f1b\"");
    expect_has(faults_of(small_run, {two[0], two[1], "model.layers=9"}, 2),
               "parallel.virtual_stages = 2 (up to 4), or \"1f1b\"");
    expect_has(faults_of(small_run, {two[0], two[1], "model.layers=3"}, 2),
               "would be right: model.layers 4 or more with parallel.virtual_stages = 2, or \"1f1b\"");
    expect_fault(
        faults_of(small_run, {two[0], two[1], "parallel.virtual_stages=3"}, 2),
        "--set 1: parallel.pipeline: 2 stages x 3 virtual_stages = 6 chunks for model.layers 4: one would have "
        "no layer",
        "would be right: virtual_stages at most 2, or model.layers 6 or more");
    expect_has(faults_of(small_run, {"parallel.pipeline=4", two[1], "parallel.virtual_stages=3", "model.layers=8"}, 4),
               "= 12 chunks for model.layers 8: one would have no layer; would be right: pipeline at most 2, or "
               "virtual_stages at most 2, or model.layers 12 or more");
}

TEST(Pipeline, B49StageListsMustCoverTheModel) {
    const std::vector<std::string> two = {"parallel.pipeline=2", "model.layers=48"};
    auto message = [&](const char* list) { return faults_of(small_run, {two[0], two[1], list}, 2); };
    EXPECT_EQ(parse(small_run, {two[0], two[1], "parallel.stage_layers=[20, 28]"}, 2).parallel.stage_layers,
              (std::vector<i64>{20, 28}));
    expect_fault(message("parallel.stage_layers=[11,13]"),
                 "--set 3: parallel.stage_layers: [11, 13] has the sum 24, but model.layers is 48; would be right: ",
                 "2 numbers with sum 48, as [24, 24], or without this key");
    expect_fault(message("parallel.stage_layers=[48]"),
                 "--set 3: parallel.stage_layers: [48] has 1 numbers for 2 stages", "2 numbers with sum 48");
    expect_fault(message("parallel.stage_layers=[0, 48]"), "--set 3: parallel.stage_layers: 0 is out of range", ">= 1");
    expect_fault(message("parallel.stage_layers=[-1, 49]"), "--set 3: parallel.stage_layers: -1 is out of range",
                 ">= 1");
    expect_fault(message("parallel.stage_layers=24"), "--set 3: parallel.stage_layers: 24 is an integer",
                 "a list of integers >= 1");
    expect_fault(message("parallel.stage_layers=[24.0, 24.0]"),
                 "--set 3: parallel.stage_layers: a list of something else", "as in [4, 3, 3]");
    expect_fault(message("parallel.stage_layers=['24', '24']"), "--set 3: parallel.stage_layers: a list of texts",
                 "a list of integers");
    expect_fault(message("parallel.stage_layers=[]"), "--set 3: parallel.stage_layers: an empty list",
                 "a list of integers");
    const std::string four = faults_of(small_run,
                                       {"parallel.pipeline=2", "parallel.schedule=interleaved",
                                        "parallel.virtual_stages=2", "parallel.stage_layers=[2, 2]"},
                                       2);
    expect_has(four, "[2, 2] has 2 numbers for 2 stages x 2 virtual_stages = 4 chunks; would be right: 4 numbers");
}

TEST(Zero, StagesGroupsAndRegathering) {
    for (i64 zero = 0; zero <= 3; ++zero) {
        const RunConfig run = parse(small_run, {fmt::format("parallel.zero={}", zero)}, 4);
        EXPECT_EQ(run.parallel.zero, zero);
        EXPECT_EQ(run.parallel.zero_group, 4) << "all data-parallel ranks";
        EXPECT_EQ(run.parallel.regather, Regather::micro_batch);
    }
    const RunConfig groups =
        parse(small_run, {"parallel.zero=3", "parallel.zero_group=2", "parallel.zero_regather=step"}, 4);
    EXPECT_EQ(groups.parallel.zero_group, 2);
    EXPECT_EQ(groups.parallel.regather, Regather::step);
    EXPECT_TRUE(noted(groups, "parallel.zero 3: sharded over groups of 2 data-parallel ranks, 2 copies"));
    // The group follows data, not the ranks.
    EXPECT_EQ(parse(small_run, {"parallel.zero=1", "parallel.tensor=2"}, 8).parallel.zero_group, 4);
    // One data-parallel rank: allowed, so that one file runs on any number; it is said.
    EXPECT_TRUE(noted(parse(small_run, {"parallel.zero=2"}), "nothing to shard with one data-parallel rank"));
    EXPECT_TRUE(noted(parse(small_run, {"parallel.zero=2", "parallel.zero_group=1"}, 2), "in groups of one rank"));
}

TEST(Zero, B49GroupMustDivideData) {
    expect_fault(faults_of(small_run, {"parallel.zero=1", "parallel.zero_group=3"}, 8),
                 "--set 2: parallel.zero_group: 3 does not divide parallel.data 8; would be right: ",
                 "zero_group 2 or 4, or data 6 or 9");
    expect_has(faults_of(small_run, {"parallel.zero=1", "parallel.zero_group=16"}, 8), "zero_group 8, or data 16");
    // Before the ranks are known the file is no less valid.
    EXPECT_EQ(parse(small_run, {"parallel.zero=1", "parallel.zero_group=3"}, 0).parallel.zero_group, 3);
}

TEST(Recompute, IntervalReachesALayer) {
    EXPECT_EQ(parse(small_run, {"train.recompute=full", "train.recompute_interval=4"}).train.recompute_interval, 4);
    expect_fault(faults_of(small_run, {"train.recompute=full", "train.recompute_interval=5"}),
                 "--set 2: train.recompute_interval: every 5-th layer of model.layers 4", "would be right: 1 .. 4");
}

}  // namespace
}  // namespace ogrom
