// trace.json beside a checkpoint: loss, gradient norm and weight hash of the steps that the run made after the save, so
// that a resume can be proved (train --resume-verify, train/replay). Not in the manifest: it is written later, and a
// checkpoint is whole without it.
//   {"format": 1, "step": of the checkpoint, "weight_hash": of the checkpoint, "ranks": n, "arithmetic": "fp32",
//    "repeatable": true, "bits_depend_on": {...}, "layout": {...}, "wanted": k,
//    "steps": [{"step": n + 1, "loss": ..., "loss_bits": "<16 hex digits>", ...}, ...], "check": XXH3-64 of the rest}
// Comes in: results of steps (train/replay). Goes out: a file that is complete after each of them.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

inline constexpr const char* replay_trace_name = "trace.json";
inline constexpr i64 most_replay_steps = 100;

struct ReplayRow {
    i64 step = 0;  // steps done after it
    double loss = 0, gradient_norm = 0, lr = 0;
    bool skipped = false;
    u64 weight_hash = 0;  // after the step
};

// What the bits of a step rest on. Values are texts: they are compared and shown, never computed with.
struct ReplayConditions {
    i64 ranks = 1;
    std::string arithmetic;   // "fp32", "fp64", "bf16", "fp16": of weights and activations
    bool repeatable = false;  // a step made twice under these conditions gives the same bits
    bool any_layout = false;  // ... whatever `layout` says (numerics.deterministic)
    std::map<std::string, std::string> bits_depend_on;
    std::map<std::string, std::string> layout;
};

// Why equal bits are not to be expected of a step made under `a` and again under `b`, one line each; empty where they
// are.
std::vector<std::string> reasons_against_bits(const ReplayConditions& a, const ReplayConditions& b);

struct ReplayRecord {
    i64 step = 0;         // of the checkpoint
    u64 weight_hash = 0;  // of the checkpoint
    i64 wanted = 0;       // rows that a run which is not interrupted writes
    ReplayConditions conditions;
    std::vector<ReplayRow> rows;  // of the steps step + 1, step + 2, ...
};

std::string to_text(const ReplayRecord& record);
// Throws Error(checkpoint) that names `path` and what is wrong; a text that is not the one that was written (a flipped
// byte) is refused.
ReplayRecord parse_replay(const std::string& text, const std::string& path);
// Empty where the step folder has none.
std::optional<std::string> read_replay_text(const std::string& folder);

// The records of a run under way. Every rank keeps the same rows, because the weight hash is made by all of them; the
// one that writes keeps the folders too. A checkpoint may get its name some steps after the save began: rows wait until
// publish(). A folder that was removed since (checkpoint.keep_last) is written to no more, nor one that the disk
// refuses, with a warning: no proof is worth a run. Neither changes what wants() says, which all ranks must say alike.
class ReplayTrace {
public:
    enum class Writes { yes, no };
    ReplayTrace(i64 steps, Writes writes, ReplayConditions conditions);

    // A save of the state after `step` steps begins.
    void begin(i64 step, u64 weight_hash);
    // The checkpoint of that step stands at `folder`: rows are on the disk from now on. For the rank that writes.
    void publish(i64 step, const std::string& folder);
    void abandon(i64 step);  // that save failed; on every rank at the same step, as begin()
    // Whether some record wants the step that ends with `step` steps done.
    [[nodiscard]] bool wants(i64 step) const;
    void add(const ReplayRow& row);
    [[nodiscard]] const ReplayConditions& conditions() const { return conditions_; }

private:
    struct Open {
        ReplayRecord record;
        std::string folder;  // empty: not published yet
        bool lost = false;   // to be written no more
    };
    void write(Open& open) const;
    void drop_finished();

    i64 steps_;
    Writes writes_;
    ReplayConditions conditions_;
    std::deque<Open> open_;
};

}  // namespace ogrom
