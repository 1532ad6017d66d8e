#include <gtest/gtest.h>

#include "kernels/common/cost.h"

#include "src/plan/decide.h"
#include "src/plan/rate.h"
#include "src/train/throughput.h"

namespace ogrom {
namespace {

RunConfig small_run() {
    RunConfig run;
    run.model.layers = 2;
    run.model.hidden = 20;
    run.model.heads = run.model.kv_heads = 2;
    run.model.head_dim = 10;
    run.model.ffn_hidden = 80;
    run.model.vocab = 61;
    run.model.padded_vocab = 64;
    run.model.sequence = 16;
    run.train.steps = 1000;
    run.train.micro_batch = 3;
    run.train.accumulation = 5;
    run.train.global_batch = 60;
    run.train.sequence = 16;
    run.train.logits_rows = 512;
    run.optimizer.lr = 1e-3;
    run.optimizer.warmup_steps = 100;
    run.optimizer.decay_steps = 1000;
    return run;
}

MeshShape over(int dp) {
    MeshShape mesh;
    mesh.dp = dp;
    return mesh;
}

Ledger ledger_of(const RunConfig& run, int dp) {
    return make_ledger(run, over(dp), decide(run, over(dp), {}, 2));
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
    const RunConfig run = small_run();
    const Decisions d = decide(run, over(4), {}, 2);
    EXPECT_EQ(d.span.last_layer, 2);
    EXPECT_EQ(d.extents.micro_batch, 3);
    EXPECT_EQ(d.extents.logits_rows, 48) << "never more rows than there are";
    EXPECT_EQ(d.micro_batches, 5);
    EXPECT_TRUE(d.overlap);
    EXPECT_EQ(d.reduce_order, ReduceOrder::any);
    EXPECT_EQ(d.bucket_elements, 25 * 1024 * 1024 / 4);
    EXPECT_FALSE(decide(run, over(1), {}, 2).overlap) << "nothing to hide on one rank";
}

TEST(Decide, DeterministicAddsInRankOrder) {
    RunConfig run = small_run();
    run.numerics.deterministic = true;
    run.numerics.compute = Dtype::fp64;
    const Decisions d = decide(run, over(2), {}, 2);
    EXPECT_EQ(d.reduce_order, ReduceOrder::fixed);
    EXPECT_EQ(d.bucket_elements, 25 * 1024 * 1024 / 8);
}

// 64*20 + 16*20 + 2*(12*20*20 + 4*20 norms, biases 3*20 + 20 + 80 + 20) + 2*20
constexpr i64 stored = 64 * 20 + 16 * 20 + 2 * (12 * 400 + 80 + 180) + 40;

TEST(Ledger, StateFollowsTheClosedFormula) {
    RunConfig run = small_run();
    const Ledger single = ledger_of(run, 1);
    for (const char* name : {"weights", "moment1", "moment2"}) {
        EXPECT_EQ(single.line(name).bytes, 4 * stored) << name;
    }
    // The tied head's part of the table's gradient stands apart.
    const i64 table = run.model.padded_vocab * run.model.hidden;
    EXPECT_EQ(single.line("gradients").bytes, 4 * (stored + table));
    run.numerics.compute = Dtype::fp64;
    EXPECT_EQ(ledger_of(run, 1).line("weights").bytes, 8 * stored);
    run.optimizer.kind = OptimizerKind::sgd;
    EXPECT_FALSE(has_line(ledger_of(run, 1), "moment1"));
    run.optimizer.momentum = 0.9;
    EXPECT_TRUE(has_line(ledger_of(run, 1), "moment1"));
    EXPECT_FALSE(has_line(ledger_of(run, 1), "moment2"));
}

TEST(Ledger, FixedOrderDeclaresItsScratch) {
    RunConfig run = small_run();
    EXPECT_FALSE(has_line(ledger_of(run, 4), "gradients.reduction"));
    EXPECT_EQ(ledger_of(run, 4).line("gradients.mpi").bytes, 4 * stored) << "MPI copies what is under way";
    EXPECT_FALSE(has_line(ledger_of(run, 1), "gradients.mpi"));
    run.numerics.deterministic = true;
    EXPECT_FALSE(has_line(ledger_of(run, 1), "gradients.reduction"));
    EXPECT_FALSE(has_line(ledger_of(run, 4), "gradients.mpi"));
    // One bucket of the whole model: 4 contributions of a quarter each.
    EXPECT_EQ(ledger_of(run, 4).line("gradients.reduction").bytes, ceil_div(stored, 4) * 4 * 4);
}

TEST(PlanText, SaysBatchAndScheduleInSteps) {
    const RunConfig run = small_run();
    const Decisions d = decide(run, over(4), {}, 2);
    const std::string text = plan_text(run, over(4), d, make_ledger(run, over(4), d));
    for (const char* part : {"global 60 = micro 3 x accumulation 5 x dp 4", "warm-up over optimizer steps 1..100",
                             "cosine to 0 at step 1000", "dp 4", "weights", "total in memory"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
    }
}

TEST(Rate, IsAPlausibleRate) {
    EXPECT_GT(measure_matmul_rate<float>(Stream{}), 1e8);
    EXPECT_GT(measure_matmul_rate<double>(Stream{}), 1e8);
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
