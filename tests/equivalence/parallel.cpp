// Tensor, sequence, pipeline and data parallelism, ZeRO, recomputation: every
// layout trains the model of one rank. Each layout is a test of its own; those
// of as many ranks as the program has are run.
#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>

#include "src/model/tensor_traffic.h"
#include "src/optim/traffic.h"
#include "src/pipeline/execute.h"
#include "src/train/layout_compare.h"
#include "src/train/layout_trial.h"
#include "src/train/step.h"

#include "tests/equivalence/tiny.h"

namespace ogrom::test {
namespace {

using enum PipelineSchedule;
constexpr i64 odd = 0, even = 1;  // of selftest_models()

// Letters of a case: s sequence parallel, r replicas (HSDP), b small buckets, n
// no overlap, g regather once a step, d dropout, u untied head, x any order of
// sums, 2 micro-batches of two samples, c recompute selective, f full, e full
// for every second layer.
struct Case {
    i64 model, pipeline, data, tensor, zero;
    PipelineSchedule schedule;
    const char* letters;
};

void PrintTo(const Case& c, std::ostream* out) {
    *out << c.letters;
}

SelftestLayout layout_of(const Case& c) {
    const auto has = [&](char letter) { return std::string_view(c.letters).find(letter) != std::string_view::npos; };
    SelftestLayout layout;
    layout.model = c.model;
    layout.pipeline = c.pipeline;
    layout.data = c.data;
    layout.tensor = c.tensor;
    layout.zero = c.zero;
    layout.schedule = c.schedule;
    layout.sequence_parallel = has('s');
    layout.replicas = has('r');
    layout.small_buckets = has('b');
    layout.overlap = !has('n');
    layout.regather_once = has('g');
    layout.dropout = has('d');
    layout.tied = !has('u');
    layout.deterministic = !has('x');
    layout.micro_batch = has('2') ? 2 : 1;
    layout.recompute = has('c') ? Recompute::selective : has('f') || has('e') ? Recompute::full : Recompute::none;
    layout.recompute_interval = has('e') ? 2 : 1;
    return layout;
}

const std::vector<Case>& cases() {
    static const std::vector<Case> all = {
        // 2 ranks
        {odd, 1, 2, 1, 0, one_f_one_b, "xb"},
        {odd, 1, 2, 1, 1, one_f_one_b, "xd"},
        {odd, 1, 2, 1, 1, one_f_one_b, "bc"},
        {odd, 1, 2, 1, 2, one_f_one_b, "du2"},
        {odd, 1, 2, 1, 2, one_f_one_b, "xbnf"},
        {odd, 1, 2, 1, 3, one_f_one_b, "d"},
        {odd, 1, 2, 1, 3, one_f_one_b, "xgue"},
        {odd, 1, 1, 2, 0, one_f_one_b, "x"},
        {odd, 1, 1, 2, 0, one_f_one_b, "sd2"},
        {odd, 1, 1, 2, 3, one_f_one_b, "xsuf"},
        {odd, 2, 1, 1, 0, gpipe, "d"},
        {odd, 2, 1, 1, 0, one_f_one_b, "xu2"},
        {odd, 2, 1, 1, 1, zero_bubble, "dc"},
        {even, 2, 1, 1, 0, interleaved, "xf"},
        {odd, 2, 1, 1, 3, zero_bubble, "xdf"},
        // 4 ranks
        {odd, 1, 4, 1, 0, one_f_one_b, "xb"},
        {odd, 1, 4, 1, 2, one_f_one_b, "dr"},
        {odd, 1, 4, 1, 3, one_f_one_b, "xrb"},
        {odd, 1, 2, 2, 1, one_f_one_b, "xsd"},
        {odd, 1, 2, 2, 2, one_f_one_b, "uc"},
        {odd, 1, 2, 2, 3, one_f_one_b, "sdf"},
        {odd, 2, 1, 2, 0, one_f_one_b, "xs"},
        {odd, 2, 1, 2, 0, zero_bubble, "du"},
        {odd, 2, 2, 1, 0, one_f_one_b, "xd"},
        {odd, 2, 2, 1, 1, gpipe, "b2"},
        {odd, 2, 2, 1, 2, one_f_one_b, "xdc"},
        {odd, 2, 2, 1, 3, zero_bubble, "u"},
        {even, 2, 2, 1, 3, interleaved, "xdg"},
        {even, 4, 1, 1, 0, one_f_one_b, "dn"},
        {even, 4, 1, 1, 1, interleaved, "xue"},
        {even, 4, 1, 1, 0, zero_bubble, "x"},
        {even, 1, 1, 4, 0, one_f_one_b, "xsd2"},
        {even, 1, 1, 4, 2, one_f_one_b, "u"},
        // 8 ranks
        {odd, 2, 2, 2, 1, one_f_one_b, "xsd"},
        {odd, 2, 2, 2, 3, zero_bubble, "sd"},
        {even, 2, 2, 2, 2, interleaved, "xsu"},
        {even, 2, 2, 2, 3, one_f_one_b, "xdf"},
        {even, 8, 1, 1, 0, zero_bubble, "x2"},
        {even, 8, 1, 1, 1, interleaved, "d"},
        {even, 1, 1, 8, 0, one_f_one_b, "xsd"},
        {even, 1, 8, 1, 3, one_f_one_b, "xr"},
        {even, 1, 8, 1, 2, one_f_one_b, "db"},
        {even, 4, 1, 2, 2, zero_bubble, "xsc"},
        {even, 1, 4, 2, 3, one_f_one_b, "xsrd"},
        {even, 4, 2, 1, 1, gpipe, "xu"},
    };
    return all;
}

template <class T>
struct Alone {
    RunConfig run;
    Course course;
    std::vector<T> weights, before;
};

// One rank on the same model and trial; kept, for several layouts have the
// same.
template <class T>
const Alone<T>& alone_of(const SelftestLayout& layout) {
    static std::map<std::string, Alone<T>> kept;
    SelftestLayout serial = selftest_serial(layout.reference());
    serial.steps = layout.steps;
    serial.plain_sgd = layout.plain_sgd;
    serial.compute = layout.compute;
    const auto [at, fresh] = kept.try_emplace(serial.run_text());
    Alone<T>& alone = at->second;
    if (fresh) {
        const std::unique_ptr<Communicator> one = make_single_communicator();
        alone.run = parse_layout(serial, 1);
        Mesh mesh = make_mesh(*one, alone.run.parallel);
        const std::unique_ptr<Engine<T>> engine = make_trial<T>(alone.run, mesh);
        const std::span<const T> weights = engine->state.weights.data();
        alone.before.assign(weights.begin(), weights.end());
        alone.course = run_trial(*engine);
        alone.weights.assign(weights.begin(), weights.end());
    }
    return alone;
}

enum class Change { from_nothing, of_the_step };

struct Deviation {
    double loss = 0, norm = 0, weights = 0;
};

template <class T>
Deviation deviation_of(const SelftestLayout& layout, Change change) {
    const Alone<T>& alone = alone_of<T>(layout);
    const RunConfig run = parse_layout(layout, session().size());
    Mesh mesh = make_mesh(session().world(), run.parallel);
    const std::unique_ptr<Engine<T>> engine = make_trial<T>(run, mesh);
    const Course course = run_trial(*engine);
    const std::span<const T> before =
        change == Change::of_the_step ? std::span<const T>(alone.before) : std::span<const T>();
    double weights = weight_deviation<T>(*engine, run.model, alone.weights, before);
    session().world().all_reduce(&weights, 1, Dtype::fp64, ReduceOp::max, ReduceOrder::any, nullptr, "test").wait();
    return {series_deviation(course.losses, alone.course.losses), series_deviation(course.norms, alone.course.norms),
            weights};
}

// Names begin with the ranks: a program of N ranks runs n<N>_* alone
// (main.cpp).
class Parallel : public testing::TestWithParam<Case> {};

// fp64, 20 AdamW steps with clipping and accumulation: rounding of 1e-16 grows
// to some 1e-13; a fault of 1e-6 shows.
TEST_P(Parallel, TwentyStepsInDouble) {
    SelftestLayout layout = layout_of(GetParam());
    layout.steps = 20;
    const Deviation d = deviation_of<double>(layout, Change::from_nothing);
    EXPECT_LE(d.loss, 1e-12) << layout.name();
    EXPECT_LE(d.norm, 1e-11) << layout.name();
    EXPECT_LE(d.weights, 1e-11) << layout.name();
}

// B04: the gradient itself, tensor by tensor: sums of 1e3 terms in another
// order.
TEST_P(Parallel, OneSgdStepInDouble) {
    SelftestLayout layout = layout_of(GetParam());
    layout.steps = 1;
    layout.plain_sgd = true;
    const Deviation d = deviation_of<double>(layout, Change::of_the_step);
    EXPECT_LE(d.loss, 1e-14) << layout.name();
    EXPECT_LE(d.norm, 1e-13) << layout.name();
    EXPECT_LE(d.weights, 1e-10) << layout.name();
}

TEST_P(Parallel, OneSgdStepInSingle) {
    SelftestLayout layout = layout_of(GetParam());
    layout.steps = 1;
    layout.plain_sgd = true;
    layout.compute = Dtype::fp32;
    const Deviation d = deviation_of<float>(layout, Change::of_the_step);
    EXPECT_LE(d.loss, 1e-5) << layout.name();
    EXPECT_LE(d.norm, 1e-5) << layout.name();
    EXPECT_LE(d.weights, 2e-5) << layout.name();
}

TensorTraffic tensor_traffic(const Engine<double>& engine) {
    const RunConfig& run = engine.run;
    const StageShape& shape = engine.decisions.shape;
    const TensorGroup group{nullptr, shape.tensor.size, shape.tensor.rank, shape.sequence, shape.reduce_order};
    const TrafficShape t{group, run.train.micro_batch * run.train.sequence, run.model.hidden, shape.extents.logits_rows,
                         Dtype::fp64};
    TensorTraffic sum;
    for (const UnitUse& use : engine.uses) {
        const Unit& unit = engine.layout.units()[static_cast<std::size_t>(use.unit)];
        const bool again = unit.kind == UnitKind::block && recompute_of(shape, unit.layer) == Recompute::full;
        if (unit.kind == UnitKind::embedding) {
            sum += use.use == Use::forward ? embedding_forward_traffic(t) : embedding_backward_traffic(t);
        } else if (unit.kind == UnitKind::head) {
            sum += head_backward_traffic(t);
        } else if (use.use == Use::forward) {
            sum += block_forward_traffic(t);
        } else if (use.use == Use::backward_weight) {
            sum += block_weight_traffic(t);
        } else {
            sum += block_backward_traffic(t);
            sum += (use.use == Use::backward_input ? -1 : 0) * block_weight_traffic(t);
            sum += (again ? 1 : 0) * block_again_traffic(t);
        }
    }
    return sum;
}

// What each label sends in a step is what its formula says.
TEST_P(Parallel, BytesOfAStepFollowTheFormulas) {
    using Bytes = std::map<std::string, i64, std::less<>>;
    const SelftestLayout layout = layout_of(GetParam());
    const RunConfig run = parse_layout(layout, session().size());
    Mesh mesh = make_mesh(session().world(), run.parallel);
    const std::unique_ptr<Engine<double>> engine = make_trial<double>(run, mesh);
    const std::vector<Batch> batches = trial_batches(run, mesh.place.dp, 0);
    const i64 targets = agree_control(mesh, batches, Wish::go_on).targets;
    const Bytes before = bytes_by_label(mesh);
    train_step<double>(*engine, batches, targets);
    Bytes sent = bytes_by_label(mesh);
    for (const auto& [label, bytes] : before) {
        sent[label] -= bytes;
    }
    for (const char* small : {"loss", "gradient norm"}) {  // a few words over the world
        sent.erase(small);
    }
    Bytes expected = step_traffic(engine->layout, engine->ownership, engine->decisions.step, engine->decisions.place,
                                  engine->uses, 8, 8);
    const TensorTraffic tensor = tensor_traffic(*engine);
    expected[std::string(tensor_sum_label)] += tensor.all_reduce;
    expected[std::string(tensor_gather_label)] += tensor.all_gather;
    expected[std::string(tensor_scatter_label)] += tensor.reduce_scatter;
    for (const Action& action : engine->decisions.actions.actions) {
        const i64 bytes = engine->stage.boundary_elements() * 8;
        expected[std::string(activation_label)] += action.kind == ActionKind::send_forward ? bytes : 0;
        expected[std::string(gradient_label)] += action.kind == ActionKind::send_backward ? bytes : 0;
    }
    for (Bytes* map : {&sent, &expected}) {
        std::erase_if(*map, [](const auto& entry) { return entry.second == 0; });
    }
    EXPECT_EQ(sent, expected) << layout.name();
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
    const SelftestLayout layout = layout_of(info.param);
    std::string name = fmt::format("n{}_{}_{}", info.param.pipeline * info.param.data * info.param.tensor,
                                   layout.name(), info.param.letters);
    std::replace_if(
        name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Layouts, Parallel, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace ogrom::test
