// A run that starts with weights of its user's choice: the same bits in every layout, whatever form they come in;
// everything else as in any fresh run; a requeue goes on from its own checkpoint.
#include "src/train/initial.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/base/file.h"
#include "src/io/hf_gpt2.h"
#include "src/train/layout_compare.h"
#include "src/train/layout_trial.h"

#include "tests/equivalence/corpus.h"

namespace ogrom::test {
namespace {

using enum PipelineSchedule;

struct Spread {
    const char* name;
    i64 model, pipeline, data, tensor, zero;  // model: of selftest_models()
    PipelineSchedule schedule = one_f_one_b;
    bool sequence_parallel = false;

    [[nodiscard]] i64 ranks() const { return pipeline * data * tensor; }
};

const std::vector<Spread>& spreads() {
    static const std::vector<Spread> all = {
        {"one", 0, 1, 1, 1, 0},
        {"tp2", 0, 1, 1, 2, 0},
        {"pp2", 0, 2, 1, 1, 0},
        {"dp2zero3", 0, 1, 2, 1, 3},
        {"dp2zero1", 0, 1, 2, 1, 1},
        {"interleaved", 1, 2, 1, 1, 0, interleaved},
        {"tp2pp2", 0, 2, 1, 2, 0},
        {"dp4zero3", 0, 1, 4, 1, 3},
        {"pp2dp2zb", 1, 2, 2, 1, 2, zero_bubble},
        {"tp2dp2sp", 1, 1, 2, 2, 3, one_f_one_b, true},
    };
    return all;
}

RunConfig run_of(const Spread& spread, const std::string& from, bool tied, Dtype compute) {
    SelftestLayout layout;
    layout.model = spread.model;
    layout.pipeline = spread.pipeline;
    layout.data = spread.data;
    layout.tensor = spread.tensor;
    layout.zero = spread.zero;
    layout.schedule = spread.schedule;
    layout.sequence_parallel = spread.sequence_parallel;
    layout.dropout = true;
    layout.tied = tied;
    layout.compute = compute;
    layout.steps = 2;
    RunConfig run = parse_layout(layout, spread.ranks());
    run.checkpoint.init_from = from;
    return run;
}

// A trained model in every form, made by rank 0 alone.
struct Forms {
    std::string full, hf64, hf32, imported;  // imported: from hf32, weights alone
};
Forms write_forms(const SharedFolder& folder, i64 model, bool tied) {
    const Forms forms{folder.path("run/step-00000002"), folder.path("hf64"), folder.path("hf32"), folder.path("start")};
    if (session().rank() == 0) {
        const auto alone = make_single_communicator();
        const RunConfig run = run_of({"one", model, 1, 1, 1, 0}, "", tied, Dtype::fp64);
        Mesh mesh = make_mesh(*alone, run.parallel);
        const auto engine = make_trial<double>(run, mesh);
        run_trial(*engine);
        CheckpointHeader header;
        header.step = engine->step;
        header.run_toml = run.resolved_toml;
        header.provenance_json = "{}";
        header.weight_hash = engine->model_hash();
        save_checkpoint<double>(*alone, folder.path("run"), header, engine->layout, run.model,
                                engine->groups_to_write(), 1);
        export_hf(forms.full, forms.hf64, Dtype::fp64, 100'000);
        export_hf(forms.full, forms.hf32, Dtype::fp32, i64{1} << 40);
        write_checkpoint(HfSource(forms.hf32), forms.imported, 3, Kept::weights);
    }
    session().world().barrier("forms").wait();
    return forms;
}

struct Begun {
    u64 hash = 0;
    double loss = 0;
    double off = 0;  // largest deviation from the weights of the form
};

template <class T>
i64 nonzero(const FlatView<T>& view) {
    return std::count_if(view.data().begin(), view.data().end(), [](T value) { return value != T(0); });
}

// Whole flat weights of a checkpoint, as one rank holds them.
template <class T>
std::vector<T> weights_in(const std::string& checkpoint, const RunConfig& run, Types types) {
    const ParameterTable table = make_parameters(run.model, dtype_of<T>());
    const ParameterLayout layout(table, StageSpan{0, 0, 0, run.model.layers, true, true});
    std::vector<T> flat(static_cast<std::size_t>(layout.size()));
    std::vector<std::string> skipped;
    const std::vector<StateGroup<T>> wanted = {{"weights", {{{0, layout.size()}, flat.data()}}}};
    load_checkpoint<T>(*make_single_communicator(), checkpoint, layout, wanted, true, skipped, Hashes::check, types);
    return flat;
}

// The first ranks of the program start from `from` and make one step. `like`: a checkpoint with the same values.
template <class T>
Begun begin(const Spread& spread, const std::string& from, const std::string& like, bool tied) {
    Begun begun;
    const int rank = session().rank();
    const bool part = rank < spread.ranks();
    const auto world = session().world().split(part ? 0 : 1, rank, "part", CollectiveCheck::off);
    if (part) {
        const RunConfig run = run_of(spread, from, tied, dtype_of<T>());
        Mesh mesh = make_mesh(*world, run.parallel);
        InitialWeights initial(*world, run, {});
        const auto engine = make_trial<T>(run, mesh);
        EXPECT_NE(engine->model_hash(), read_header(like).weight_hash) << "the drawn weights";
        initial.load(*engine);
        begun.hash = engine->model_hash();
        EXPECT_EQ(begun.hash, read_header(like).weight_hash) << spread.name << " from " << from;
        begun.off = weight_deviation<T>(*engine, run.model, weights_in<T>(like, run, Types::may_widen));
        EXPECT_EQ(nonzero(engine->state.moment1) + nonzero(engine->state.moment2), 0);
        EXPECT_EQ(engine->step + engine->samples_read() + engine->skipped, 0);
        engine->require_equal_copies();
        const std::vector<Batch> batches = trial_batches(run, mesh.place.dp, 0);
        begun.loss = train_step<T>(*engine, batches, agree_control(mesh, batches, Wish::go_on).targets).loss;
        world->all_reduce(&begun.off, 1, Dtype::fp64, ReduceOp::max, ReduceOrder::any, nullptr, "test").wait();
    }
    session().world().barrier("begun").wait();
    return begun;
}

// Every spread of the model from each of `sources` (with a checkpoint of the same values), against one rank. The loss
// is a mean of many terms with errors of 1e-16 in fp64.
void expect_same_start(i64 model, bool tied, const std::vector<std::pair<std::string, std::string>>& sources) {
    for (const auto& [from, like] : sources) {
        const Begun alone = begin<double>({"one", model, 1, 1, 1, 0}, from, like, tied);
        for (const Spread& spread : spreads()) {
            if (spread.model != model || spread.ranks() > session().size()) {
                continue;
            }
            const Begun begun = begin<double>(spread, from, like, tied);
            EXPECT_EQ(begun.off, 0) << spread.name << " from " << from;
            if (session().rank() == 0) {
                EXPECT_LE(largest_difference({begun.loss}, {alone.loss}), 1.5e-15) << spread.name;
            }
        }
    }
}

TEST(Initial, EveryFormGivesTheSameBitsInEveryLayout) {
    const SharedFolder folder;
    const Forms forms = write_forms(folder, 0, true);
    expect_same_start(0, true,
                      {{forms.full, forms.full},
                       {folder.path("run"), forms.full},
                       {forms.hf64, forms.full},
                       {forms.hf32, forms.imported},
                       {forms.imported, forms.imported}});
    const Spread single = {"fp32", 0, 1, 1, session().size() == 1 ? 1 : 2, 0};
    EXPECT_EQ(begin<float>(single, forms.hf32, forms.imported, true).off, 0);
}
TEST(Initial, UntiedToo) {
    const SharedFolder folder;
    const Forms forms = write_forms(folder, 0, false);
    expect_same_start(0, false, {{forms.hf32, forms.imported}});
}
TEST(Initial, InEverySchedule) {
    const SharedFolder folder;
    const Forms forms = write_forms(folder, 1, true);
    expect_same_start(1, true, {{forms.hf32, forms.imported}, {forms.imported, forms.imported}});
}

// Values of fp64 do not fit into fp32 weights: refused on every rank, before any memory is taken.
TEST(Initial, NothingIsRounded) {
    const SharedFolder folder;
    const Forms forms = write_forms(folder, 0, true);
    for (const std::string& from : {forms.full, forms.hf64}) {
        const RunConfig run = run_of({"dp", 0, 1, session().size(), 1, 0}, from, true, Dtype::fp32);
        try {
            InitialWeights initial(session().world(), run, {});
            ADD_FAILURE() << "accepted: " << from;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            const std::string text = error.what();
            EXPECT_NE(text.find("holds weights in fp64, precision.weights = \"fp32\""), std::string::npos) << text;
        }
    }
}

std::map<std::string, std::string> origin_of(const std::string& checkpoint) {
    return origin_within(read_header(checkpoint).extra);
}

// The same command line again and again: the first start takes the weights, later ones the run's own checkpoints, and
// all of these remember where the first weights came from.
TEST(Initial, ARequeueGoesOnWithTheRunsOwnCheckpoint) {
    const SharedFolder folder;
    const std::string corpus = folder.path("corpus"), first = folder.path("first");
    write_corpus(corpus);
    const TrainSummary base = run_trainer<double>(corpus_run(corpus, first, {"train.steps=3"}), {});
    const std::vector<std::string> from = {"checkpoint.init_from=" + first};
    const RunConfig straight = corpus_run(corpus, folder.path("straight"), from);
    const RunConfig cut = corpus_run(corpus, folder.path("cut"), from);
    const TrainSummary whole = run_trainer<double>(straight, {});
    const ResumeChoice again = parse_resume("auto");
    EXPECT_EQ(run_trainer<double>(cut, {.resume = again, .stop_after_steps = 5}).steps, 5);
    if (session().rank() == 0) {
        std::filesystem::remove_all(first);  // not read any more
    }
    session().world().barrier("removed").wait();
    const TrainSummary second = run_trainer<double>(cut, {.resume = again});
    EXPECT_EQ(second.steps, 12);
    EXPECT_EQ(second.weight_hash, whole.weight_hash);
    EXPECT_EQ(std::bit_cast<u64>(second.loss), std::bit_cast<u64>(whole.loss));
    const std::map<std::string, std::string> origin = origin_of(second.checkpoint);
    ASSERT_EQ(origin.size(), 3u);
    EXPECT_EQ(origin.at("init_from"), first + "/checkpoints/step-00000003");
    EXPECT_EQ(origin.at("init_form"), "checkpoint of step 3");
    EXPECT_EQ(origin.at("init_weight_hash"), fmt::format("{:016x}", base.weight_hash));
    EXPECT_EQ(origin_of(whole.checkpoint), origin);
}

}  // namespace
}  // namespace ogrom::test
