// A run from its resolved file to its end: set-up in the order of the walk
// (device, mesh, data, ledger, arena, stage, reducer, resume, prefetch, metrics), then
// steps until the last one, a signal or the time limit. Comes in: a checked
// RunConfig. Goes out: the run folder, checkpoints, a summary. Next:
// data/sampler.cpp
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "src/comm/mesh.h"
#include "src/comm/placement.h"
#include "src/data/sampler.h"
#include "src/device/queue.h"
#include "src/io/metrics.h"
#include "src/io/replay_trace.h"
#include "src/train/console.h"
#include "src/train/initial.h"
#include "src/train/pass_graphs.h"
#include "src/train/rank_clock.h"
#include "src/train/replay.h"
#include "src/train/run_folder.h"
#include "src/train/saver.h"
#include "src/train/setup.h"
#include "src/train/step.h"
#include "src/train/stop_time.h"
#include "src/train/throughput.h"
#include "src/train/trace_file.h"

namespace ogrom {

enum class Purpose {
    train,
    verify,  // makes the steps again that the checkpoint's run recorded after it; writes nothing
    measure  // makes steps for a watch: no run folder, no evaluation, no save; writes nothing
};

// What Purpose::measure is for: told of every step of this rank. Steps count from 1.
class StepWatch {
public:
    // What the steps run on; valid until the trainer ends.
    struct Place {
        const Workplace& work;
        const Mesh& mesh;
        const Device& device;
        const TransportChoice& transport;
        const std::string& provenance_json;
    };
    virtual ~StepWatch() = default;
    virtual Trace& trace() = 0;                  // spans of the steps
    virtual void ready(const Place& place) = 0;  // before the first step
    virtual void begin(i64 step) = 0;
    virtual void end(i64 step, const StepResult& result, i64 targets, const StepTimes& times) = 0;
};

struct TrainOptions {
    ResumeChoice resume = {};
    TimeLimit time_limit = {};  // saved in time, exit 75
    i64 stop_after_steps = 0;   // of this process; 0 = none. As if a signal came then
    Purpose purpose = Purpose::train;
    StepWatch* watch = nullptr;                                // of Purpose::measure
    std::function<void(std::span<const Batch>)> observe = {};  // what this rank takes in at each step; may be empty
};

template <class T>
class Trainer {
public:
    // Collective over all ranks. Everything is checked, allocated and archived on
    // return; nothing is trained yet.
    Trainer(Session& session, const RunConfig& run, const TrainOptions& options, UnitHook<GradientOf<T>> hook = {});

    // Collective. Throws Error(numerics) on every rank when a non-finite step is
    // to stop the run.
    TrainSummary run();
    // Collective, of Purpose::verify.
    ReplayReport verify();

    [[nodiscard]] Engine<T>& engine() { return *engine_; }

private:
    [[nodiscard]] bool leads() const { return session_.rank() == 0; }
    void open();
    void find_checkpoint();  // or the weights to begin with; and whether they fit, before the plan is printed
    void resume();
    void record_passes();
    void start();
    [[nodiscard]] Wish wish() const;
    [[nodiscard]] bool out_of_time(double needed_s) const;
    [[nodiscard]] double to_save_s() const { return saver_ ? saver_->needed_s() : 0; }
    [[nodiscard]] bool trains() const { return options_.purpose == Purpose::train; }
    [[nodiscard]] bool measures() const { return options_.purpose == Purpose::measure; }
    [[nodiscard]] Trace* record() { return measures() ? &options_.watch->trace() : trace_->record(); }
    [[nodiscard]] std::vector<Batch> next_batches(Prefetch& prefetch) const;
    void read_trace();
    void after_step(const StepResult& result, i64 targets, const StepTimes& times);
    void check_finite(const StepResult& result);
    void evaluate_now();  // leaves summary_.valid empty when a stop came
    [[nodiscard]] bool stands_on_own() const;
    std::string why_stopped();
    void finish();
    void write_rank_times();
    void event(Phase phase, ExitCode code, const std::string& text) const;
    void summarise();

    Session& session_;
    const RunConfig& run_;
    const TrainOptions options_;
    const Device device_;
    const TransportChoice transport_;
    const Queues queues_;
    Mesh mesh_;
    std::optional<RunFolder> folder_;  // rank 0, of Purpose::train
    std::unique_ptr<Sampler> sampler_, valid_;
    StopVote vote_;
    SavedTexts texts_;
    std::optional<CheckpointHeader> found_;  // of the checkpoint to resume from
    std::optional<InitialWeights> initial_;  // until they are loaded
    std::optional<ReplayRecord> recorded_;   // of Purpose::verify
    Workplace place_;
    std::unique_ptr<Engine<T>> engine_;
    PassGraphs<T> graphs_;
    std::unique_ptr<Metrics> metrics_;  // rank 0
    std::unique_ptr<Console> console_;  // rank 0
    std::unique_ptr<TraceFile> trace_;
    std::unique_ptr<RankClock> clock_;  // of Purpose::train
    std::optional<ReplayTrace> replay_;
    std::optional<Saver<T>> saver_;
    TrainSummary summary_;
    double best_valid_loss_ = std::numeric_limits<double>::quiet_NaN();  // NaN: not evaluated yet
    i64 first_step_ = 0, evaluated_at_ = -1;
    double steps_s_ = 0;  // time within steps after the first
    double tokens_ = 0;   // targets of those steps
    double last_step_s_ = 0, last_evaluation_s_ = 0, last_waited_s_ = 0;
    i64 last_sent_ = 0;
};

// With weights of the type that precision.weights names (train/train.cpp).
TrainSummary train(Session& session, const RunConfig& run, const TrainOptions& options);
// A fresh model makes `steps` steps under `watch`. False: a signal stopped it. Collective.
bool measure_steps(Session& session, const RunConfig& run, i64 steps, StepWatch& watch);
ReplayReport verify_resume(Session& session, const RunConfig& run, const ResumeChoice& resume);

}  // namespace ogrom
