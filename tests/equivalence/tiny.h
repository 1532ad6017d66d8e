// A tiny odd model, its data as a pure function of the global sample number,
// and trainings of it under any cut of the global batch. Reference runs use a
// communicator of one rank.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "src/comm/session.h"
#include "src/train/engine.h"
#include "src/train/step.h"

namespace ogrom::test {

Session& session();

// How a global batch is cut: dp comes from the communicator.
struct Cut {
    i64 micro_batch = 1, accumulation = 1;
};

// Hidden 60, 3 layers, 5 heads, vocabulary 509 (padded to 512), T 24; AdamW
// with clipping, fp64, deterministic. `extra`: further lines of TOML,
// "[section]" headers included.
std::string tiny_toml(const std::vector<std::string>& lines = {});
// parse_run of that text with overrides.
RunConfig tiny_run(i64 dp, const Cut& cut, const std::vector<std::string>& overrides = {});

// Unmasked targets of global sample n.
using MaskRule = i64 (*)(i64 sample);
i64 all_targets(i64 sample);

// The micro-batches of rank `dp_rank` for a step, as Prefetch cuts them.
std::vector<Batch> make_batches(const RunConfig& run, i64 dp_rank, i64 step, MaskRule mask = all_targets);

template <class T>
struct History {
    std::vector<double> losses, norms;
    std::vector<T> weights;  // flat, after the last step
    std::vector<T> before;   // flat, before the first
};

struct Lesson {
    i64 steps = 1;
    MaskRule mask = all_targets;
    double gain = 1;  // factor on the gains of the norms before the first step
};

// An engine over all ranks of `world`, which are data ranks; it keeps its mesh.
template <class T>
std::shared_ptr<Engine<T>> make_engine(Communicator& world, const RunConfig& run);

// Full flat weights, ZeRO 0.
template <class T>
std::span<T> weights_of(Engine<T>& engine) {
    return engine.state.weights.data();
}

// Trains over `world`. Collective.
template <class T>
History<T> train_over(Communicator& world, const RunConfig& run, const Lesson& course);

// The same on this rank alone.
template <class T>
History<T> train_alone(const Cut& cut, const std::vector<std::string>& overrides, const Lesson& course);

// Largest relative difference of two series; infinite where a value is not
// finite or a length differs.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);
// Largest over tensors of ||a - b|| / ||reference||; `reference` = b, or b -
// before (the change of one step). Tensors whose exact gradient is 0 (key
// biases) are compared with a small share of the norm of the whole reference.
template <class T>
double tensor_difference(const ParameterLayout& layout, const std::vector<T>& a, const std::vector<T>& b,
                         const std::vector<T>* before = nullptr);

// Layout of the tiny model.
struct TinyLayout {
    explicit TinyLayout(const RunConfig& run);
    ParameterTable table;
    ParameterLayout layout;
};

// Folder of rank 0's choosing, the same path on all ranks; removed by rank 0.
// Collective.
class SharedFolder {
public:
    SharedFolder();
    ~SharedFolder();
    SharedFolder(const SharedFolder&) = delete;
    SharedFolder& operator=(const SharedFolder&) = delete;
    [[nodiscard]] std::string path(const std::string& name) const { return (root_ / name).string(); }

private:
    std::filesystem::path root_;
};

}  // namespace ogrom::test
