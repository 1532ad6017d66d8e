// A checkpoint is a set of logical tensors (contracts.md, Checkpoint files): step-NNNNNNNN/{checkpoint.h5,
// part-RRRRR.h5, manifest.json}. Each writer writes its own HDF5 file; the master file presents every tensor whole
// through virtual datasets, in /weights /master /moment1 /moment2 /buffers; state is keyed by tensor name and global
// index, padding is never stored. Written under a temporary name, fsynced, renamed; `latest` updated by rename; only
// then older ones go.
#pragma once
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

// Flat views of this rank's state, all with the same ParameterLayout. Empty spans: that state does not exist.
template <class T>
struct StateView {
    std::span<T> weights, moment1, moment2;
};

struct CheckpointHeader {
    int format = 1;
    i64 step = 0;  // optimizer steps done; training goes on with this step
    Cursor cursor;
    u64 seed = 0;           // model randomness (initial weights, dropout: counter-based, so the seed and step are all)
    std::string tokenizer;  // identity (hash) of the tokenizer
    std::string tokenizer_path;  // where it was, for `sample`
    std::string run_toml;        // resolved run file
    std::string provenance_json;
    u64 weight_hash = 0;
    i64 skipped_steps = 0;
    double best_valid_loss = std::numeric_limits<double>::quiet_NaN();  // NaN: never evaluated
    std::map<std::string, std::string> extra;  // named run state (loss scale ...), one attribute each
};

// Collective over dp. Writes `directory`/step-NNNNNNNN and updates latest; then removes what keep_last lets go.
// Throws Error(checkpoint) on every rank if it failed on any; the previous checkpoint stays.
template <class T>
void save_checkpoint(Communicator& dp, const std::string& directory, const CheckpointHeader& header,
                     const ParameterLayout& layout, const ModelConfig& model, const StateView<const T>& state,
                     i64 keep_last);

// The newest complete checkpoint under `directory` (absolute path of its step folder), with a line per one passed over
// (file and reason) in `passed_over`. Completeness: manifest present, every file present with its bytes.
std::optional<std::string> find_latest(const std::string& directory, std::vector<std::string>& passed_over);

// Compares the master file with its hashes in the manifest; Error(checkpoint) names file and block. Before a header is
// trusted: a flipped byte in it must not pass for a setting that was changed.
void verify_master(const std::string& checkpoint);

CheckpointHeader read_header(const std::string& checkpoint);
// The model described by a checkpoint's own attributes (for sample and inspect).
ModelConfig read_model(const std::string& checkpoint);

// Verifies manifest hashes, then fills `state`; refuses missing, unexpected, mis-shaped or wrong-typed tensors by name
// (strict), and compares the weight hash. Empty spans in `state` are not read.
template <class T>
void load_checkpoint(Communicator& dp, const std::string& checkpoint, const ParameterLayout& layout,
                     const StateView<T>& state, bool strict, std::vector<std::string>& skipped);

}  // namespace ogrom
