// The saves of a run: what is due, begin, poll, finish, try again, tell. A save at an interval is written while
// training goes on where the decisions say so (checkpoint.async), else it holds the steps up; both take the same way.
// One save is under way at most: a save that falls due meanwhile waits for the earlier one first.
// Comes in: the engine between two steps. Goes out: checkpoints, lines of the log, the records of the replay. Next:
// train/resume.cpp (what a checkpoint says beside the tensors), io/checkpoint_pending.cpp.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/timer.h"
#include "src/comm/session.h"
#include "src/data/sampler.h"
#include "src/io/checkpoint_pending.h"
#include "src/io/metrics.h"
#include "src/io/replay_trace.h"
#include "src/train/console.h"
#include "src/train/engine.h"
#include "src/train/resume.h"
#include "src/train/step.h"

namespace ogrom {

template <class T>
class Saver {
public:
    struct Place {
        Session& session;
        const Engine<T>& engine;
        const Sampler& sampler;
        const SavedTexts& texts;
        ReplayTrace& replay;
        Metrics* metrics = nullptr;               // of the rank that tells
        Console* console = nullptr;               // likewise
        std::function<void()> require_ours = {};  // on rank 0: whether the run's folder is still this run's
    };
    // What `place` names must outlive it. `saved_at`: step of the checkpoint that the run stands on, -1 without one.
    Saver(const Place& place, i64 saved_at);

    [[nodiscard]] bool due() const;
    // All collective, between steps. Error(checkpoint) on every rank where a save has failed and the run is to stop for
    // it (checkpoint.on_failure).
    void save(double best_valid_loss);
    void save_last(double best_valid_loss);  // complete on return; a failure stops, whatever the key says
    void advance();                          // once no rank is busy
    void finish();                           // the save under way, if any, is over on return
    void finish_before_stop() noexcept;      // the same where the run ends on another fault: it stays the news

    // Whether this rank has work in the background; for agree_control.
    [[nodiscard]] Writer writer() const;
    [[nodiscard]] bool under_way() const { return wanted_.has_value(); }         // the same on all ranks
    [[nodiscard]] i64 saved_at() const { return saved_at_; }                     // step of the last that is complete
    [[nodiscard]] const std::string& checkpoint() const { return checkpoint_; }  // the last one that was made
    [[nodiscard]] double needed_s() const;  // what a stop would take to save, as far as is known

private:
    using Clock = std::chrono::steady_clock;
    enum class Way { background, waited_for, last };
    // What is to be saved: as it was when the save began, however often it is tried.
    struct Wanted {
        Way way = Way::waited_for;
        CheckpointHeader header;
        std::vector<StateGroup<const GradientOf<T>>> groups;
        i64 failures = 0;
        double held_s = 0;  // how long steps waited
        Timer since = {};
        std::optional<Clock::time_point> again_at;  // tried again then
    };
    void begin(Way way, double best_valid_loss);
    void attempt();
    void next_stage();
    void failed(const Error& error);
    void complete();
    [[nodiscard]] std::string age_text() const;
    void event(ExitCode code, i64 step, const std::string& text) const;

    const Place place_;
    const RunConfig& run_;
    std::optional<Wanted> wanted_;
    std::unique_ptr<PendingSave> pending_;
    i64 saved_at_;
    Timer since_good_;
    std::string checkpoint_;
    double last_save_s_ = 0;
};

}  // namespace ogrom
