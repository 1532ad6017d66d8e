// The proof of a resume: the steps that a run made after a save (io/replay_trace) are made again from the checkpoint,
// with the same samples, and compared. Writes nothing. Comes in: an engine that has loaded the checkpoint. Goes out:
// what was recorded and what came now, step by step, and the first quantity that differs.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/data/sampler.h"
#include "src/io/replay_trace.h"
#include "src/train/engine.h"
#include "src/train/resume.h"
#include "src/train/step.h"

namespace ogrom {

// What the bits of this run's steps rest on. `threads`: of a rank.
template <class T>
ReplayConditions replay_conditions(const Engine<T>& engine, int threads, const SavedTexts& texts);

// Where the order of sums may differ: relative bounds on loss and norm of the nth step after the load (from 1). The
// state before step 1 is equal bit for bit.
struct ReplayBound {
    double loss = 0, norm = 0;
};
ReplayBound replay_bound(const std::string& arithmetic, i64 nth);

// The first quantity of a step that differs, in the order learning rate, skipped, loss, gradient norm, weight hash;
// empty where none does. Without a bound all bits must agree; with one the weight hash says nothing.
std::string first_difference(const ReplayRow& recorded, const ReplayRow& replayed,
                             const std::optional<ReplayBound>& bound);

struct ReplayStep {
    ReplayRow recorded, replayed;
    std::optional<ReplayBound> bound;
    std::string difference;
};

struct ReplayReport {
    std::string checkpoint;
    i64 step = 0, wanted = 0, recorded = 0;  // of the checkpoint; steps that a whole record has; that this one has
    std::vector<std::string> against_bits;   // why bits need not agree; empty: they are compared
    std::vector<ReplayStep> steps;
    bool stopped = false;  // by a signal, before the last step

    [[nodiscard]] const ReplayStep* first_different() const;  // null where all agree
    [[nodiscard]] ExitCode code() const;
};
std::string report_text(const ReplayReport& report);
std::string report_json(const ReplayReport& report);

// The record beside a checkpoint, before any memory is taken. Collective. Error(checkpoint) on every rank where there
// is none, and where it is of another state; the message says how to get one, and which checkpoints beside it have
// theirs.
ReplayRecord record_to_replay(Communicator& world, const std::string& checkpoint, u64 weight_hash);

// One step of a run, as rows of the record have it. Collective.
template <class T>
ReplayRow replay_row(const Engine<T>& engine, const StepResult& result);

// Collective. `stop`: whether this rank was asked to end.
template <class T>
ReplayReport replay(Engine<T>& engine, Prefetch& prefetch, const std::string& checkpoint, const ReplayRecord& record,
                    const ReplayConditions& now, const std::function<bool()>& stop);

}  // namespace ogrom
