// A checkpoint is a set of logical tensors (contracts.md, Checkpoint files): step-NNNNNNNN/{checkpoint.h5,
// part-RRRRR.h5, manifest.json}. Each writer writes its own HDF5 file; the master file presents every tensor whole
// through virtual datasets, one group for each kind of state (/weights /moment1 /moment2 ..., any name). State is keyed
// by tensor name and global index, padding and copies are never stored, so that a checkpoint of one layout loads under
// any other. Written under a temporary name, fsynced, renamed; `latest` updated by rename; only then older ones go.
#pragma once
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/comm/communicator.h"
#include "src/config/run.h"
#include "src/data/sampler.h"
#include "src/model/parameters.h"

namespace ogrom {

// Elements [flat.first, flat.last) of this rank's ParameterLayout, which stand at `data`.
template <class T>
struct HeldRange {
    FlatRange flat;
    T* data = nullptr;
};

// What a rank holds of one kind of state, one value for each element of the flat buffer. Ranges do not overlap; padding
// and copies of other tensors may stand in them.
template <class T>
struct StateGroup {
    std::string name;  // "weights", "moment1", "error_feedback", ...: any name of letters, digits, '_', '-' and '.'
    std::vector<HeldRange<T>> ranges;
};

// Flat views of this rank's state, all with the same ParameterLayout. Empty spans: that state does not exist.
template <class T>
struct StateView {
    std::span<T> weights, moment1, moment2;
};

// Groups with elements `range` of each flat view.
template <class T>
std::vector<StateGroup<T>> state_groups(const StateView<T>& state, FlatRange range) {
    std::vector<StateGroup<T>> groups;
    const auto add = [&](const char* name, std::span<T> values) {
        if (!values.empty()) {
            groups.push_back({name, {{range, values.data() + range.first}}});
        }
    };
    add("weights", state.weights);
    add("moment1", state.moment1);
    add("moment2", state.moment2);
    return groups;
}

struct CheckpointHeader {
    int format = 1;
    i64 step = 0;  // optimizer steps done; training goes on with this step
    Cursor cursor;
    u64 seed = 0;           // model randomness (initial weights, dropout: counter-based, so the seed and step are all)
    std::string tokenizer;  // identity (hash) of the tokenizer
    std::string tokenizer_path;  // where it was, for `sample`
    std::string run_toml;        // resolved run file
    std::string provenance_json;
    u64 weight_hash = 0;  // of the whole model
    i64 skipped_steps = 0;
    double best_valid_loss = std::numeric_limits<double>::quiet_NaN();  // NaN: never evaluated
    std::map<std::string, std::string> extra;  // named run state (loss scale ...), one attribute each
};

// Which checkpoints outlive a newer one: the newest `last` complete ones (<= 0: all), and those whose step is a
// multiple of `every` (0: none of these).
struct Retention {
    Retention(i64 newest, i64 multiples = 0) : last(newest), every(multiples) {}  // implicit: mostly the first alone
    i64 last, every;
};

// Collective over all ranks that hold state. `to_write`: what this rank alone is to write (its own ranges of replica 0
// ...); a rank without any element writes no part. Over all ranks every logical element of every tensor of every group
// must be written exactly once; Error(checkpoint) names tensor, rows and ranks otherwise, before anything is written.
// Makes `directory`/step-NNNNNNNN and updates latest; then removes what `keep` lets go. Throws Error(checkpoint) on
// every rank if it failed on any; the previous checkpoint stays.
template <class T>
void save_checkpoint(Communicator& world, const std::string& directory, const CheckpointHeader& header,
                     const ParameterLayout& layout, const ModelConfig& model,
                     std::span<const StateGroup<const T>> to_write, const Retention& keep);

// Collective: what save_checkpoint would put on the disk, and whether `folder` (which exists) has room for it:
// Error(checkpoint) with both figures on every rank where it has not. Nothing is written. `at_once`, asked on rank 0:
// how many more checkpoints than now will stand there at a time, the one in the making included; a warning where that
// many have no room.
template <class T>
void require_room(Communicator& world, const std::string& folder, const CheckpointHeader& header,
                  const ParameterLayout& layout, const ModelConfig& model,
                  std::span<const StateGroup<const T>> to_write, const std::function<i64()>& at_once = {});

// Where every rank of `dp` holds the whole model: each writes an even share, after the replicas were compared.
template <class T>
void save_checkpoint(Communicator& dp, const std::string& directory, const CheckpointHeader& header,
                     const ParameterLayout& layout, const ModelConfig& model, const StateView<const T>& state,
                     const Retention& keep);

// Collective over ranks that must hold the same bits (an axis of replicas): Error(peer) on every rank names the first
// that differs from rank 0. `what` for the message: "the weights", "moment1", ...
void require_equal_replicas(Communicator& replicas, u64 hash, const std::string& what);

// The newest complete checkpoint under `directory` (absolute path of its step folder), with a line per one passed over
// (file and reason) in `passed_over`. Completeness: manifest present, every file present with its bytes.
std::optional<std::string> find_latest(const std::string& directory, std::vector<std::string>& passed_over);

// All of them, newest first, as find_latest takes them.
std::vector<std::string> complete_checkpoints(const std::string& directory, std::vector<std::string>& passed_over);

// Collective: the files of `checkpoint` (a step folder, the same on all ranks) against the manifest, each block hashed
// on one rank. What is wrong, with file and block, the same text on every rank; empty where nothing is.
std::string damage_of(Communicator& world, const std::string& checkpoint);

// Where a flipped byte must not pass for a setting that was changed, damage_of comes first.
CheckpointHeader read_header(const std::string& checkpoint);
// The model described by a checkpoint's own attributes (for sample and inspect).
ModelConfig read_model(const std::string& checkpoint);

struct LoadReport {
    i64 bytes_read = 0;      // of tensors, by this rank
    i64 bytes_verified = 0;  // of files, hashed by this rank
};

// Collective over all ranks of a layout, which may be another than the one that saved. Verifies manifest hashes (each
// block on one rank), then fills the ranges of `wanted`: only the rows and columns that they need are read, padding
// becomes 0, a tied copy gets the values of its source, tensors replicated over tensor ranks are read on each. Every
// rank names the same groups. Refuses missing, unexpected, mis-shaped or wrong-typed tensors and groups by name
// (strict), else loads what matches and appends the rest to `skipped`; groups of state that nobody asked for are
// unexpected unless "weights" alone is asked for. At last the weight hash over all ranks is compared with the header's.
// `hashes`: whether damage_of has found nothing a moment ago. `types`: whether fp32 in the files may fill fp64.
enum class Hashes { check, were_checked };
enum class Types { same, may_widen };
template <class T>
LoadReport load_checkpoint(Communicator& world, const std::string& checkpoint, const ParameterLayout& layout,
                           std::span<const StateGroup<T>> wanted, bool strict, std::vector<std::string>& skipped,
                           Hashes hashes = Hashes::check, Types types = Types::same);

// The whole flat state on every rank. Empty spans in `state` are not read.
template <class T>
LoadReport load_checkpoint(Communicator& comm, const std::string& checkpoint, const ParameterLayout& layout,
                           const StateView<T>& state, bool strict, std::vector<std::string>& skipped);

}  // namespace ogrom
