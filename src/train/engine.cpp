#include "src/train/engine.h"

#include <fmt/format.h>
#include <map>
#include <memory>
#include <omp.h>
#include <type_traits>
#include <xxhash.h>

#include "kernels/common/hash.h"

namespace ogrom {
namespace {

constexpr i64 most_uses = 4'000'000;  // 64 MB, and a copy in optim/units

// With one stage a step can be left after each backward pass; a pipeline is
// left between steps alone.
std::vector<StageSchedule> cut_into_passes(const StageSchedule& schedule, i64 stages) {
    if (stages > 1) {
        return {schedule};
    }
    std::vector<StageSchedule> passes;
    bool open = false;
    for (const Action& action : schedule.actions) {
        if (!open && action.kind == ActionKind::forward) {
            passes.push_back({{}, schedule.slots, schedule.buffers, schedule.weight_slots});
        }
        open = action.kind == ActionKind::forward;
        passes.back().actions.push_back(action);
    }
    return passes;
}

PassKind pass_of(ActionKind kind, Passes passes) {
    switch (kind) {
        case ActionKind::backward:
            return PassKind::backward;
        case ActionKind::backward_input:
            return PassKind::backward_input;
        case ActionKind::backward_weight:
            return PassKind::backward_weight;
        default:
            return passes == Passes::training ? PassKind::forward : PassKind::evaluate;
    }
}

StepGroups groups_of(Mesh& mesh, Stream stream) {
    Communicator* const world = mesh.world->size() > 1 ? mesh.world : nullptr;
    return {mesh.shard.get(), mesh.replica.get(), mesh.tp.get(), mesh.tie.get(), stream, world};
}

template <class T>
StepState<T> take_state(const Decisions& d, const ParameterLayout& layout, const Ownership& ownership, Arena& arena) {
    using Held = GradientOf<T>;
    const auto take = [&](const char* line, bool there) { return there ? arena.take<Held>(line) : std::span<Held>(); };
    const std::span<T> weights = arena.take<T>("weights");
    const std::span<Held> gradients = take("gradients", true);
    const std::span<Held> moment1 = take("moment1", d.has_moment1), moment2 = take("moment2", d.has_moment2);
    const std::span<Held> master = take("master", !std::is_same_v<T, Held>);
    return make_step_state<T>(layout, ownership, d.step.zero, d.place.part, weights, gradients, moment1, moment2,
                              master);
}

template <class T, class View>
void add_group(std::vector<StateGroup<T>>& groups, const char* name, const View& view,
               const std::vector<FlatRange>& ranges) {
    if (view.empty()) {
        return;
    }
    StateGroup<T> group{name, {}};
    for (const FlatRange& range : ranges) {
        group.ranges.push_back({range, view.locate(range)});
    }
    groups.push_back(std::move(group));
}

// The length of the list that uses_of makes.
i64 count_uses(const ParameterLayout& layout, std::span<const Action> actions, Passes passes) {
    std::map<std::pair<i64, PassKind>, i64> of_pass;
    i64 count = 0;
    for (const Action& action : actions) {
        if (is_compute(action.kind)) {
            const std::pair pass(action.chunk, pass_of(action.kind, passes));
            const auto [found, fresh] = of_pass.try_emplace(pass, 0);
            if (fresh) {
                found->second = static_cast<i64>(unit_uses(layout, pass.first, pass.second).size());
            }
            count += found->second;
        }
    }
    return count;
}

}  // namespace

std::vector<UnitUse> uses_of(const ParameterLayout& layout, std::span<const Action> actions, Passes passes) {
    const i64 count = count_uses(layout, actions, passes);
    require(
        count <= most_uses, ExitCode::usage,
        fmt::format("train.accumulation: the micro-batches of a step would use the layers of this rank {} times, at "
                    "most {}; would be right: a smaller train.global_batch, or a larger train.micro_batch",
                    count, most_uses));
    std::vector<UnitUse> uses;
    uses.reserve(static_cast<std::size_t>(count));
    for (const Action& action : actions) {
        if (is_compute(action.kind)) {
            const std::vector<UnitUse> pass = unit_uses(layout, action.chunk, pass_of(action.kind, passes));
            uses.insert(uses.end(), pass.begin(), pass.end());
        }
    }
    return uses;
}

template <class T>
Engine<T>::Engine(const RunConfig& run_, const Decisions& decisions_, const Ledger& ledger, Mesh& mesh_,
                  const Device& device, Stream stream_)
    : run(run_),
      decisions(decisions_),
      mesh(mesh_),
      world(*mesh_.world),
      stream(stream_),
      table(make_parameters(run.model, dtype_of<T>())),
      layout(table, decisions.shape.spans, decisions.shape.tensor),
      ownership(layout, decisions.place.parts),
      passes(cut_into_passes(decisions.actions, decisions.schedule.stages)),
      uses(uses_of(layout, decisions.actions.actions, Passes::training)),
      arena(ledger, device),
      window(arena, stream),
      groups(groups_of(mesh, stream)),
      state(take_state<T>(decisions, layout, ownership, arena)),
      sums(arena, stream),
      scalars(arena, stream),
      batches(arena, stream),
      units(layout, ownership, decisions.step, groups, arena, state),
      join(layout, ownership, decisions.step, groups, arena, state),
      update(run.optimizer, layout, ownership, decisions.step, groups, arena, state),
      stage(run.model, decisions.shape, layout, arena, units, mesh.tp.get()),
      snapshot(state, window, arena, stream, copied_ranges()),
      scaling(run.precision) {
    OGROM_ASSERT(device.backend == decisions.backend && stream.backend == decisions.backend);
    OGROM_ASSERT(omp_get_max_threads() <= decisions.shape.extents.threads);  // workspaces are cut for so many
    start_state(state, layout, window, stream, run.train.seed);
}

template <class T>
bool Engine<T>::has_loss() const {
    return mesh.place.pp == mesh.shape.pp - 1 && mesh.place.tp == 0;
}

// What no other rank writes: this rank's shard, of the first replica.
template <class T>
std::vector<FlatRange> Engine<T>::written_ranges() const {
    return decisions.place.replica == 0 ? ownership.ranges(decisions.place.part) : std::vector<FlatRange>();
}

template <class T>
std::optional<std::vector<FlatRange>> Engine<T>::copied_ranges() const {
    return decisions.background_saves ? std::optional(written_ranges()) : std::nullopt;
}

template <class T>
std::vector<StateGroup<const GradientOf<T>>> Engine<T>::groups_to_write() const {
    const std::vector<FlatRange> ranges = written_ranges();
    const auto& held = snapshot.freeze();
    std::vector<StateGroup<const Held>> result;
    add_group(result, "weights", held.weights, ranges);
    add_group(result, "moment1", held.moment1, ranges);
    add_group(result, "moment2", held.moment2, ranges);
    return result;
}

template <class T>
std::vector<StateGroup<GradientOf<T>>> Engine<T>::groups_to_load() {
    const auto& held = snapshot.views();
    std::vector<StateGroup<Held>> result;
    add_group(result, "weights", held.weights, held.weights.ranges());
    add_group(result, "moment1", held.moment1, held.moment1.ranges());
    add_group(result, "moment2", held.moment2, held.moment2.ranges());
    return result;
}

template <class T>
void Engine<T>::adopt_loaded() {
    snapshot.deliver();
}

template <class T>
const FlatView<GradientOf<T>>& Engine<T>::weights_on_host() const {
    return snapshot.collect().weights;
}

template <class T>
u64 Engine<T>::model_hash() const {
    const auto held = [&](FlatRange range) -> const Held* {
        if constexpr (std::is_same_v<T, Held>) {
            return state.weights.locate(range);
        } else {
            return state.master.locate(range);
        }
    };
    u64 sum = 0;
    for (const FlatRange& range : written_ranges()) {
        sum += weight_hash<Held>(held(range), range, layout, stream);
    }
    world.all_reduce(&sum, 1, Dtype::u64, ReduceOp::sum, ReduceOrder::any, nullptr, "weight hash").wait();
    return sum;
}

// Of the bits of a range of the weights, as they stand here.
template <class T>
u64 Engine<T>::hash_of(FlatRange range) const {
    const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(), XXH3_freeState);
    OGROM_ASSERT(hash != nullptr && XXH3_64bits_reset(hash.get()) == XXH_OK);
    window.read(static_cast<const T*>(state.weights.locate(range)), range.count(), [&](const T* host, i64, i64 n) {
        XXH3_64bits_update(hash.get(), host, static_cast<std::size_t>(n) * sizeof(T));
    });
    return u64{XXH3_64bits_digest(hash.get())};
}

template <class T>
void Engine<T>::require_equal_copies() const {
    if (world.size() == 1) {
        return;
    }
    u64 held = 0;
    for (const FlatRange& range : state.weights.ranges()) {
        held = mix64(held ^ hash_of(range));
    }
    // ZeRO 0-2: all data ranks hold all weights; ZeRO 3: replicas hold the same
    // shard.
    Communicator& copies = decisions.step.zero < 3 ? *mesh.dp : *mesh.replica;
    require_equal_replicas(copies, held, "the weights");
    u64 replicated = 0, tied = 0;
    for (const FlatRange& range : state.weights.ranges()) {
        for (const LocalTensor& tensor : layout.tensors()) {
            const FlatRange whole{tensor.offset, tensor.offset + tensor.count};
            for (const FlatRange& part : intersect({range}, whole)) {
                replicated = layout.replicated(tensor) ? mix64(replicated ^ hash_of(part)) : replicated;
            }
        }
        for (const FlatRange& part : intersect({range}, layout.tied_table())) {
            tied = mix64(tied ^ hash_of(part));
        }
    }
    require_equal_replicas(*mesh.tp, replicated, "weights that every tensor rank holds");
    if (mesh.tie && layout.tied_table().count() > 0) {
        require_equal_replicas(*mesh.tie, tied, "the token table of the first and last stage");
    }
}

template class Engine<float>;
template class Engine<double>;
template class Engine<Bf16>;
template class Engine<Fp16>;

}  // namespace ogrom
