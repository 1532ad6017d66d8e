// From one layout to another: an engine that loads the checkpoint of another layout trains on as the straight run does,
// in fp64, where a fault of 1e-6 shows. Layouts of fewer ranks than the program has run on its first ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/train/layout_compare.h"
#include "src/train/layout_trial.h"
#include "src/train/step.h"

#include "tests/equivalence/tiny.h"

namespace ogrom::test {
namespace {

using enum PipelineSchedule;

struct Spread {
    const char* name;
    i64 pipeline, data, tensor, zero;
    PipelineSchedule schedule = one_f_one_b;
    bool sequence_parallel = false;

    [[nodiscard]] i64 ranks() const { return pipeline * data * tensor; }
};

struct Pair {
    i64 model;  // of selftest_models(): 0 odd, 1 even
    Spread from, to;
};

const std::vector<Pair>& pairs() {
    static const std::vector<Pair> all = {
        {0, {"one", 1, 1, 1, 0}, {"one", 1, 1, 1, 0}},
        {0, {"one", 1, 1, 1, 0}, {"tp2", 1, 1, 2, 0}},
        {0, {"one", 1, 1, 1, 0}, {"pp3", 3, 1, 1, 0}},
        {0, {"dp4zero1", 1, 4, 1, 1}, {"dp4zero3", 1, 4, 1, 3}},
        {0, {"tp2pp2", 2, 1, 2, 0}, {"dp4", 1, 4, 1, 0}},
        {0, {"dp4zero3", 1, 4, 1, 3}, {"dp2zero0", 1, 2, 1, 0}},
        {0, {"dp2zero3", 1, 2, 1, 3}, {"one", 1, 1, 1, 0}},
        {0, {"dp2zero2", 1, 2, 1, 2}, {"tp2sp", 1, 1, 2, 1, one_f_one_b, true}},
        {1, {"interleaved", 2, 1, 1, 0, interleaved}, {"pp2dp2zb", 2, 2, 1, 1, zero_bubble}},
        {1, {"dp2", 1, 2, 1, 0}, {"interleaved", 2, 1, 1, 1, interleaved}},
        {1, {"tp2dp2sp", 1, 2, 2, 3, one_f_one_b, true}, {"pp4", 4, 1, 1, 0, gpipe}},
    };
    return all;
}

constexpr i64 saved_at = 3, last_step = 8;

RunConfig run_of(i64 model, const Spread& spread) {
    SelftestLayout layout;
    layout.model = model;
    layout.pipeline = spread.pipeline;
    layout.data = spread.data;
    layout.tensor = spread.tensor;
    layout.zero = spread.zero;
    layout.schedule = spread.schedule;
    layout.sequence_parallel = spread.sequence_parallel;
    layout.dropout = true;
    layout.steps = last_step;
    return parse_layout(layout, spread.ranks());
}

struct Trained {
    Course course;
    u64 weight_hash = 0;
    std::vector<double> weights;  // of a run of one rank
};

void go_on(Engine<double>& engine, i64 last, Course& course) {
    while (engine.step < last) {
        const std::vector<Batch> batches = trial_batches(engine.run, engine.mesh.place.dp, engine.step);
        const StepResult result =
            train_step<double>(engine, batches, agree_control(engine.mesh, batches, Wish::go_on).targets);
        engine.require_equal_copies();  // B01: both copies of a tied table, after every step
        course.losses.push_back(result.loss);
        course.norms.push_back(result.norm);
    }
}

void save(const Engine<double>& engine, const std::string& folder) {
    CheckpointHeader header;
    header.step = engine.step;
    header.run_toml = engine.run.resolved_toml;
    header.provenance_json = "{}";
    header.weight_hash = engine.model_hash();
    save_checkpoint<double>(engine.world, folder, header, engine.layout, engine.run.model, engine.groups_to_write(), 1);
}

void load(Engine<double>& engine, const std::string& folder) {
    std::vector<std::string> left_out;
    const auto wanted = engine.groups_to_load();
    load_checkpoint<double>(engine.world, folder, engine.layout, wanted, true, left_out);
    engine.adopt_loaded();
    engine.step = engine.resumed_at = read_header(folder).step;
}

std::unique_ptr<Communicator> first_ranks(i64 ranks) {
    const int rank = session().rank();
    return session().world().split(rank < ranks ? 0 : 1, rank, "part", CollectiveCheck::off);
}

bool takes_part(i64 ranks) {
    return session().rank() < ranks;
}

// Steps 1 to `last_step` without a break, on one rank (rank 0 of the program).
const Trained& straight(i64 model) {
    static std::map<i64, Trained> kept;
    const auto [at, fresh] = kept.try_emplace(model);
    if (fresh && takes_part(1)) {
        const std::unique_ptr<Communicator> one = make_single_communicator();
        const RunConfig run = run_of(model, {"one", 1, 1, 1, 0});
        Mesh mesh = make_mesh(*one, run.parallel);
        const auto engine = make_trial<double>(run, mesh);
        go_on(*engine, last_step, at->second.course);
        const std::span<const double> weights = engine->state.weights.data();
        at->second.weights.assign(weights.begin(), weights.end());
    }
    return at->second;
}

// Trains the first steps under one layout, saves, loads under the other, and trains the rest.
Course over(const Pair& pair, const std::string& folder, double& weights_off) {
    Course course;
    {
        const auto world = first_ranks(pair.from.ranks());
        if (takes_part(pair.from.ranks())) {
            const RunConfig run = run_of(pair.model, pair.from);
            Mesh mesh = make_mesh(*world, run.parallel);
            const auto engine = make_trial<double>(run, mesh);
            go_on(*engine, saved_at, course);
            save(*engine, folder);
        }
    }
    session().world().barrier("saved").wait();
    course = {};
    const auto world = first_ranks(pair.to.ranks());
    if (takes_part(pair.to.ranks())) {
        const RunConfig run = run_of(pair.model, pair.to);
        Mesh mesh = make_mesh(*world, run.parallel);
        const auto engine = make_trial<double>(run, mesh);
        load(*engine, folder + "/step-00000003");
        go_on(*engine, last_step, course);
        std::vector<double> whole = straight(pair.model).weights;
        i64 size = static_cast<i64>(whole.size());
        world->broadcast(&size, 1, Dtype::i64, 0, "weights").wait();
        whole.resize(static_cast<std::size_t>(size));
        world->broadcast(whole.data(), size, Dtype::fp64, 0, "weights").wait();
        weights_off = weight_deviation<double>(*engine, run.model, whole);
        world->all_reduce(&weights_off, 1, Dtype::fp64, ReduceOp::max, ReduceOrder::any, nullptr, "test").wait();
    }
    session().world().barrier("compared").wait();
    return course;
}

// fp64: loss and norm are sums of terms with errors of 1e-16; the weights' reach 1e-13 of a tensor by AdamW's division
// of gradients that are noise. The state at the save differs by that much already, for the straight run is of one rank.
TEST(Restart, EveryPairOfLayoutsTrainsOnAsTheStraightRun) {
    i64 run = 0;
    for (const Pair& pair : pairs()) {
        if (std::max(pair.from.ranks(), pair.to.ranks()) > session().size()) {
            continue;
        }
        const std::string name = fmt::format("{} -> {}", pair.from.name, pair.to.name);
        const SharedFolder folder;
        const Trained& reference = straight(pair.model);
        double weights_off = 0;
        const Course course = over(pair, folder.path("checkpoints"), weights_off);
        ++run;
        if (session().rank() != 0) {
            continue;
        }
        const auto tail = [](const std::vector<double>& all) {
            return std::vector<double>(all.begin() + saved_at, all.end());
        };
        const double loss = series_deviation(course.losses, tail(reference.course.losses));
        const double norm = series_deviation(course.norms, tail(reference.course.norms));
        EXPECT_LE(loss, 1.5e-15) << name;
        EXPECT_LE(norm, 5e-15) << name;
        EXPECT_LE(weights_off, 1e-12) << name;
    }
    const i64 of_all = static_cast<i64>(pairs().size());
    EXPECT_EQ(run, session().size() >= 4 ? of_all : session().size() >= 2 ? 5 : 1);
}

}  // namespace
}  // namespace ogrom::test
