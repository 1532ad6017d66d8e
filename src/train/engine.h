// Everything that one optimizer step needs, on one rank: layout, arena, stage,
// optimizer state. Made from the resolved run and a mesh; knows no run folder,
// no files, no terminal, so that tests build several in one process.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/comm/mesh.h"
#include "src/config/run.h"
#include "src/data/batch_upload.h"
#include "src/device/buffer.h"
#include "src/io/checkpoint.h"
#include "src/io/snapshot.h"
#include "src/optim/join.h"
#include "src/optim/loss_scaling.h"
#include "src/optim/pass_scalars.h"
#include "src/optim/step_sums.h"
#include "src/optim/units.h"
#include "src/optim/update.h"
#include "src/pipeline/trace.h"
#include "src/plan/decide.h"

namespace ogrom {

template <class T>
class PassGraphs;

template <class T>
class Engine {
public:
    using Held = GradientOf<T>;  // type of gradients, master, moments, and of what checkpoints store
    // `run`, `mesh` must outlive the engine. Takes the arena, draws the initial weights, clears the moments. The
    // kernels run on `stream` of `device`, as decided.
    Engine(const RunConfig& run, const Decisions& decisions, const Ledger& ledger, Mesh& mesh,
           const Device& device = {}, Stream stream = {});
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    [[nodiscard]] i64 updates() const { return step - skipped; }  // what the bias corrections count
    // The position in the data: a count, for a resumed run may have another global batch (B19).
    [[nodiscard]] i64 samples_read() const { return samples_before + (step - resumed_at) * run.train.global_batch; }
    // The loss is made here, and this rank counts for its data rank in sums over
    // the world.
    [[nodiscard]] bool has_loss() const;
    // State that this rank alone writes into a checkpoint, as it is now (on a GPU, or with background saves, a copy on
    // the host, valid until the next call); and the memory for what it needs of one, which adopt_loaded takes over once
    // it is filled.
    [[nodiscard]] std::vector<StateGroup<const Held>> groups_to_write() const;
    [[nodiscard]] std::vector<StateGroup<Held>> groups_to_load();
    void adopt_loaded();
    // All weights that this rank holds, on the host; valid as groups_to_write.
    [[nodiscard]] const FlatView<Held>& weights_on_host() const;
    // Collective: hash of the whole model, equal on all ranks and under every
    // layout.
    [[nodiscard]] u64 model_hash() const;
    // Collective: weights that several ranks hold must be equal bit for bit
    // (data, tensor, tied copies).
    void require_equal_copies() const;

    const RunConfig& run;
    const Decisions decisions;
    Mesh& mesh;
    Communicator& world;
    const Stream stream;
    const ParameterTable table;
    const ParameterLayout layout;
    const Ownership ownership;
    // The step's actions cut where it may be left (after each micro-batch of one
    // stage), and the units they use.
    const std::vector<StageSchedule> passes;
    const std::vector<UnitUse> uses;
    Arena arena;
    const HostWindow window;
    const StepGroups groups;
    StepState<T> state;
    StepSums sums;
    PassScalars scalars;
    BatchUpload batches;
    ParameterUnits<T> units;
    GradientJoin<T> join;
    WeightUpdate<T> update;
    Stage<T> stage;
    Snapshot<T> snapshot;
    PassGraphs<T>* graphs = nullptr;  // recorded passes (train/pass_graphs), where there are some
    Trace* trace = nullptr;           // spans of the passes are recorded where it is set

    LossScaling scaling;        // of fp16: the factor on the gradients of the passes
    i64 step = 0;               // steps done: data and learning rate go by it
    i64 skipped = 0;            // steps among them that made no update (non-finite)
    i64 consecutive_skips = 0;  // of the last steps; those for an overflow of fp16 do not count
    i64 resumed_at = 0;         // step at which this process took over
    i64 samples_before = 0;     // samples that the run had read by then

private:
    [[nodiscard]] std::vector<FlatRange> written_ranges() const;
    [[nodiscard]] std::optional<std::vector<FlatRange>> copied_ranges() const;
    [[nodiscard]] u64 hash_of(FlatRange range) const;
};

// The units that a list of actions uses, in order. Evaluation: forward passes,
// and the head at the end of the last one. Throws Error(usage), before any list is made, where there are too many.
enum class Passes { training, evaluation };
std::vector<UnitUse> uses_of(const ParameterLayout& layout, std::span<const Action> actions, Passes passes);

}  // namespace ogrom
