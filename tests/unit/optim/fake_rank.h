// One rank's optimizer side without a model: a program of passes walks its units, each use checks the weights it is
// given and adds gradients of known values. Sentinels stand between the buffers.
#pragma once
#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include "src/optim/clip.h"
#include "src/optim/join.h"
#include "src/optim/units.h"
#include "src/optim/update.h"

namespace ogrom {

struct FakePass {
    PassKind kind = PassKind::forward;
    i64 chunk = 0, micro_batch = 0;
};

// Forward then backward of each micro-batch through all chunks.
inline std::vector<FakePass> straight_passes(i64 micro_batches, i64 chunks = 1) {
    std::vector<FakePass> passes;
    for (i64 m = 0; m < micro_batches; ++m) {
        for (i64 c = 0; c < chunks; ++c) {
            passes.push_back({PassKind::forward, c, m});
        }
        for (i64 c = chunks; c-- > 0;) {
            passes.push_back({PassKind::backward, c, m});
        }
    }
    return passes;
}

struct FakeJob {
    ModelConfig model;
    std::vector<StageSpan> spans;  // empty: the whole model
    TensorPart tensor;
    StepOptions options;
    StepGroups groups;
    OptimizerConfig optimizer;
};

class FakeRank {
public:
    using Gradient = std::function<double(i64 micro_batch, i64 element)>;  // element of the gradient space
    using Weight = std::function<double(i64 element)>;

    explicit FakeRank(const FakeJob& job_)
        : job(job_),
          place(job.groups.place()),
          table(make_parameters(job.model, Dtype::fp64)),
          layout(table, spans(), job.tensor),
          ownership(layout, place.parts) {
        const StateBytes bytes =
            state_bytes(layout, ownership, job.options.zero, place.part, sizeof(double), sizeof(double));
        add_guard();
        const auto line = [&](const char* name, i64 n) {
            ledger.add(name, Tier::device, n, "state");
            add_guard();
        };
        line("weights", bytes.weights);
        line("gradients", bytes.gradients);
        line("moment1", bytes.moment);
        line("moment2", bytes.moment);
        ParameterUnits<double>::declare(ledger, layout, job.options, place);
        add_guard();
        GradientJoin<double>::declare(ledger, layout, ownership, job.options, place);
        add_guard();
        WeightUpdate<double>::declare(ledger);
        arena = std::make_unique<Arena>(ledger);
        for (i64 g = 0; g < guards_; ++g) {
            guard_.push_back(arena->take<double>(guard_name(g)));
            std::fill(guard_.back().begin(), guard_.back().end(), sentinel);
        }
        const bool momentum = job.optimizer.kind == OptimizerKind::adamw || job.optimizer.momentum > 0;
        state = make_step_state<double>(
            layout, ownership, job.options.zero, place.part, arena->take<double>("weights"),
            arena->take<double>("gradients"), momentum ? arena->take<double>("moment1") : std::span<double>(),
            job.optimizer.kind == OptimizerKind::adamw ? arena->take<double>("moment2") : std::span<double>());
        std::fill(state.moment1.data().begin(), state.moment1.data().end(), 0.0);
        std::fill(state.moment2.data().begin(), state.moment2.data().end(), 0.0);
        units = std::make_unique<ParameterUnits<double>>(layout, ownership, job.options, job.groups, *arena, state);
        join = std::make_unique<GradientJoin<double>>(layout, ownership, job.options, job.groups, *arena, state);
        update = std::make_unique<WeightUpdate<double>>(job.optimizer, layout, ownership, job.options, job.groups,
                                                        *arena, state);
    }

    void set_weights(const Weight& value) {
        for (const FlatRange& range : state.weights.ranges()) {
            double* const at = state.weights.locate(range);
            for (i64 i = 0; i < range.count(); ++i) {
                at[i] = value(range.first + i);
            }
        }
    }

    [[nodiscard]] std::vector<UnitUse> uses(const std::vector<FakePass>& passes) const {
        std::vector<UnitUse> all;
        for (const FakePass& pass : passes) {
            const std::vector<UnitUse> some = unit_uses(layout, pass.chunk, pass.kind);
            all.insert(all.end(), some.begin(), some.end());
        }
        return all;
    }

    void begin(const std::vector<FakePass>& passes) { units->begin_step(uses(passes)); }
    void walk(const FakePass& pass, const Gradient& gradient, const Weight& weight) {
        for (const UnitUse& use : unit_uses(layout, pass.chunk, pass.kind)) {
            const Unit& unit = layout.units()[static_cast<std::size_t>(use.unit)];
            const UnitPointers<double> pointers = units->acquire(use.unit, use.use);
            check_weights(unit, use, pointers, weight);
            units->progress();
            for (std::size_t r = 0; r < unit.gradients.size() && writes_gradients(use.use); ++r) {
                for (i64 i = 0; i < unit.gradients[r].count(); ++i) {
                    pointers.gradients[r][i] += gradient(pass.micro_batch, unit.gradients[r].first + i);
                }
            }
            units->release(use.unit, use.use);
        }
    }
    // One step up to the reduced gradients.
    void run(const std::vector<FakePass>& passes, const Gradient& gradient, const Weight& weight) {
        begin(passes);
        for (const FakePass& pass : passes) {
            walk(pass, gradient, weight);
        }
        units->finish();
    }

    // Ranges of the gradient space that are whole on this rank after finish.
    [[nodiscard]] std::vector<FlatRange> summed() const {
        return job.options.zero == 0 ? state.gradients.ranges() : ownership.gradient_ranges(place.part);
    }
    [[nodiscard]] double gradient(i64 element) const { return *state.gradients.locate({element, element + 1}); }
    [[nodiscard]] bool guards_intact() const {
        return std::all_of(guard_.begin(), guard_.end(), [](std::span<double> guard) {
            return std::all_of(guard.begin(), guard.end(), [](double value) { return value == sentinel; });
        });
    }

    FakeJob job;
    StepPlace place;
    ParameterTable table;
    ParameterLayout layout;
    Ownership ownership;
    Ledger ledger;
    std::unique_ptr<Arena> arena;
    StepState<double> state;
    std::unique_ptr<ParameterUnits<double>> units;
    std::unique_ptr<GradientJoin<double>> join;
    std::unique_ptr<WeightUpdate<double>> update;

private:
    static constexpr double sentinel = 54321;
    std::span<const StageSpan> spans() {
        if (job.spans.empty()) {
            job.spans.push_back({0, 0, 0, job.model.layers, true, true});
        }
        return job.spans;
    }
    static std::string guard_name(i64 g) { return fmt::format("guard.{}", g); }
    void add_guard() { ledger.add(guard_name(guards_++), Tier::device, 128, "sentinels"); }
    static void check_weights(const Unit& unit, const UnitUse& use, const UnitPointers<double>& pointers,
                              const Weight& weight) {
        for (std::size_t r = 0; r < unit.weights.size(); ++r) {
            if (!reads_weights(unit.kind, use.use)) {
                EXPECT_EQ(pointers.weights[r], nullptr);
                continue;
            }
            i64 wrong = 0;
            for (i64 i = 0; i < unit.weights[r].count(); ++i) {
                wrong += pointers.weights[r][i] == weight(unit.weights[r].first + i) ? 0 : 1;
            }
            EXPECT_EQ(wrong, 0) << "weights of unit " << use.unit << ", range " << r;
        }
    }
    i64 guards_ = 0;
    std::vector<std::span<double>> guard_;
};

}  // namespace ogrom
