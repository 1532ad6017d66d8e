// Field case B52: unknown and misspelt keys, wrong types, values out of range, keys given twice or without effect.
#include <gtest/gtest.h>

#include "tests/unit/config/case.h"

namespace ogrom {
namespace {

TEST(Keys, SmallRunIsAccepted) {
    const RunConfig run = parse(small_run);
    EXPECT_EQ(run.model.layers, 4);
    EXPECT_EQ(run.model.padded_vocab, 512);
    EXPECT_EQ(run.optimizer.lr, 1e-3);
    EXPECT_EQ(run.data.train, "corpus");
    EXPECT_EQ(run.run.output, "results/runs/case");
    EXPECT_TRUE(run.model.tied);
}

struct Case {
    const char* line;   // appended as line 17, below a header in line 16 where `section` is given
    const char* start;  // of the message
    const char* part;
};

class OneFault : public ::testing::TestWithParam<Case> {};

TEST_P(OneFault, IsRefusedWithPlaceKeyAndWhatWouldBeRight) {
    const std::string message = faults_of(small_run + GetParam().line + "\n");
    expect_fault(message, GetParam().start, GetParam().part);
}

INSTANTIATE_TEST_SUITE_P(
    B52UnknownNames, OneFault,
    ::testing::Values(
        Case{"thread = 4", "case.toml:17: run.thread: unknown key", "run.threads"},
        Case{"lr = 0.1", "case.toml:17: run.lr: lr belongs to [optimizer]", "optimizer.lr"},
        Case{"grad_clip = 1.0", "case.toml:17: run.grad_clip: unknown key", "optimizer.clip_norm"},
        Case{"clip_grad = 1.0", "case.toml:17: run.clip_grad: unknown key", "optimizer.clip_norm"},
        Case{"qqqqqqqqq = 1", "case.toml:17: run.qqqqqqqqq: unknown key", "ogrom keys"},
        Case{"inner.key = 1", "case.toml:17: run.inner: a table inside [run]", "no dot"},
        Case{"include = 'x'", "case.toml:17: run.include: not a key", "above the first section"},
        Case{"seed = 7", "case.toml:17: run.seed: seed belongs to [data] or [train]", "data.seed or train.seed"},
        Case{"[optimiser]\nbeta1 = 0.9", "case.toml:18: optimiser.beta1: unknown section [optimiser]",
             "optimizer.beta1"},
        Case{"[optimiser]", "case.toml:17: [optimiser]: unknown section", "[optimizer]"},
        Case{"[nowhere]\nx = 1", "case.toml:18: nowhere.x: unknown section", "[model]"},
        Case{"[[checkpoint]]\nstrict = true", "case.toml:17: checkpoint: is a section", "[checkpoint]"},
        Case{"[comm.inner]\nx = 1", "case.toml:17: comm.inner: a table inside [comm]", "header [section]"}));

INSTANTIATE_TEST_SUITE_P(
    B52WrongTypes, OneFault,
    ::testing::Values(
        Case{"threads = 'true'", "case.toml:17: run.threads: \"true\" is a text", "an integer"},
        Case{"threads = '2'", "case.toml:17: run.threads: \"2\" is a text", "without quotes: 2"},
        Case{"threads = 3.0", "case.toml:17: run.threads: 3.0 is a number with a fraction", "write 3"},
        Case{"threads = 1e3", "case.toml:17: run.threads: 1e3 is a number with", "write 1_000"},
        Case{"threads = 0x10", "case.toml:17: run.threads: 0x10 is not decimal", "would be right: 16"},
        Case{"threads = 2024-01-31", "case.toml:17: run.threads: a date", "an integer"},
        Case{"threads = true", "case.toml:17: run.threads: true is true or false", "an integer"},
        Case{"threads = [1]", "case.toml:17: run.threads: a list", "an integer"},
        Case{"threads = {a = 1}", "case.toml:17: run.threads: a table", "an integer"},
        Case{"output = 3", "case.toml:17: run.output: 3 is an integer", "in quotes"},
        Case{"device = 'gpu'", "case.toml:17: run.device: unknown value \"gpu\"", "auto | cpu | cuda"},
        Case{"[model2]\n", "case.toml:17: [model2]: unknown section", "[model]"},
        Case{"[checkpoint]\nstrict = 'true'", "case.toml:18: checkpoint.strict: \"true\" is a text", "without quotes"},
        Case{"[checkpoint]\nstrict = 1", "case.toml:18: checkpoint.strict: 1 is an integer", "true or false"},
        Case{"[checkpoint]\nallow_changed = 'optimizer.lr'",
             "case.toml:18: checkpoint.allow_changed: ", "a list of texts"},
        Case{"[numerics]\ncompute = 'fp46'", "case.toml:18: numerics.compute: unknown value", "nearest: \"fp64\""},
        Case{"[parallel]\nzero = 'Zero2'", "case.toml:18: parallel.zero: \"Zero2\" is a text", "an integer"}));

INSTANTIATE_TEST_SUITE_P(
    B52Ranges, OneFault,
    ::testing::Values(Case{"threads = -1", "case.toml:17: run.threads: -1 is out of range", ">= 0"},
                      Case{"threads = -0", "case.toml:17: run.threads: -0 has a sign", "would be right: 0"},
                      Case{"[comm]\ntimeout_s = nan", "case.toml:18: comm.timeout_s: nan is not a finite",
                           "a number >= 1"},
                      Case{"[comm]\nbucket_mib = inf", "case.toml:18: comm.bucket_mib: inf is not a finite", "> 0"},
                      Case{"[comm]\nbucket_mib = 0", "case.toml:18: comm.bucket_mib: 0 is out of range", "> 0"},
                      Case{"[comm]\nbucket_mib = -0.0", "case.toml:18: comm.bucket_mib: -0.0 has a sign", "> 0"},
                      Case{"[comm]\nbucket_mib = '25MB'", "case.toml:18: comm.bucket_mib: \"25MB\" is a text", "(MiB)"},
                      Case{"[numerics]\nmax_skipped_steps = 0\non_nonfinite='skip'",
                           "case.toml:18: numerics.max_skipped_steps: 0 is out of range", ">= 1"},
                      Case{"name = \"a/b\"", "case.toml:17: run.name: given twice (first in line 16)", "once"},
                      Case{"output = \"a\\nb\"", "case.toml:17: run.output: has a line break", "one line"}));

INSTANTIATE_TEST_SUITE_P(
    TomlFaults, OneFault,
    ::testing::Values(Case{"threads = 4\nthreads = 5", "case.toml:18: run.threads: given twice (first in line 17)",
                           "once"},
                      Case{"[[train]]", "case.toml:17: [train]: given twice", "once"},
                      Case{"[train]", "case.toml:17: [train]: given twice (first in line 10)", "once"},
                      Case{"threads", "case.toml:17: [run]: not valid TOML", "key = value"},
                      Case{"threads = 10m", "case.toml:17: run.threads: '10m' has a suffix", "(threads)"},
                      Case{"output = unquoted", "case.toml:17: run.output: not valid TOML", "\"quotes\""}));

struct Idle {
    std::vector<const char*> overrides;
    const char* key;
    const char* needs;
};

TEST(Keys, B52KeysWithoutEffectAreRefused) {
    const std::vector<Idle> cases = {
        {{"optimizer.momentum=0.9"}, "--set 1: optimizer.momentum", "optimizer.kind = \"sgd\""},
        {{"optimizer.beta1=0.8", "optimizer.kind=sgd"}, "--set 1: optimizer.beta1", ""},
        {{"optimizer.kind=sgd", "optimizer.epsilon=1e-6"}, "--set 2: optimizer.epsilon", "\"adamw\""},
        {{"optimizer.schedule=constant", "optimizer.decay_steps=50"}, "--set 2: optimizer.decay_steps", "\"constant\""},
        {{"optimizer.schedule=constant", "optimizer.min_lr=0"}, "--set 2: optimizer.min_lr", "\"constant\""},
        {{"data.valid_fraction=0.1"}, "--set 1: data.valid_fraction", "no data.valid"},
        {{"numerics.max_skipped_steps=3"}, "--set 1: numerics.max_skipped_steps", "\"skip\""},
        {{"data.valid=''", "train.eval_samples=8"}, "--set 2: train.eval_samples", "valid_fraction"},
        {{"train.recompute_interval=2"}, "--set 1: train.recompute_interval", "train.recompute = \"full\""},
        {{"train.recompute=selective", "train.recompute_interval=2"}, "--set 2: train.recompute_interval", "\"full\""},
        {{"train.trace_steps=5"}, "--set 1: train.trace_steps", "train.trace"},
        {{"parallel.data=1", "comm.bucket_mib=3"}, "--set 2: comm.bucket_mib", "parallel.data > 1"},
        {{"parallel.data=1", "comm.overlap=false"}, "--set 2: comm.overlap", "parallel.data > 1"},
        {{"parallel.data=1", "comm.gradient_dtype=fp32"}, "--set 2: comm.gradient_dtype", "parallel.data > 1"},
        {{"parallel.sequence_parallel=true"}, "--set 1: parallel.sequence_parallel", "parallel.tensor > 1"},
        {{"parallel.schedule=gpipe"}, "--set 1: parallel.schedule", "parallel.pipeline > 1"},
        {{"parallel.schedule=interleaved", "parallel.virtual_stages=2"}, "--set 1: parallel.schedule", "> 1"},
        {{"parallel.virtual_stages=2"}, "--set 1: parallel.virtual_stages", "parallel.schedule = \"interleaved\""},
        {{"parallel.stage_layers=[4]"}, "--set 1: parallel.stage_layers", "parallel.pipeline > 1"},
        {{"parallel.zero_group=1"}, "--set 1: parallel.zero_group", "parallel.zero > 0"},
        {{"parallel.zero_regather=step"}, "--set 1: parallel.zero_regather", "parallel.zero = 3"},
        {{"parallel.zero=2", "parallel.zero_regather=step"}, "--set 2: parallel.zero_regather", "parallel.zero = 3"},
    };
    for (const Idle& idle : cases) {
        const std::vector<std::string> overrides(idle.overrides.begin(), idle.overrides.end());
        if (idle.needs[0] == '\0') {
            // The key came before the one that makes it idle: dropped with a note.
            EXPECT_TRUE(noted(parse(small_run, overrides), "optimizer.beta1 (--set 1) is without effect")) << idle.key;
            EXPECT_EQ(parse(small_run, overrides).optimizer.beta1, 0.9);
            continue;
        }
        expect_fault(faults_of(small_run, overrides), idle.key, "has no effect");
        expect_has(faults_of(small_run, overrides), idle.needs);
    }
}

// The user cannot know every number of ranks that a file will be started with.
TEST(Keys, B52KeysThatTheRanksMakeIdleAreOnlyNoted) {
    const RunConfig one = parse(small_run + "[comm]\nbucket_mib = 3\noverlap = false\n");
    EXPECT_TRUE(noted(one, "comm.bucket_mib (case.toml:18) is without effect here: needs parallel.data > 1"));
    EXPECT_TRUE(noted(one, "comm.overlap (case.toml:19) is without effect"));
    EXPECT_EQ(one.comm.bucket_mib, 25);
    expect_has(one.resolved_toml, "# bucket_mib: no effect, needs parallel.data > 1\n");
    const RunConfig two = parse(small_run + "[comm]\nbucket_mib = 3\noverlap = false\n", {}, 2);
    EXPECT_EQ(two.comm.bucket_mib, 3);
    EXPECT_FALSE(two.comm.overlap);
    // What belongs to an idle key goes with it: the pipeline came out as 1.
    const RunConfig flat = parse(small_run,
                                 {"parallel.data=2", "parallel.tensor=1", "parallel.schedule=interleaved",
                                  "parallel.virtual_stages=2", "parallel.stage_layers=[1,1,1,1]"},
                                 2);
    EXPECT_TRUE(noted(flat, "parallel.schedule (--set 3) is without effect"));
    EXPECT_TRUE(noted(flat, "parallel.virtual_stages (--set 4) is without effect"));
    EXPECT_TRUE(noted(flat, "parallel.stage_layers (--set 5) is without effect"));
    EXPECT_EQ(flat.parallel.schedule, PipelineSchedule::one_f_one_b);
    EXPECT_EQ(flat.parallel.virtual_stages, 1);
    EXPECT_EQ(flat.parallel.stage_layers, std::vector<i64>{4});
}

TEST(Keys, WithEffectTheyAreTaken) {
    const RunConfig sgd = parse(small_run, {"optimizer.kind=sgd", "optimizer.momentum=0.9"});
    EXPECT_EQ(sgd.optimizer.kind, OptimizerKind::sgd);
    EXPECT_EQ(sgd.optimizer.momentum, 0.9);
    EXPECT_EQ(
        parse(small_run, {"numerics.on_nonfinite=skip", "numerics.max_skipped_steps=3"}).numerics.max_skipped_steps, 3);
    const RunConfig held = parse(small_run, {"data.valid=''", "data.valid_fraction=0.25", "train.eval_samples=8"});
    EXPECT_EQ(held.data.valid_fraction, 0.25);
    EXPECT_EQ(held.train.eval_samples, 8);
    const RunConfig again =
        parse(small_run, {"train.recompute=full", "train.recompute_interval=3", "train.trace=out/t.json",
                          "train.trace_steps=5", "comm.check_collectives=true"});
    EXPECT_EQ(again.train.recompute, Recompute::full);
    EXPECT_EQ(again.train.recompute_interval, 3);
    EXPECT_EQ(again.train.trace, "out/t.json");
    EXPECT_EQ(again.train.trace_steps, 5);
    EXPECT_TRUE(again.comm.check_collectives);
    EXPECT_EQ(parse(small_run, {"train.recompute=selective"}).train.recompute, Recompute::selective);
    const RunConfig plain = parse(small_run);
    EXPECT_EQ(plain.train.recompute, Recompute::none);
    EXPECT_EQ(plain.train.recompute_interval, 1);
    EXPECT_EQ(plain.train.trace, "");
    EXPECT_EQ(plain.train.trace_steps, 3);
    EXPECT_FALSE(plain.comm.check_collectives);
}

// The archive tells the truth: weights and gradients have the type of the kernels.
TEST(Keys, StorageAndTransportFollowCompute) {
    const RunConfig wide = parse(small_run, {"numerics.compute=fp64"}, 2);
    EXPECT_EQ(wide.precision.weights, Dtype::fp64);
    EXPECT_EQ(wide.comm.gradient_dtype, Dtype::fp64);
    expect_has(wide.resolved_toml, "weights = \"fp64\"  # derived: = numerics.compute\n");
    expect_has(wide.resolved_toml, "gradient_dtype = \"fp64\"  # derived: = numerics.compute\n");
    EXPECT_EQ(parse(small_run).precision.weights, Dtype::fp32);
    expect_fault(faults_of(small_run, {"numerics.compute=fp64", "precision.weights=fp32"}),
                 "--set 2: precision.weights: fp32 differs from numerics.compute fp64", "would be right: fp64");
    EXPECT_EQ(parse(small_run, {"numerics.compute=fp64", "precision.weights=fp64"}).precision.weights, Dtype::fp64);
}

TEST(Keys, OneMessagePerFaultOfALayout) {
    const std::string message = faults_of(
        small_run, {"parallel.tensor=3", "parallel.context=2", "parallel.zero=4", "train.recompute=everything"}, 6);
    EXPECT_TRUE(message.starts_with("5 faults in the run file\n")) << message;
    expect_has(message, "--set 4: train.recompute: unknown value \"everything\"; would be right: none | selective");
    expect_has(message, "--set 3: parallel.zero: 4 is out of range; would be right: >= 0, <= 3 (stage)");
    expect_has(message, "--set 2: parallel.context: 2: context parallelism is not built yet; would be right: 1");
    expect_has(message, "--set 1: parallel.tensor: 3 does not divide model.heads 4");
    expect_has(message, "--set 1: parallel.tensor: 3 does not divide model.ffn_hidden 256");
}

struct Foreign {
    const char* line;
    const char* key;
};

TEST(Keys, B52NamesOfOtherProgramsLeadToOurs) {
    const std::vector<Foreign> names = {
        {"tensor_model_parallel_size = 2", "parallel.tensor"},
        {"pipeline_parallel_degree = 2", "parallel.pipeline"},
        {"virtual_pipeline_model_parallel_size = 2", "parallel.virtual_stages"},
        {"pipeline_parallel_schedule = '1F1B'", "parallel.schedule"},
        {"pipeline_model_parallel_layout = 'x'", "parallel.stage_layers"},
        {"zero_optimization = 2", "parallel.zero"},
        {"use_distributed_optimizer = true", "parallel.zero"},
        {"data_parallel_shard_degree = 2", "parallel.zero_group"},
        {"zero_hpz_partition_size = 2", "parallel.zero_group"},
        {"reshard_after_forward = true", "parallel.zero_regather"},
        {"recompute_granularity = 'full'", "train.recompute"},
        {"activation_checkpointing = true", "train.recompute"},
        {"recompute_num_layers = 2", "train.recompute_interval"},
        {"enable_profiling = true", "train.trace"},
        {"sequence_parallel = true", "parallel.sequence_parallel"},
        {"check_collective = true", "comm.check_collectives"},
        {"reduce_bucket_size = 5", "comm.bucket_mib"},
    };
    for (const Foreign& name : names) {
        expect_fault(faults_of(small_run + name.line + "\n"), "case.toml:17: run.",
                     std::string("would be right: ") + name.key);
    }
}

TEST(Keys, AllFaultsOfAFileAreReportedTogether) {
    const std::string message = faults_of(
        "[model]\nlayers = 2.5\nhidden = 64\nheads = 4\nsequenze = 32\n[data]\ntrain = 'x'\n[optimizer]\nlr = -1\n",
        {"train.stepz=3"});
    EXPECT_TRUE(message.starts_with("4 faults in the run file\n")) << message;
    expect_has(message, "case.toml:2: model.layers: 2.5 is a number with a fraction");
    expect_has(message, "case.toml:5: model.sequenze: unknown key; would be right: model.sequence");
    expect_has(message, "case.toml:9: optimizer.lr: -1 is out of range");
    expect_has(message, "--set 1: train.stepz: unknown key; would be right: train.steps");
    EXPECT_EQ(message.find("missing"), std::string::npos) << "a misspelt key is not reported missing as well";
}

TEST(Keys, MissingRequiredKeysAreNamed) {
    const std::string message = faults_of("[model]\nlayers = 2\n");
    for (const char* key :
         {"model.hidden", "model.heads", "model.sequence", "data.train", "train.steps", "optimizer.lr"}) {
        expect_has(message, std::string("case.toml: ") + key + ": missing");
    }
    EXPECT_EQ(message.find("model.layers"), std::string::npos);
}

TEST(Keys, Bf16WeightsNeedAGpuAndFp32Arithmetic) {
    EXPECT_EQ(parse(small_run, {"precision.weights=bf16"}).precision.weights, Dtype::bf16);
    expect_has(faults_of(small_run, {"precision.weights=bf16", "run.device=cpu"}),
               "precision.weights: bf16 needs a GPU");
    expect_has(faults_of(small_run, {"precision.weights=bf16", "numerics.compute=fp64"}),
               "bf16 with numerics.compute fp64; would be right: numerics.compute fp32");
}

TEST(Keys, Fp16WeightsHaveALossScale) {
    const RunConfig run = parse(small_run, {"precision.weights=fp16"});
    EXPECT_EQ(run.precision.weights, Dtype::fp16);
    EXPECT_EQ(run.precision.loss_scale, LossScaleKind::dynamic);
    EXPECT_EQ(run.precision.loss_scale_initial, 65536);
    EXPECT_EQ(run.precision.loss_scale_window, 1000);
    EXPECT_EQ(run.precision.loss_scale_min, 1);
    const RunConfig fixed =
        parse(small_run, {"precision.weights=fp16", "precision.loss_scale=fixed", "precision.loss_scale_initial=128"});
    EXPECT_EQ(fixed.precision.loss_scale, LossScaleKind::fixed);
    EXPECT_EQ(fixed.precision.loss_scale_initial, 128);
    const auto faults = [](const std::vector<std::string>& more) {
        std::vector<std::string> all = {"precision.weights=fp16"};
        all.insert(all.end(), more.begin(), more.end());
        return faults_of(small_run, all);
    };
    expect_has(faults({"run.device=cpu"}), "precision.weights: fp16 needs a GPU");
    expect_has(faults({"numerics.compute=fp64"}), "fp16 with numerics.compute fp64; would be right");
    expect_has(faults({"precision.loss_scale_initial=1000"}),
               "precision.loss_scale_initial: 1000 is no power of 2; would be right: 512 or 1024");
    expect_has(faults({"precision.loss_scale_min=3"}), "precision.loss_scale_min: 3 is no power of 2");
    expect_has(faults({"precision.loss_scale_min=8", "precision.loss_scale_initial=4"}),
               "8 is above precision.loss_scale_initial 4; would be right: 4 or less");
    expect_has(faults({"precision.loss_scale_initial=33554432"}), "out of range");
    expect_has(faults({"precision.loss_scale=fixed", "precision.loss_scale_window=5"}),
               "precision.loss_scale_window: has no effect in this combination");
    expect_has(faults_of(small_run, {"precision.weights=bf16", "precision.loss_scale_initial=8"}),
               "precision.loss_scale_initial: has no effect in this combination; would be right: without it, or with "
               "precision.weights = \"fp16\"");
}

TEST(Keys, Fp8LinearsNeedBf16Weights) {
    EXPECT_EQ(parse(small_run).numerics.linears, LinearProducts::compute);
    EXPECT_EQ(parse(small_run, {"precision.weights=bf16", "numerics.linears=fp8"}).numerics.linears,
              LinearProducts::fp8);
    expect_fault(faults_of(small_run, {"numerics.linears=fp8"}),
                 "--set 1: numerics.linears: fp8 with precision.weights fp32",
                 "would be right: precision.weights bf16");
    expect_has(faults_of(small_run, {"numerics.linears=fp8", "precision.weights=bf16", "run.device=cpu"}),
               "precision.weights: bf16 needs a GPU");
    expect_has(faults_of(small_run, {"numerics.linears=e4m3"}),
               "unknown value \"e4m3\"; would be right: compute | fp8");
}

TEST(Keys, ValuesThatAreNotBuiltAreRefusedByName) {
    for (const char* setting :
         {"model.norm=rms", "model.position=rope", "model.position=none", "model.mlp=swiglu",
          "precision.weights=fp8_e4m3", "comm.gradient_dtype=bf16", "numerics.compute=bf16", "parallel.context=2",
          "parallel.expert=2", "precision.weights=fp64", "comm.gradient_dtype=fp64"}) {
        const std::string message = faults_of(small_run, {setting}, 2);
        expect_fault(message, "--set 1: ", "not built yet; would be right: ");
    }
    expect_has(faults_of(small_run, {"parallel.context=2"}, 2), "2: context parallelism is not built yet");
    expect_has(faults_of(small_run, {"parallel.expert=2"}, 2), "2: expert parallelism is not built yet");
    expect_has(faults_of(small_run, {"model.kv_heads=2"}), "grouped heads are not built yet; would be right: 4");
    expect_has(faults_of(small_run, {"model.kv_heads=3"}), "does not divide model.heads 4");
    expect_has(faults_of(small_run, {"model.head_dim=32"}), "not built yet; would be right: 16");
    EXPECT_EQ(parse(small_run, {"model.head_dim=16", "model.kv_heads=4"}).model.head_dim, 16);
}

}  // namespace
}  // namespace ogrom
