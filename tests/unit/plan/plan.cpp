#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>

#include "kernels/common/cost.h"

#include "src/plan/decide.h"
#include "src/plan/linears.h"
#include "src/plan/rate.h"
#include "src/train/throughput.h"

namespace ogrom {
namespace {

constexpr i64 ranks = 4;  // unless a test says otherwise

// Two layers, hidden 20, 2 heads, vocabulary 61 stored as 64, T 16; micro-batches of 3, accumulation 5.
RunConfig small_run(const std::vector<std::string>& overrides = {}, i64 over = ranks) {
    ParseInput input;
    input.path = "small";
    input.text = R"([model]
layers = 2
hidden = 20
heads = 2
vocab = 61
sequence = 16
[data]
train = "none"
tokenizer = ""
[train]
steps = 1000
micro_batch = 3
accumulation = 5
logits_rows = 512
[optimizer]
lr = 1e-3
warmup_steps = 100
decay_steps = 1000
[run]
name = "small"
)";
    input.overrides = overrides;
    input.ranks = over;
    return parse_run(input);
}

MeshShape shape_of(const RunConfig& run) {
    MeshShape mesh;
    mesh.pp = static_cast<int>(run.parallel.pipeline);
    mesh.dp = static_cast<int>(run.parallel.data);
    mesh.tp = static_cast<int>(run.parallel.tensor);
    return mesh;
}

Decisions decide_for(const RunConfig& run, int rank = 0) {
    return decide(run, shape_of(run), place_of(rank, shape_of(run)), 2);
}

Ledger ledger_of(const RunConfig& run, int rank = 0) {
    return make_ledger(run, decide_for(run, rank));
}

bool has_line(const Ledger& ledger, const std::string& name) {
    for (const LedgerLine& line : ledger.lines()) {
        if (line.name == name) {
            return true;
        }
    }
    return false;
}

TEST(Decide, TakesExtentsFromTheRun) {
    const Decisions d = decide_for(small_run());
    ASSERT_EQ(d.shape.spans.size(), 1u);
    EXPECT_EQ(d.shape.spans[0].last_layer, 2);
    EXPECT_EQ(d.shape.extents.micro_batch, 3);
    EXPECT_EQ(d.shape.extents.logits_rows, 48) << "never more rows than there are";
    EXPECT_EQ(d.micro_batches, 5);
    EXPECT_TRUE(d.step.overlap);
    EXPECT_EQ(d.step.order, ReduceOrder::any);
    EXPECT_EQ(d.step.way, GradientWay::direct);
    EXPECT_EQ(d.step.bucket_elements, 25 * 1024 * 1024 / 4);
    EXPECT_FALSE(decide_for(small_run({}, 1)).step.overlap) << "nothing to hide on one rank";
}

TEST(Decide, DeterministicAddsInRankOrder) {
    const Decisions d = decide_for(small_run({"numerics.deterministic=true", "numerics.compute=fp64"}));
    EXPECT_EQ(d.step.order, ReduceOrder::fixed);
    EXPECT_EQ(d.step.way, GradientWay::staged);
    EXPECT_EQ(d.shape.reduce_order, ReduceOrder::fixed);
    EXPECT_EQ(d.step.bucket_elements, 25 * 1024 * 1024 / 8);
}

TEST(Decide, GradientsAreStagedWhereTheyAreSharded) {
    for (const i64 zero : {0, 1, 2, 3}) {
        const Decisions d = decide_for(small_run({fmt::format("parallel.zero={}", zero)}));
        EXPECT_EQ(d.step.zero, zero);
        EXPECT_EQ(d.step.way, zero >= 2 ? GradientWay::staged : GradientWay::direct);
    }
}

TEST(Decide, PlacesOfShardsAndReplicas) {
    const RunConfig whole = small_run({"parallel.zero=2"}),
                    two = small_run({"parallel.zero=2", "parallel.zero_group=2"});
    for (int rank = 0; rank < ranks; ++rank) {
        const StepPlace one = decide_for(whole, rank).place, half = decide_for(two, rank).place;
        EXPECT_EQ((std::array{one.part, one.parts, one.replica, one.replicas}), (std::array{rank, 4, 0, 1}));
        EXPECT_EQ((std::array{half.part, half.parts, half.replica, half.replicas}),
                  (std::array{rank % 2, 2, rank / 2, 2}));
    }
}

TEST(Decide, StagesHaveTheSlotsOfTheirSchedule) {
    const std::vector<std::string> two = {"parallel.pipeline=2", "parallel.data=2"};
    const RunConfig run = small_run(two);
    const Decisions first = decide_for(run, 0), last = decide_for(run, 2);
    EXPECT_EQ(first.shape.spans[0].last_layer, 1);
    EXPECT_TRUE(first.shape.spans[0].embeds && !first.shape.spans[0].heads);
    EXPECT_TRUE(last.shape.spans[0].heads && !last.shape.spans[0].embeds);
    EXPECT_EQ(first.shape.extents.slots, std::vector<i64>{2}) << "1f1b: one per stage still to come";
    EXPECT_EQ(last.shape.extents.slots, std::vector<i64>{2}) << "one in use, one that is being received";
    EXPECT_EQ(first.shape.extents.weight_slots, 0);
    EXPECT_EQ(first.evaluation_batch, 4);
    const RunConfig split = small_run({two[0], two[1], "parallel.schedule=zb-h1"});
    EXPECT_GT(decide_for(split, 0).shape.extents.weight_slots, 0);
    const RunConfig gpipe = small_run({two[0], two[1], "parallel.schedule=gpipe"});
    EXPECT_EQ(decide_for(gpipe, 0).shape.extents.slots, std::vector<i64>{5}) << "all micro-batches";
}

// 64*20 + 16*20 + 2*(12*20*20 + 4*20 norms, biases 3*20 + 20 + 80 + 20) + 2*20
constexpr i64 stored = 64 * 20 + 16 * 20 + 2 * (12 * 400 + 80 + 180) + 40;
constexpr i64 token_table = 64 * 20;

TEST(Ledger, StateFollowsTheClosedFormula) {
    const Ledger single = ledger_of(small_run({}, 1));
    for (const char* name : {"weights", "moment1", "moment2"}) {
        EXPECT_EQ(single.line(name).bytes, 4 * stored) << name;
    }
    // The tied head's part of the table's gradient stands apart.
    EXPECT_EQ(single.line("gradients").bytes, 4 * (stored + token_table));
    EXPECT_EQ(ledger_of(small_run({"numerics.compute=fp64"}, 1)).line("weights").bytes, 8 * stored);
    const std::vector<std::string> sgd = {"optimizer.kind=sgd"};
    EXPECT_FALSE(has_line(ledger_of(small_run(sgd, 1)), "moment1"));
    const Ledger momentum = ledger_of(small_run({sgd[0], "optimizer.momentum=0.9"}, 1));
    EXPECT_TRUE(has_line(momentum, "moment1"));
    EXPECT_FALSE(has_line(momentum, "moment2"));
}

// contracts.md, Memory: ZeRO 0 w + g + m, 1 w + g + m/N, 2 w + (g + m)/N, 3 all/N; w = g = 4, m = 8 bytes a parameter.
// Weights and activations of 2 bytes, everything that is summed of 4; host memory of a GPU run beside it.
void expect_master_and_snapshot(const char* type, Tier tier, std::vector<std::string> options = {}) {
    options.push_back(fmt::format("precision.weights={}", type));
    const RunConfig run = small_run(options, 1);
    const Decisions d = decide(run, shape_of(run), {}, 2, Backend::cuda);
    const Ledger ledger = make_ledger(run, d);
    EXPECT_EQ(ledger.line("weights").bytes, 2 * stored);
    EXPECT_EQ(ledger.line("gradients").bytes, 4 * (stored + token_table));
    for (const char* name : {"master", "moment1", "moment2"}) {
        EXPECT_EQ(ledger.line(name).bytes, 4 * stored) << name;
        EXPECT_EQ(ledger.line(name).tier, Tier::device) << name;
    }
    for (const char* name : {"snapshot.weights", "snapshot.moment1", "snapshot.moment2"}) {
        EXPECT_EQ(ledger.line(name).bytes, 4 * stored) << name;
        EXPECT_EQ(ledger.line(name).tier, tier) << name;
    }
    const Ledger single = ledger_of(small_run({}, 1));
    const auto rows = [](const Ledger& of, const char* name) { return of.line(name).formula; };
    EXPECT_NE(rows(ledger, "activations.qkv"), rows(single, "activations.qkv"));
    EXPECT_EQ(rows(ledger, "activations.attention_lse"), rows(single, "activations.attention_lse"));
    EXPECT_GT(ledger.line("batch").bytes, 0);
    EXPECT_FALSE(has_line(single, "batch") || has_line(single, "snapshot.weights") || has_line(single, "host.window"));
}

TEST(Ledger, Bf16OnAGpuHasAMasterAndASnapshot) {
    expect_master_and_snapshot("bf16", Tier::pageable);
}

TEST(Ledger, Fp16OnAGpuHasThemToo) {
    expect_master_and_snapshot("fp16", Tier::pageable);
}

TEST(Ledger, OfAGpuThatSavesInTheBackgroundTheSnapshotIsPageLocked) {
    expect_master_and_snapshot("bf16", Tier::host, {"checkpoint.async=true", "checkpoint.interval_steps=5"});
}

// What a rank writes and no more: over the ranks of a zero group each element once, and nothing on further replicas.
TEST(Ledger, BackgroundSavesHoldACopyOfWhatARankWrites) {
    const auto bytes = [](const Ledger& ledger, const char* name) {
        return has_line(ledger, name) ? ledger.line(name).bytes : 0;
    };
    const std::vector<std::string> async = {"checkpoint.async=true", "checkpoint.interval_steps=5"};
    for (const char* name : {"snapshot.weights", "snapshot.moment1", "snapshot.moment2"}) {
        EXPECT_EQ(bytes(ledger_of(small_run(async, 1)), name), 4 * stored) << name;
        for (const char* zero : {"parallel.zero=0", "parallel.zero=3"}) {
            i64 sum = 0;
            for (int rank = 0; rank < 4; ++rank) {
                sum += bytes(ledger_of(small_run({async[0], async[1], zero}, 4), rank), name);
            }
            EXPECT_EQ(sum, 4 * stored) << name << ", " << zero;
        }
        const auto replicas = small_run({async[0], async[1], "parallel.zero=1", "parallel.zero_group=2"}, 4);
        EXPECT_GT(bytes(ledger_of(replicas, 1), name), 0);
        EXPECT_EQ(bytes(ledger_of(replicas, 2), name), 0);
        EXPECT_EQ(bytes(ledger_of(small_run({async[0]}, 1)), name), 0) << "no save at an interval";
    }
}

TEST(Ledger, StateFollowsTheFormulaOfEveryZeroStage) {
    for (const i64 zero : {0, 1, 2, 3}) {
        for (const i64 parts : {2, 4, 8}) {
            const RunConfig run = small_run({fmt::format("parallel.zero={}", zero)}, parts);
            std::map<std::string, i64> sums;
            for (int rank = 0; rank < parts; ++rank) {
                const Ledger ledger = ledger_of(run, rank);
                const auto expect = [&](const char* name, i64 elements, bool sharded, i64 cuts) {
                    const i64 bytes = ledger.line(name).bytes;
                    // Cuts snap to blocks of 256 elements, one in each part of the space that is cut by itself: the
                    // tied table, the rest, and of gradients the head's part of the table.
                    const i64 slack = sharded ? cuts * 256 * 4 : 0;
                    EXPECT_LE(std::abs(bytes - 4 * (sharded ? elements / parts : elements)), slack)
                        << name << ", zero " << zero << ", rank " << rank << " of " << parts;
                    sums[name] += sharded ? bytes : bytes / parts;
                };
                expect("weights", stored, zero >= 3, 2);
                expect("gradients", stored + token_table, zero >= 2, 3);
                expect("moment1", stored, zero >= 1, 2);
                expect("moment2", stored, zero >= 1, 2);
            }
            EXPECT_EQ(sums["weights"], 4 * stored) << "each element has one place";
            EXPECT_EQ(sums["gradients"], 4 * (stored + token_table));
            EXPECT_EQ(sums["moment1"], 4 * stored);
            EXPECT_EQ(sums["moment2"], 4 * stored);
        }
    }
}

// Of each layer 12 C^2 of matrices and the biases 3 C and F before heads and inner width are split; norms and the two
// biases behind row-parallel products are held by both.
TEST(Ledger, TensorRanksHoldHalfOfWhatIsSplit) {
    const RunConfig run = small_run({"parallel.tensor=2", "parallel.data=1"}, 2);
    constexpr i64 split = 64 * 20 + 2 * (12 * 400 + 3 * 20 + 80), both = stored - split;
    for (int rank = 0; rank < 2; ++rank) {
        EXPECT_EQ(ledger_of(run, rank).line("weights").bytes, 4 * (split / 2 + both));
    }
}

// Each stage its layer; the head's copy of the table stands on the last one, where it is the head's alone.
TEST(Ledger, StagesHoldTheirLayers) {
    const RunConfig run = small_run({"parallel.pipeline=2", "parallel.data=1"}, 2);
    constexpr i64 layer = 12 * 400 + 80 + 180;
    EXPECT_EQ(ledger_of(run, 0).line("weights").bytes, 4 * (token_table + 16 * 20 + layer));
    EXPECT_EQ(ledger_of(run, 1).line("weights").bytes, 4 * (layer + 40 + token_table));
    EXPECT_EQ(ledger_of(run, 0).line("gradients").bytes, ledger_of(run, 0).line("weights").bytes);
    EXPECT_EQ(ledger_of(run, 1).line("gradients").bytes, ledger_of(run, 1).line("weights").bytes);
}

// The largest unit is a block; the head's is the norm and the table.
TEST(Ledger, GatheredUnitsAreTwoOfTheLargest) {
    constexpr i64 block = 12 * 400 + 80 + 180;
    const std::vector<std::string> zero3 = {"parallel.zero=3"};
    EXPECT_EQ(ledger_of(small_run(zero3)).line("units.weights").bytes, 2 * block * 4);
    EXPECT_EQ(ledger_of(small_run(zero3)).line("units.gradients").bytes, 2 * block * 4);
    EXPECT_EQ(ledger_of(small_run({zero3[0], "parallel.zero_regather=step"})).line("units.weights").bytes, stored * 4);
    EXPECT_FALSE(has_line(ledger_of(small_run({"parallel.zero=2"})), "units.weights"));
    EXPECT_FALSE(has_line(ledger_of(small_run()), "units.gradients"));
}

TEST(Ledger, FixedOrderDeclaresItsScratch) {
    const std::vector<std::string> fixed = {"numerics.deterministic=true"};
    EXPECT_FALSE(has_line(ledger_of(small_run()), "gradients.reduction"));
    EXPECT_EQ(ledger_of(small_run()).line("gradients.mpi").bytes, 4 * (stored + token_table))
        << "MPI copies what is under way";
    EXPECT_FALSE(has_line(ledger_of(small_run({}, 1)), "gradients.mpi"));
    EXPECT_FALSE(has_line(ledger_of(small_run(fixed, 1)), "gradients.reduction"));
    EXPECT_FALSE(has_line(ledger_of(small_run(fixed)), "gradients.mpi"));
    // A block fits a bucket whole: four calls under way, each with the contributions of three other ranks.
    constexpr i64 block = 12 * 400 + 80 + 180;
    EXPECT_EQ(ledger_of(small_run(fixed)).line("gradients.reduction").bytes, 4 * 3 * block * 4);
}

TEST(PlanText, SaysBatchAndScheduleInSteps) {
    const RunConfig run = small_run();
    const Decisions d = decide_for(run);
    const std::string text = plan_text(run, shape_of(run), d, make_ledger(run, d));
    for (const char* part : {"global 60 = micro 3 x accumulation 5 x dp 4", "warm-up over optimizer steps 1..100",
                             "cosine to 0.0001 at step 1000", "dp 4", "weights", "total in memory"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
    }
}

TEST(PlanText, SaysEveryChoiceOfTheLayout) {
    const RunConfig run = small_run(
        {"parallel.pipeline=2", "parallel.tensor=2", "parallel.data=2", "parallel.zero=3", "train.recompute=selective"},
        8);
    const Decisions d = decide_for(run);
    const std::string text = plan_text(run, shape_of(run), d, make_ledger(run, d));
    for (const char* part :
         {"pp 2 x dp 2 x cp 1 x ep 1 x tp 2 = 8 ranks", "pipeline 1f1b over 2 stages", "tensor parallel over 2 ranks",
          "sequence parallel", "ZeRO 3", "one ahead", "recompute selective", "in every micro-batch"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
    }
}

// The attention kernels of a GPU take their own working memory: one element stands for the stage's.
TEST(PlanLedger, AttentionHasNoWorkspaceOfTheStageOnAGpu) {
    const RunConfig run = small_run({"precision.weights=bf16"}, 1);
    const auto bytes_on = [&](Backend backend) {
        const Decisions d = decide(run, shape_of(run), place_of(0, shape_of(run)), 64, backend);
        return make_ledger(run, d).line("workspace.attention").bytes;
    };
    EXPECT_GT(bytes_on(Backend::cpu), 1024);
    EXPECT_EQ(bytes_on(Backend::cuda), 64);  // as the arena aligns it
}

TEST(PlanText, Fp8ThatCoversNothingIsRefused) {
    const RunConfig run =
        small_run({"precision.weights=bf16", "numerics.linears=fp8", "model.hidden=24", "model.ffn_hidden=72"}, 1);
    try {
        decide_for(run);
        FAIL() << "taken";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        EXPECT_NE(std::string(error.what()).find("MLP up (72 x 24: 72 and 24)"), std::string::npos) << error.what();
    }
}

// Of 16 tokens' multiples: four layers of C x C multiplied 3 C, C, 4 C, 4 C; beside them attention and the head.
TEST(PlanText, SaysWhatIsMadeInFp8) {
    const std::vector<std::string> fp8 = {"precision.weights=bf16", "numerics.linears=fp8", "model.hidden=32"};
    const RunConfig run = small_run(fp8, 1);
    const Decisions d = decide_for(run);
    const double layers = 2 * 12.0 * 32 * 32, attention = 2 * 2.0 * (16 * 17 / 2) / 16 * 32, head = 61 * 32;
    EXPECT_NEAR(fp8_share(run, d.shape), layers / (layers + attention + head), 1e-12);
    const std::string text = plan_text(run, shape_of(run), d, make_ledger(run, d));
    EXPECT_NE(
        text.find(fmt::format("fp8 linears: {:.1f} % of the model's FLOPs; forward e4m3 x e4m3 with fast sums, both "
                              "gradients e5m2 x e4m3 with full fp32 sums",
                              100 * fp8_share(run, d.shape))),
        std::string::npos)
        << text;
    EXPECT_EQ(text.find("multiples of 16"), std::string::npos);
    EXPECT_TRUE(has_line(make_ledger(run, d), "workspace.fp8"));

    const RunConfig odd = small_run({fp8[0], fp8[1], fp8[2], "model.ffn_hidden=72"}, 1);
    const Decisions e = decide_for(odd);
    EXPECT_NEAR(fp8_share(odd, e.shape), 2 * 4.0 * 32 * 32 / (layers - 2 * 2 * 56.0 * 32 + attention + head), 1e-12);
    EXPECT_NE(fp8_text(odd, e.shape).find("multiples of 16 alone: MLP up (72 x 32: 72), MLP down (32 x 72: 72)"),
              std::string::npos)
        << fp8_text(odd, e.shape);
    EXPECT_EQ(fp8_share(run, decide_for(small_run({}, 1)).shape), 0);
}

TEST(Rate, IsAPlausibleRate) {
    EXPECT_GT(measure_matmul_rate<float>({}, {}), 1e8);
    EXPECT_GT(measure_matmul_rate<double>({}, {}), 1e8);
}

// B58: rates from a hand count. Per token and layer 12 C^2 multiply-adds and 2 C (T+1) of attention, head C V.
TEST(Throughput, MatchesTheHandCount) {
    const RunConfig run = small_run();
    StepMetrics row;
    row.tokens = 60 * 16;
    set_rates(row, run, {.step_s = 0.5}, 2e6);
    const double per_token = 3 * (2 * (2 * 12 * 400.0 + 4 * 20 * 8.5) + 2 * 20 * 61.0);
    EXPECT_DOUBLE_EQ(row.tokens_per_s, 1920);
    EXPECT_NEAR(row.model_tflops * 1e12, per_token * 3 * 5 * 16 / 0.5, 1e-6 * per_token);
    EXPECT_NEAR(row.fraction_of_sgemm, row.model_tflops * 1e12 / 2e6, 1e-12);
    EXPECT_GT(row.hardware_tflops, row.model_tflops);
    EXPECT_GT(row.model_tflops_square, row.model_tflops);
}

}  // namespace
}  // namespace ogrom
