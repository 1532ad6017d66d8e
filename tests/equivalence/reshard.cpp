// From any layout to any other, with engines: what one trained and saved, each other one holds after its load, bit for
// bit, on every rank that holds it. (Training on after that: restart.cpp. Ranges without engines: unit/io.) Layouts of
// fewer ranks than the program has run on its first ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <xxhash.h>

#include "src/train/layout_compare.h"
#include "src/train/layout_trial.h"
#include "src/train/resume.h"

#include "tests/equivalence/corpus.h"

namespace ogrom::test {
namespace {

using enum PipelineSchedule;

struct Spread {
    const char* name;
    i64 pipeline, data, tensor, zero;
    PipelineSchedule schedule = one_f_one_b;
    bool replicas = false, sequence_parallel = false;

    [[nodiscard]] i64 ranks() const { return pipeline * data * tensor; }
};

const std::vector<Spread>& spreads() {
    static const std::vector<Spread> all = {
        {"one", 1, 1, 1, 0},
        {"zero3", 1, 2, 1, 3},
        {"tp2sp", 1, 1, 2, 0, one_f_one_b, false, true},
        {"interleaved", 2, 1, 1, 0, interleaved},
        {"zb", 2, 1, 1, 0, zero_bubble},
        {"dp4zero3", 1, 4, 1, 3},
        {"dp4replicas", 1, 4, 1, 1, one_f_one_b, true},
        {"dp4zero0", 1, 4, 1, 0},
        {"interleaved x dp2zero2", 2, 2, 1, 2, interleaved},
        {"zb x tp2", 2, 1, 2, 0, zero_bubble},
        {"dp2zero3 x tp2sp", 1, 2, 2, 3, one_f_one_b, false, true},
        {"pp4", 4, 1, 1, 0, gpipe},
        {"interleaved x dp2zero3 x tp2", 2, 2, 2, 3, interleaved},
        {"zb4 x dp2zero1", 4, 2, 1, 1, zero_bubble},
        {"dp4replicas zero3 x tp2", 1, 4, 2, 3, one_f_one_b, true},
    };
    return all;
}

std::vector<Spread> spreads_here() {
    std::vector<Spread> here;
    for (const Spread& spread : spreads()) {
        if (spread.ranks() <= session().size() && (session().size() < 8 || spread.ranks() != 2)) {
            here.push_back(spread);
        }
    }
    return here;
}

// Of this number of ranks, counted by hand.
i64 layouts_expected() {
    return session().size() >= 8 ? 11 : session().size() >= 4 ? 12 : session().size() >= 2 ? 5 : 1;
}

struct Kind {
    Dtype compute;
    bool tied, background;  // background: what is written is the snapshot of saves behind the steps
};

// Hidden 60, 6 heads, vocabulary 509: 4 layers, so that two stages can have two chunks. Dropout everywhere.
RunConfig run_of(const Spread& spread, const Kind& kind) {
    SelftestLayout layout;
    layout.pipeline = spread.pipeline;
    layout.data = spread.data;
    layout.tensor = spread.tensor;
    layout.zero = spread.zero;
    layout.schedule = spread.schedule;
    layout.replicas = spread.replicas;
    layout.sequence_parallel = spread.sequence_parallel;
    layout.dropout = true;
    layout.tied = kind.tied;
    layout.compute = kind.compute;
    ParseInput input;
    input.path = spread.name;
    input.text = layout.run_text();
    input.ranks = spread.ranks();
    input.overrides = {"model.layers=4", "checkpoint.interval_steps=1",
                       fmt::format("checkpoint.async={}", kind.background)};
    return parse_run(input);
}

std::unique_ptr<Communicator> first_ranks(i64 ranks) {
    const int rank = session().rank();
    return session().world().split(rank < ranks ? 0 : 1, rank, "part", CollectiveCheck::off);
}

template <class T>
void step(Engine<T>& engine) {
    const std::vector<Batch> batches = trial_batches(engine.run, engine.mesh.place.dp, engine.step);
    train_step<T>(engine, batches, agree_control(engine.mesh, batches, Wish::go_on).targets);
}

// Moments that data ranks hold alike (ZeRO 0, and replicas) are equal; of the weights the engine knows itself.
template <class T>
void require_equal_moments(Engine<T>& engine) {
    u64 bits = 0;
    for (const auto* view : {&engine.state.moment1, &engine.state.moment2}) {
        bits = XXH3_64bits_withSeed(view->data().data(), view->data().size_bytes(), bits);
    }
    require_equal_replicas(engine.decisions.step.zero == 0 ? *engine.mesh.dp : *engine.mesh.replica, bits, "moments");
}

struct Saved {
    u64 bits = 0;
    u64 hash = 0;
};

template <class T>
Saved train_and_save(const Spread& spread, const Kind& kind, const std::string& folder) {
    Saved saved;
    const auto world = first_ranks(spread.ranks());
    if (session().rank() < spread.ranks()) {
        const RunConfig run = run_of(spread, kind);
        Mesh mesh = make_mesh(*world, run.parallel);
        const auto engine = make_trial<T>(run, mesh);
        step(*engine);
        step(*engine);
        saved = {state_bits(*engine), engine->model_hash()};
        CheckpointHeader header;
        header.step = engine->step;
        header.run_toml = run.resolved_toml;
        header.provenance_json = "{}";
        header.weight_hash = saved.hash;
        const auto groups = engine->groups_to_write();
        if (kind.background) {
            EXPECT_TRUE(engine->decisions.background_saves);
            step(*engine);
            EXPECT_NE(engine->model_hash(), saved.hash);
        }
        save_checkpoint<T>(*world, folder, header, engine->layout, run.model, groups, 1);
    }
    session().world().barrier("saved").wait();
    return saved;
}

template <class T>
Saved load(const Spread& spread, const Kind& kind, const std::string& checkpoint) {
    Saved loaded;
    const auto world = first_ranks(spread.ranks());
    if (session().rank() < spread.ranks()) {
        const RunConfig run = run_of(spread, kind);
        Mesh mesh = make_mesh(*world, run.parallel);
        const auto engine = make_trial<T>(run, mesh);
        std::vector<std::string> left_out;
        const auto wanted = engine->groups_to_load();
        load_checkpoint<T>(*world, checkpoint, engine->layout, wanted, true, left_out);
        engine->adopt_loaded();
        EXPECT_TRUE(left_out.empty());
        engine->require_equal_copies();
        require_equal_moments(*engine);
        loaded = {state_bits(*engine), engine->model_hash()};
    }
    session().world().barrier("loaded").wait();
    return loaded;
}

// Every `stride`th target of each source, shifted from source to source, so that each layout is the source of some and
// the target of some. Returns the pairs that were compared.
template <class T>
i64 expect_pairs(bool tied, std::size_t stride) {
    const std::vector<Spread> here = spreads_here();
    std::map<std::string, std::pair<i64, i64>> met;  // by name: as source, as target
    i64 pairs = 0;
    for (std::size_t i = 0; i < here.size(); ++i) {
        const SharedFolder folder;
        const Saved saved = train_and_save<T>(here[i], {dtype_of<T>(), tied, i % 2 == 1}, folder.path("checkpoints"));
        for (std::size_t j = i % stride; j < here.size(); j += stride) {
            const Saved loaded =
                load<T>(here[j], {dtype_of<T>(), tied, false}, folder.path("checkpoints/step-00000002"));
            if (session().rank() == 0) {
                EXPECT_EQ(loaded.bits, saved.bits) << here[i].name << " -> " << here[j].name;
                EXPECT_EQ(loaded.hash, saved.hash) << here[i].name << " -> " << here[j].name;
                EXPECT_NE(saved.bits, 0U);
            }
            ++met[here[i].name].first;
            ++met[here[j].name].second;
            ++pairs;
        }
    }
    EXPECT_EQ(static_cast<i64>(here.size()), layouts_expected());
    EXPECT_EQ(met.size(), here.size());
    for (const auto& [name, times] : met) {
        EXPECT_GT(times.first, 0) << name << " was no source";
        EXPECT_GT(times.second, 0) << name << " was no target";
    }
    return pairs;
}

TEST(Reshard, PairsInSingleUntied) {
    const i64 layouts = layouts_expected(), stride = session().size() >= 4 ? 2 : 1;
    const i64 pairs = expect_pairs<float>(false, static_cast<std::size_t>(stride));
    EXPECT_GE(pairs, layouts * (layouts / stride));
    EXPECT_TRUE(session().size() < 4 || pairs >= 30) << pairs;
}

TEST(Reshard, PairsInDoubleTied) {
    const i64 layouts = layouts_expected(), pairs = expect_pairs<double>(true, 3);
    EXPECT_GE(pairs, layouts * (layouts / 3));
    EXPECT_TRUE(session().size() < 4 || pairs >= 30) << pairs;
}

// ---- state that is no tensor ----

constexpr double infinite = std::numeric_limits<double>::infinity();

// S begins at 1024, is never below 512, and doubles after three good steps.
LossScaling scaling() {
    return LossScaling(
        {.weights = Dtype::fp16, .loss_scale_initial = 1024, .loss_scale_window = 3, .loss_scale_min = 512});
}

using Overrides = std::vector<std::string>;

// Two layouts of all ranks, which cut the same batch.
std::pair<Overrides, Overrides> two_layouts() {
    switch (session().size()) {
        case 1:
            return {{"train.micro_batch=6"}, {"train.micro_batch=2"}};
        case 2:
            return {{"parallel.zero=3"}, {"parallel.pipeline=2", "parallel.schedule=zb-h1"}};
        default:
            return {{"model.heads=6", "train.micro_batch=1", "train.global_batch=24", "parallel.zero=1"},
                    {"model.heads=6", "train.micro_batch=1", "train.global_batch=24", "parallel.pipeline=2",
                     "parallel.tensor=2"}};
    }
}

RunConfig skipping_run(const SharedFolder& folder, const char* output, Overrides overrides) {
    overrides.insert(overrides.end(), {"numerics.on_nonfinite=skip", "numerics.max_skipped_steps=3"});
    return corpus_run(folder.path("corpus"), folder.path(output), overrides);
}

// Infinite gradients on the last rank while `spoil` is set.
UnitHook<double> spoiler(const bool& spoil) {
    return [&spoil](i64, FlatRange, double* values) {
        if (spoil && session().rank() == session().size() - 1) {
            values[0] = infinite;
        }
    };
}

StepResult step_on(Engine<double>& engine) {
    const std::vector<Batch> batches = make_batches(engine.run, engine.mesh.place.dp, engine.step);
    return train_step<double>(engine, batches, agree_control(engine.mesh, batches, Wish::go_on).targets);
}

// The engine of another layout that goes on from what `engine` is now: every counter, and the steps after it.
void expect_goes_on(Engine<double>& engine, const RunConfig& other, const std::string& folder,
                    const std::vector<double>& factors) {
    const Sampler sampler(engine.run.data, engine.run.train.sequence, engine.run.model.vocab, SplitPart::train);
    const CheckpointHeader header = make_header(engine, sampler, SavedTexts{}, infinite);
    const auto groups = engine.groups_to_write();
    save_checkpoint<double>(engine.world, folder, header, engine.layout, engine.run.model, groups, 1);
    const std::shared_ptr<Engine<double>> next = make_engine<double>(session().world(), other);
    next->scaling = scaling();
    const std::string step = fmt::format("{}/step-{:08}", folder, engine.step);
    resume_from(*next, read_header(step), SavedTexts{}, step);
    EXPECT_EQ(next->step, engine.step);
    EXPECT_EQ(next->skipped, engine.skipped);
    EXPECT_EQ(next->updates(), engine.updates());
    EXPECT_EQ(next->consecutive_skips, engine.consecutive_skips);
    EXPECT_EQ(next->scaling.factor(), engine.scaling.factor());
    for (const double factor : factors) {
        const StepResult want = step_on(engine), got = step_on(*next);
        EXPECT_EQ(want.loss_scale, factor);
        EXPECT_EQ(got.loss_scale, factor);
        EXPECT_EQ(got.lr, want.lr);
        EXPECT_NEAR(got.loss, want.loss, 1e-13 * want.loss);  // observed: 3e-15
        EXPECT_NEAR(got.norm, want.norm, 1e-12 * want.norm);  // observed: 1e-14
    }
}

TEST(Reshard, LossScaleAndSkippedStepsGoOn) {
    const SharedFolder folder;
    write_corpus(folder.path("corpus"));
    const auto [from, to] = two_layouts();
    const RunConfig run = skipping_run(folder, "from", from), other = skipping_run(folder, "to", to);
    const std::shared_ptr<Engine<double>> engine = make_engine<double>(session().world(), run);
    engine->scaling = scaling();
    bool spoil = false;
    engine->units.set_hook(spoiler(spoil));
    step_on(*engine);
    spoil = true;
    EXPECT_TRUE(step_on(*engine).overflow);
    EXPECT_FALSE(step_on(*engine).overflow) << "512 is the smallest";
    EXPECT_FALSE(step_on(*engine).overflow);
    spoil = false;
    EXPECT_EQ(engine->skipped, 3);
    EXPECT_EQ(engine->consecutive_skips, 2);
    // Two good steps behind the save, then one before the factor doubles.
    expect_goes_on(*engine, other, folder.path("skipped"), {512, 512});
    EXPECT_EQ(engine->consecutive_skips, 0);
    expect_goes_on(*engine, other, folder.path("good"), {512, 1024, 1024});
}

// Two steps skipped before the save and two after it, under another layout, are four in a row.
TEST(Reshard, SkipsInARowAreCountedOverASave) {
    const SharedFolder folder;
    write_corpus(folder.path("corpus"));
    const auto [from, to] = two_layouts();
    const RunConfig run = skipping_run(folder, "run", from), other = skipping_run(folder, "run", to);
    const bool spoil = true;
    run_trainer<double>(run, {.stop_after_steps = 2});
    const TrainSummary skipped =
        run_trainer<double>(run, {.resume = parse_resume(""), .stop_after_steps = 2}, spoiler(spoil));
    EXPECT_EQ(skipped.steps, 4);
    EXPECT_EQ(skipped.skipped, 2);
    std::string said;
    try {
        run_trainer<double>(other, {.resume = parse_resume("")}, spoiler(spoil));
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::numerics);
        said = error.what();
    }
    EXPECT_NE(said.find("step 6: not finite"), std::string::npos) << said;
    EXPECT_NE(said.find("4 steps in a row"), std::string::npos) << said;
}

}  // namespace
}  // namespace ogrom::test
