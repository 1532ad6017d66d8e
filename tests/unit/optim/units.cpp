#include "src/optim/units.h"

#include <limits>

#include "src/optim/gathers.h"

#include "tests/unit/optim/fake_rank.h"
#include "tests/unit/optim/odd_model.h"

namespace ogrom {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

ModelConfig model_of(bool tied, i64 layers = 3) {
    ModelConfig model = odd_model();
    model.tied = tied;
    model.layers = layers;
    return model;
}

// Small whole numbers: every sum is exact, whatever its order.
double gradient(i64 micro_batch, i64 element) {
    return static_cast<double>((micro_batch + 1) * 1000 + element);
}
double gradient_sum(i64 micro_batches, i64 element) {
    double sum = 0;
    for (i64 m = 0; m < micro_batches; ++m) {
        sum += gradient(m, element);
    }
    return sum;
}
double weight(i64 element) {
    return 0.5 + static_cast<double>(element);
}

std::vector<StepOptions> every_option() {
    std::vector<StepOptions> all;
    for (int zero = 0; zero <= 3; ++zero) {
        for (const Regather regather : {Regather::micro_batch, Regather::step}) {
            for (const i64 bucket : {7, 1'000'000}) {
                StepOptions options{zero, GradientWay::staged, ReduceOrder::fixed, bucket, true, regather, false};
                all.push_back(options);
                options.way = zero <= 1 ? GradientWay::direct : GradientWay::staged;
                options.order = ReduceOrder::any;
                options.overlap = false;
                all.push_back(options);
            }
        }
    }
    return all;
}

TEST(ParameterUnits, GiveWeightsAndSumGradientsUnderEveryStage) {
    for (const bool tied : {true, false}) {
        for (const StepOptions& options : every_option()) {
            FakeRank rank({model_of(tied), {}, {}, options, {}, {}});
            for (int step = 0; step < 2; ++step) {
                // Other weights in each step: what an earlier gather left is wrong.
                const auto value = [&](i64 i) { return weight(i) + 100.0 * step; };
                rank.set_weights(value);
                rank.run(straight_passes(3), gradient, value);
                for (i64 i = 0; i < rank.layout.gradient_size(); ++i) {
                    ASSERT_EQ(rank.gradient(i), gradient_sum(3, i))
                        << "zero " << options.zero << ", element " << i << ", step " << step;
                }
                EXPECT_TRUE(rank.guards_intact());
            }
        }
    }
}

// Chunks of one rank interleave, and a split backward gives a block's gradients later than the head's.
TEST(ParameterUnits, FollowInterleavedAndSplitPrograms) {
    const std::vector<StageSpan> chunks{{0, 0, 0, 1, true, false}, {0, 1, 1, 3, false, true}};
    using enum PassKind;
    const std::vector<FakePass> interleaved{
        {PassKind::forward, 0, 0}, {PassKind::forward, 0, 1}, {PassKind::forward, 1, 0}, {backward_input, 1, 0},
        {PassKind::forward, 1, 1}, {backward_input, 1, 1},    {backward_input, 0, 0},    {backward_weight, 1, 0},
        {backward_weight, 0, 0},   {backward_input, 0, 1},    {backward_weight, 1, 1},   {backward_weight, 0, 1}};
    for (const StepOptions& options : every_option()) {
        FakeRank rank({model_of(true), chunks, {}, options, {}, {}});
        rank.set_weights(weight);
        rank.run(interleaved, gradient, weight);
        for (i64 i = 0; i < rank.layout.gradient_size(); ++i) {
            ASSERT_EQ(rank.gradient(i), gradient_sum(2, i)) << "zero " << options.zero << ", element " << i;
        }
    }
}

TEST(ParameterUnits, AnEvaluationLeavesGradientsAlone) {
    for (const StepOptions& options : every_option()) {
        FakeRank rank({model_of(true), {}, {}, options, {}, {}});
        rank.set_weights(weight);
        rank.run(straight_passes(1), gradient, weight);
        rank.run({{PassKind::evaluate, 0, 0}, {PassKind::evaluate, 0, 1}}, gradient, weight);
        for (i64 i = 0; i < rank.layout.gradient_size(); ++i) {
            ASSERT_EQ(rank.gradient(i), gradient(0, i));
        }
    }
}

TEST(ParameterUnits, AnAbandonedStepLeavesNoTrace) {
    for (const StepOptions& options : every_option()) {
        FakeRank rank({model_of(true), {}, {}, options, {}, {}});
        rank.set_weights(weight);
        const std::vector<FakePass> passes = straight_passes(3);
        rank.begin(passes);
        rank.walk(passes[0], gradient, weight);
        rank.walk(
            passes[1], [](i64, i64) { return nan; }, weight);
        rank.units->abandon();
        const auto later = [](i64 i) { return weight(i) + 7; };
        rank.set_weights(later);
        rank.run(passes, gradient, later);
        for (i64 i = 0; i < rank.layout.gradient_size(); ++i) {
            ASSERT_EQ(rank.gradient(i), gradient_sum(3, i));
        }
        const auto world = make_single_communicator();
        EXPECT_FALSE(rank.units->agree_nonfinite(*world, rank.table).found);
    }
}

TEST(ParameterUnits, NameTheParameterThatWasNotFiniteFirst) {
    const auto world = make_single_communicator();
    for (const StepOptions& options : every_option()) {
        FakeRank rank({model_of(true), {}, {}, options, {}, {}});
        rank.set_weights(weight);
        const auto with_nan = [&](i64 first, i64 second) {
            return [=](i64 m, i64 i) { return m == 0 && (i == first || i == second) ? nan : gradient(m, i); };
        };
        const auto last_of = [&](const char* name) {
            const LocalTensor& tensor = rank.layout.tensor(name);
            return tensor.offset + tensor.count - 1;
        };
        const i64 head = rank.layout.gradient_size() - 1;
        const struct {
            i64 first, second;
            const char* name;
        } cases[] = {{last_of("block.1.mlp.up.bias"), 3, "block.1.mlp.up.bias"},
                     {last_of("final_norm.weight"), last_of("block.2.norm1.bias"), "final_norm.weight"},
                     {head, last_of("final_norm.bias"), "embedding.token.weight"},  // the head's part of the table
                     {last_of("embedding.position.weight"), 0, "embedding.position.weight"}};
        for (const auto& c : cases) {
            rank.run(straight_passes(2), with_nan(c.first, c.second), weight);
            const NonFiniteReport report = rank.units->agree_nonfinite(*world, rank.table);
            EXPECT_TRUE(report.found);
            EXPECT_EQ(report.rank, 0);
            EXPECT_EQ(report.parameter, c.name);
        }
        rank.run(straight_passes(2), gradient, weight);
        EXPECT_FALSE(rank.units->agree_nonfinite(*world, rank.table).found) << "a report belongs to its step";
    }
}

TEST(ParameterUnits, RefuseAUseThatIsNotOfTheProgram) {
    FakeRank rank({model_of(true), {}, {}, {3, GradientWay::staged, ReduceOrder::fixed, 100}, {}, {}});
    rank.begin(straight_passes(1));
    EXPECT_THROW(rank.units->acquire(1, Use::forward), Error);
    EXPECT_THROW(rank.units->finish(), Error);
    rank.units->acquire(0, Use::forward);
    EXPECT_THROW(rank.units->acquire(1, Use::forward), Error) << "one unit is in use at a time";
    EXPECT_THROW(FakeRank({model_of(true), {}, {}, {2, GradientWay::direct, ReduceOrder::any, 100}, {}, {}}), Error);
}

TEST(ParameterUnits, TheHookSeesEachMicroBatch) {
    FakeRank rank({model_of(true), {}, {}, {2, GradientWay::staged, ReduceOrder::fixed, 100}, {}, {}});
    rank.set_weights(weight);
    std::vector<i64> seen(static_cast<std::size_t>(rank.layout.gradient_size()), 0);
    rank.units->set_hook([&](i64, FlatRange range, double* values) {
        for (i64 i = range.first; i < range.last; ++i) {
            EXPECT_EQ(values[i - range.first], gradient(seen[static_cast<std::size_t>(i)]++, i));
            values[i - range.first] = 1;
        }
    });
    rank.run(straight_passes(2), gradient, weight);
    for (i64 i = 0; i < rank.layout.gradient_size(); ++i) {
        EXPECT_EQ(seen[static_cast<std::size_t>(i)], 2);
        EXPECT_EQ(rank.gradient(i), 2);
    }
}

// What is declared is taken, whole, and unit buffers have the size of the largest unit.
TEST(ParameterUnits, LedgerLinesAreThoseTaken) {
    for (StepOptions options : every_option()) {
        FakeRank rank({model_of(true), {}, {}, options, {}, {}});
        i64 largest = 0, largest_gradient = 0;
        for (const Unit& unit : rank.layout.units()) {
            largest = std::max(largest, count_of(unit.weights));
            largest_gradient = std::max(largest_gradient, count_of(unit.gradients));
        }
        i64 buffers = 0;
        for (const LedgerLine& line : rank.ledger.lines()) {
            EXPECT_THROW(rank.arena->take<double>(line.name), Error) << line.name << " is declared but not taken";
            buffers += line.name.starts_with("units.") ? line.bytes : 0;
        }
        const i64 gathered = options.regather == Regather::step ? rank.layout.size() : 2 * largest;
        const i64 working = options.way == GradientWay::staged ? 2 * largest_gradient : 0;
        EXPECT_EQ(buffers, 8 * ((options.zero == 3 ? gathered : 0) + working));
    }
    // Contributions of the fixed order: those of a bucket for each call under way, however many ranks there are.
    const OddLayout odd(model_of(true));
    for (const int parts : {2, 3, 8}) {
        StepOptions options{2, GradientWay::staged, ReduceOrder::fixed, 700};
        Ledger ledger;
        ParameterUnits<double>::declare(ledger, odd.layout, options, {0, parts, 0, 1});
        EXPECT_LE(ledger.line("gradients.reduction").bytes, 4 * 700 * 8);
        EXPECT_GT(ledger.line("gradients.reduction").bytes, 4 * 600 * 8);
        options.order = ReduceOrder::any;
        Ledger any;
        ParameterUnits<double>::declare(any, odd.layout, options, {0, parts, 0, 1});
        EXPECT_EQ(any.line("gradients.mpi").tier, Tier::baseline);
    }
}

// Pure: what a plan promises to each use.
void check_plan(const ParameterLayout& layout, const std::vector<UnitUse>& uses) {
    const GatherPlan plan = plan_gathers(layout, uses, Regather::micro_batch);
    std::array<i64, 2> held{-1, -1}, last_use{-1, -1};
    std::size_t next = 0;
    i64 issued_before = 0;
    for (i64 at = 0; at < static_cast<i64>(uses.size()); ++at) {
        const UnitUse& use = uses[static_cast<std::size_t>(at)];
        const bool reads = reads_weights(layout.units()[static_cast<std::size_t>(use.unit)].kind, use.use);
        for (; next < plan.gathers.size() && plan.gathers[next].issue_at <= at; ++next) {
            const Gather& gather = plan.gathers[next];
            const auto b = static_cast<std::size_t>(gather.buffer);
            EXPECT_GE(gather.issue_at, issued_before);
            EXPECT_GT(gather.issue_at, last_use[b]) << "what it overwrites is used no more";
            issued_before = gather.issue_at;
            EXPECT_TRUE(next == 0 || gather.issue_at < gather.needed_at) << "one ahead";
            held[b] = gather.unit;
        }
        const i64 buffer = plan.buffer_of_use[static_cast<std::size_t>(at)];
        EXPECT_EQ(buffer >= 0, reads);
        if (reads) {
            EXPECT_EQ(held[static_cast<std::size_t>(buffer)], use.unit) << "use " << at;
            last_use[static_cast<std::size_t>(buffer)] = at;
        }
    }
    EXPECT_EQ(next, plan.gathers.size());
}

TEST(Gathers, EveryUseFindsItsUnitAndGathersGoOneAhead) {
    FakeRank rank({model_of(true), {}, {}, {}, {}, {}});
    check_plan(rank.layout, rank.uses(straight_passes(3)));
    check_plan(rank.layout, rank.uses({{PassKind::evaluate, 0, 0}, {PassKind::evaluate, 0, 1}}));
    using enum PassKind;
    check_plan(rank.layout, rank.uses({{PassKind::forward, 0, 0},
                                       {PassKind::forward, 0, 1},
                                       {backward_input, 0, 0},
                                       {backward_input, 0, 1},
                                       {backward_weight, 0, 0},
                                       {backward_weight, 0, 1}}));
    FakeRank shallow({model_of(true, 1), {}, {}, {}, {}, {}});
    check_plan(shallow.layout, shallow.uses(straight_passes(2)));
}

TEST(Gathers, AUnitInABufferIsNotGatheredAgain) {
    FakeRank rank({model_of(true), {}, {}, {}, {}, {}});
    const std::vector<UnitUse> uses = rank.uses(straight_passes(1));
    std::vector<i64> units;
    for (const Gather& gather : plan_gathers(rank.layout, uses, Regather::micro_batch).gathers) {
        units.push_back(gather.unit);
    }
    // embedding, three blocks, head; downwards the last block is still there
    EXPECT_EQ(units, (std::vector<i64>{0, 1, 2, 3, 4, 2, 1}));
    i64 whole = 0;
    const GatherPlan step = plan_gathers(rank.layout, rank.uses(straight_passes(3)), Regather::step);
    for (const Gather& gather : step.gathers) {
        whole += count_of(gather.ranges);
    }
    EXPECT_EQ(step.gathers.size(), 5U);
    EXPECT_EQ(whole, rank.layout.size()) << "each element once a step: a tied head finds its table";
}

}  // namespace
}  // namespace ogrom
