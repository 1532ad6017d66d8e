// Whole training steps on a GPU against the CPU, whose kernels stand under their own tests: same initial weights, same
// data, same checkpoints. Skips where there is no GPU.
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <numeric>

#include "kernels/cuda/device.h"

#include "src/train/initial.h"
#include "src/train/pass_graphs.h"
#include "src/train/resume.h"
#include "src/train/warm_up.h"

#include "tests/equivalence/tiny.h"

namespace ogrom::test {
namespace {

// A trained engine with what it stands on.
template <class T>
class Place {
public:
    Place(const RunConfig& run, const std::string& device)
        : device_(select_device(device, 0)),
          queues_(device_),
          world_(make_single_communicator()),
          run_(run),
          mesh_(make_mesh(*world_, run_.parallel)) {
        const Decisions decisions = decide(run_, mesh_.shape, mesh_.place, 1, device_.backend);
        engine =
            std::make_unique<Engine<T>>(run_, decisions, make_ledger(run_, decisions), mesh_, device_, queues_.compute);
        if (device_.is_gpu()) {
            warm_up(*engine);
        }
        if (decisions.records_passes) {
            graphs.record(*engine, make_batches(run_, 0, 0).front());
            engine->graphs = &graphs;
        }
    }
    // Losses and norms of steps [engine->step, last).
    std::vector<double> train(i64 last) {
        std::vector<double> values;
        while (engine->step < last) {
            const std::vector<Batch> batches = make_batches(run_, 0, engine->step);
            const i64 targets = agree_control(mesh_, batches, Wish::go_on).targets;
            const StepResult result = train_step<T>(*engine, batches, targets);
            values.push_back(result.loss);
            values.push_back(result.norm);
        }
        return values;
    }
    void save(const std::string& folder) {
        CheckpointHeader header;
        header.step = engine->step;
        header.skipped_steps = engine->skipped;
        header.run_toml = run_.resolved_toml;
        header.weight_hash = engine->model_hash();
        engine->scaling.save(header.extra);
        save_checkpoint<GradientOf<T>>(*world_, folder, header, engine->layout, run_.model, engine->groups_to_write(),
                                       1);
    }
    void load(const std::string& folder) {
        std::vector<std::string> skipped;
        const auto wanted = engine->groups_to_load();
        load_checkpoint<GradientOf<T>>(*world_, folder, engine->layout, wanted, true, skipped);
        engine->adopt_loaded();
        const CheckpointHeader header = read_header(folder);
        engine->step = header.step;
        engine->skipped = header.skipped_steps;
        engine->scaling.load(header.extra);
    }
    std::unique_ptr<Engine<T>> engine;
    PassGraphs<T> graphs;

private:
    Device device_;
    Queues queues_;
    std::unique_ptr<Communicator> world_;
    RunConfig run_;
    Mesh mesh_;
};

class DeviceTraining : public testing::Test {
protected:
    void SetUp() override {
        const cuda::Devices found = cuda::list_devices();
        if (found.devices.empty()) {
            GTEST_SKIP() << "no GPU: " << found.reason;
        }
    }
    static RunConfig run_of(const std::vector<std::string>& overrides) { return tiny_run(1, {3, 2}, overrides); }
};

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double relative) {
    const double found = largest_difference(a, b);
    EXPECT_LE(found, relative);
    std::printf("largest relative difference of losses and norms: %.2e (allowed %.0e)\n", found, relative);
}

// Means of many terms that both sides round at 1.1e-16: observed 3.1e-16 over 20 AdamW steps. A fault shows at 1e-6.
constexpr double fp64_bound = 3e-15;

TEST_F(DeviceTraining, FollowsTheCpuInDouble) {
    for (const char* recompute : {"none", "selective", "full"}) {
        SCOPED_TRACE(recompute);
        const RunConfig run = run_of({fmt::format("train.recompute={}", recompute), "model.dropout_embedding=0.1",
                                      "model.dropout_attention=0.1", "model.dropout_residual=0.1"});
        Place<double> cpu(run, "cpu"), gpu(run, "cuda");
        EXPECT_EQ(gpu.engine->model_hash(), cpu.engine->model_hash());  // initial weights: the same bits
        expect_near(gpu.train(20), cpu.train(20), fp64_bound);
    }
}

TEST_F(DeviceTraining, EveryWayOfTheGradientsFollowsTheCpu) {
    for (const std::vector<std::string>& way : {std::vector<std::string>{"numerics.deterministic=false"},
                                                {"model.tied=false", "model.bias=false"},
                                                {"optimizer.kind=sgd", "optimizer.momentum=0.9"}}) {
        SCOPED_TRACE(way.front());
        const RunConfig run = run_of(way);
        Place<double> cpu(run, "cpu"), gpu(run, "cuda");
        expect_near(gpu.train(5), cpu.train(5), fp64_bound);
    }
}

// Masks, and so the factor on the gradients, change from step to step; dropout by step and sample.
TEST_F(DeviceTraining, RecordedPassesHaveTheBitsOfSingleKernels) {
    for (const std::vector<std::string>& more :
         {std::vector<std::string>{"train.recompute=none"}, {"train.recompute=full"}, {"model.tied=false"}}) {
        SCOPED_TRACE(more.front());
        std::vector<std::string> overrides = {"numerics.compute=fp32", "numerics.deterministic=false",
                                              "model.dropout_embedding=0.1", "model.dropout_attention=0.1",
                                              "model.dropout_residual=0.1"};
        overrides.insert(overrides.end(), more.begin(), more.end());
        Place<float> recorded(run_of(overrides), "cuda");
        overrides.emplace_back("run.graphs=never");
        Place<float> single(run_of(overrides), "cuda");
        EXPECT_EQ(recorded.train(8), single.train(8));
        EXPECT_EQ(recorded.engine->model_hash(), single.engine->model_hash());
        EXPECT_EQ(recorded.graphs.launched(), 8 * 2 * recorded.engine->decisions.micro_batches);
        EXPECT_EQ(single.graphs.launched(), 0);
    }
}

TEST_F(DeviceTraining, ATwiceTrainedRunHasTheSameBits) {
    const RunConfig run = run_of({"numerics.compute=fp32"});
    Place<float> one(run, "cuda"), two(run, "cuda");
    EXPECT_EQ(one.train(8), two.train(8));
    EXPECT_EQ(one.engine->model_hash(), two.engine->model_hash());
}

TEST_F(DeviceTraining, CheckpointsMoveBetweenGpuAndCpu) {
    const SharedFolder folder;
    const RunConfig run = run_of({});
    Place<double> straight(run, "cpu");
    const std::vector<double> whole = straight.train(12);
    Place<double> first(run, "cuda"), second(run, "cpu"), third(run, "cuda");
    std::vector<double> joined = first.train(4);
    first.save(folder.path("gpu"));
    second.load(folder.path("gpu/step-00000004"));
    EXPECT_EQ(second.engine->model_hash(), first.engine->model_hash());
    for (const double value : second.train(8)) {
        joined.push_back(value);
    }
    second.save(folder.path("cpu"));
    third.load(folder.path("cpu/step-00000008"));
    EXPECT_EQ(third.engine->model_hash(), second.engine->model_hash());
    for (const double value : third.train(12)) {
        joined.push_back(value);
    }
    expect_near(joined, whole, fp64_bound);
}

// On the way back from a checkpoint the weights are the rounded master again: the same bits as without the break.
template <class T>
void expect_resumes(const RunConfig& run) {
    const SharedFolder folder;
    Place<T> straight(run, "cuda"), first(run, "cuda"), second(run, "cuda");
    const std::vector<double> whole = straight.train(8);
    std::vector<double> joined = first.train(4);
    first.save(folder.path("run"));
    second.load(folder.path("run/step-00000004"));
    for (const double value : second.train(8)) {
        joined.push_back(value);
    }
    ASSERT_EQ(joined.size(), whole.size());
    EXPECT_EQ(std::memcmp(joined.data(), whole.data(), whole.size() * sizeof(double)), 0);  // norms of Inf too
    EXPECT_EQ(second.engine->model_hash(), straight.engine->model_hash());
    EXPECT_EQ(second.engine->scaling.factor(), straight.engine->scaling.factor());
    EXPECT_EQ(second.engine->skipped, straight.engine->skipped);
}

TEST_F(DeviceTraining, Bf16ResumesBitForBit) {
    expect_resumes<Bf16>(run_of({"numerics.compute=fp32", "precision.weights=bf16"}));
}

// With a factor that falls before the break and rises behind it.
TEST_F(DeviceTraining, Fp16ResumesBitForBit) {
    expect_resumes<Fp16>(run_of({"numerics.compute=fp32", "precision.weights=fp16",
                                 "precision.loss_scale_initial=16777216", "precision.loss_scale_window=2"}));
}

// The values of fp32 files are those of the master, bit for bit; what the files lack stays as it was drawn.
template <class T>
void expect_starts_with_fp32(const std::string& weights) {
    const SharedFolder folder;
    Place<float> cpu(tiny_run(1, {3, 2}, {"numerics.compute=fp32"}), "cpu");
    (void)cpu.train(2);
    cpu.save(folder.path("cpu"));
    const auto alone = make_single_communicator();
    const std::vector<std::string> common = {"numerics.compute=fp32", "precision.weights=" + weights,
                                             "checkpoint.init_from=" + folder.path("cpu/step-00000002")};
    const RunConfig same = tiny_run(1, {3, 2}, common);
    Place<T> gpu(same, "cuda");
    InitialWeights(*alone, same, {}).load(*gpu.engine);
    EXPECT_EQ(gpu.engine->model_hash(), cpu.engine->model_hash());
    std::vector<std::string> more = common;
    more.insert(more.end(), {"model.layers=4", "checkpoint.strict=false"});
    const RunConfig longer = tiny_run(1, {3, 2}, more);
    Place<T> drawn(longer, "cuda"), begun(longer, "cuda");
    InitialWeights(*alone, longer, {}).load(*begun.engine);
    const auto* const found = begun.engine->weights_on_host().data().data();
    const auto* const fresh = drawn.engine->weights_on_host().data().data();
    for (const LocalTensor& tensor : begun.engine->layout.tensors()) {
        const std::string& name = tensor.parameter->name;
        const bool lacking = name.starts_with("block.3.");
        const auto* const wanted =
            lacking ? fresh + tensor.offset
                    : cpu.engine->weights_on_host().data().data() + cpu.engine->layout.tensor(name).offset;
        EXPECT_EQ(std::memcmp(found + tensor.offset, wanted, static_cast<std::size_t>(tensor.logical) * sizeof *found),
                  0)
            << name;
    }
    EXPECT_TRUE(std::isfinite(begun.train(1)[0]));
}

TEST_F(DeviceTraining, ThreeTypesStartWithTheValuesOfFp32Files) {
    expect_starts_with_fp32<float>("fp32");
    expect_starts_with_fp32<Bf16>("bf16");
    expect_starts_with_fp32<Fp16>("fp16");
}

template <class T>
void expect_follows_fp32(const std::vector<std::string>& overrides, double bound) {
    for (const char* deterministic : {"true", "false"}) {
        const std::string order = fmt::format("numerics.deterministic={}", deterministic);
        std::vector<std::string> all = {"numerics.compute=fp32", order};
        const RunConfig fp32 = tiny_run(1, {3, 2}, all);
        all.insert(all.end(), overrides.begin(), overrides.end());
        Place<T> low(tiny_run(1, {3, 2}, all), "cuda");
        Place<float> full(fp32, "cuda");
        const std::vector<double> a = low.train(20), b = full.train(20);
        double worst = 0;
        for (std::size_t i = 0; i < a.size(); i += 2) {  // losses
            ASSERT_TRUE(std::isfinite(a[i]));
            worst = std::max(worst, std::abs(a[i] - b[i]) / b[i]);
        }
        EXPECT_LE(worst, bound);
        EXPECT_EQ(low.engine->skipped, 0);
        EXPECT_LT(a[a.size() - 2], a[0]) << "it learns";
        std::printf("%s against fp32: largest difference of a loss %.2e\n", name_of(dtype_of<T>()).data(), worst);
    }
}

// Storage of 8 bits of mantissa, unit round-off 2^-9 = 2e-3 of each activation, averaged over the tokens: 3.6e-4
// observed.
TEST_F(DeviceTraining, Bf16FollowsFp32) {
    expect_follows_fp32<Bf16>({"precision.weights=bf16"}, 3.5e-3);
}

// Three bits more: an eighth of that.
TEST_F(DeviceTraining, Fp16FollowsFp32) {
    expect_follows_fp32<Fp16>({"precision.weights=fp16", "precision.loss_scale_initial=1024"}, 3.5e-3 / 8);
}

// The first factor is so large that the gradient of the logits, about 2^24 / targets, is infinite: steps are left out,
// nothing is touched, the factor falls, and the run learns.
TEST_F(DeviceTraining, Fp16LeavesOverflowsOutAndGoesOn) {
    const RunConfig run = run_of({"numerics.compute=fp32", "precision.weights=fp16", "precision.loss_scale_window=8",
                                  "precision.loss_scale_initial=16777216"});
    Place<Fp16> gpu(run, "cuda");
    Engine<Fp16>& engine = *gpu.engine;
    const u64 before = engine.model_hash();
    std::vector<double> losses, factors;
    for (i64 step = 0; step < 30; ++step) {
        const std::vector<Batch> batches = make_batches(run, 0, step % 3);
        const StepResult result =
            train_step<Fp16>(engine, batches, agree_control(engine.mesh, batches, Wish::go_on).targets);
        ASSERT_TRUE(std::isfinite(result.loss)) << step;
        ASSERT_EQ(std::isfinite(result.norm), !result.skipped) << step;
        ASSERT_EQ(result.overflow, result.skipped) << step;
        factors.push_back(result.loss_scale);
        if (step == 0) {
            EXPECT_TRUE(result.skipped);
            EXPECT_EQ(engine.model_hash(), before);
        }
        if (!result.skipped) {
            losses.push_back(result.loss);
        }
    }
    EXPECT_EQ(factors[0], 16777216);
    EXPECT_EQ(factors[1], 8388608);
    EXPECT_EQ(static_cast<i64>(losses.size()), engine.updates());
    EXPECT_GE(engine.skipped, 1);
    EXPECT_GE(engine.updates(), 15);
    EXPECT_EQ(engine.consecutive_skips, 0);
    EXPECT_NE(engine.model_hash(), before);
    EXPECT_LT(losses.back(), losses.front());
    std::printf("fp16: %lld of 30 steps left out, the factor %.0f at last\n", static_cast<long long>(engine.skipped),
                engine.scaling.factor());
}

const std::vector<std::string> in_fp8 = {"numerics.compute=fp32", "precision.weights=bf16", "numerics.linears=fp8",
                                         "model.hidden=64",       "model.heads=4",          "train.sequence=16"};

void skip_without_fp8() {
    const cuda::Device& device = cuda::list_devices().devices.front();
    if (10 * device.major + device.minor < 89) {
        GTEST_SKIP() << "fp8 needs compute capability 8.9, " << device.name << " is older";
    }
}

// Roundings of 2^-4 and 2^-3 of every operand, 30 to 60 times those of bf16, of independent signs: 1.3e-3 observed.
TEST_F(DeviceTraining, Fp8LinearsFollowBf16) {
    skip_without_fp8();
    if (IsSkipped()) {
        return;
    }
    for (const char* recompute : {"none", "selective", "full"}) {
        std::vector<std::string> lines = in_fp8;
        lines.push_back(fmt::format("train.recompute={}", recompute));
        const RunConfig fp8 = run_of(lines);
        lines[2] = "numerics.linears=compute";
        const RunConfig bf16 = run_of(lines);
        Place<Bf16> low(fp8, "cuda"), high(bf16, "cuda");
        const std::vector<double> a = low.train(20), b = high.train(20);
        double worst = 0;
        for (std::size_t i = 0; i < a.size(); i += 2) {  // losses
            ASSERT_TRUE(std::isfinite(a[i]));
            worst = std::max(worst, std::abs(a[i] - b[i]) / b[i]);
        }
        EXPECT_GT(worst, 0);
        EXPECT_LE(worst, 1e-2);
        EXPECT_LT(a[a.size() - 2], a[0]) << "it learns";
        std::printf("fp8 linears against bf16, recompute %s: largest difference of a loss %.2e\n", recompute, worst);
    }
}

// In fixed order recomputation and a break leave the bits alone, in fp8 as in any type.
TEST_F(DeviceTraining, Fp8LinearsAreRepeatable) {
    skip_without_fp8();
    if (IsSkipped()) {
        return;
    }
    const SharedFolder folder;
    std::vector<std::string> lines = in_fp8;
    const RunConfig run = run_of(lines);
    lines.emplace_back("train.recompute=full");
    Place<Bf16> straight(run, "cuda"), again(run_of(lines), "cuda"), first(run, "cuda"), second(run, "cuda");
    const std::vector<double> whole = straight.train(8);
    EXPECT_EQ(again.train(8), whole);
    std::vector<double> joined = first.train(4);
    first.save(folder.path("fp8"));
    second.load(folder.path("fp8/step-00000004"));
    for (const double value : second.train(8)) {
        joined.push_back(value);
    }
    EXPECT_EQ(joined, whole);
    EXPECT_EQ(second.engine->model_hash(), straight.engine->model_hash());
}

TEST_F(DeviceTraining, ANonFiniteGradientIsNamedAndUpdatesNothing) {
    const RunConfig run = run_of({"numerics.compute=fp32"});
    Place<float> gpu(run, "cuda");
    gpu.train(2);
    const u64 before = gpu.engine->model_hash();
    const float nan = std::nanf("");
    gpu.engine->units.set_hook([&](i64 unit, FlatRange, float* values) {
        if (unit == 2) {
            copy_bytes(gpu.engine->stream, values + 1, &nan, sizeof nan);
            wait(gpu.engine->stream);
        }
    });
    const std::vector<Batch> batches = make_batches(run, 0, gpu.engine->step);
    const i64 targets = agree_control(gpu.engine->mesh, batches, Wish::go_on).targets;
    const StepResult result = train_step<float>(*gpu.engine, batches, targets);
    EXPECT_TRUE(result.skipped);
    EXPECT_TRUE(result.nonfinite.found);
    EXPECT_EQ(result.nonfinite.parameter, "block.1.norm1.weight");
    EXPECT_EQ(gpu.engine->model_hash(), before);
}

}  // namespace
}  // namespace ogrom::test
