// Comes in: the run file resolved, the session. Goes out: batches into
// train/step, results into io/metrics and io/checkpoint. Next:
// data/sampler.cpp, data/prefetch.cpp, train/step.cpp; how a run begins: train/trainer_begin.cpp
#include "src/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "src/base/file.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/device/memory.h"
#include "src/train/announce.h"
#include "src/train/products.h"
#include "src/train/warm_up.h"

namespace ogrom {

template <class T>
Trainer<T>::Trainer(Session& session, const RunConfig& run, const TrainOptions& options, UnitHook<GradientOf<T>> hook)
    : session_(session),
      run_(run),
      options_(options),
      device_(choose_device(session_, run_)),
      transport_(agree_transport(session_.world(), session_.host(), device_, run_)),
      queues_(device_),
      mesh_(make_mesh(session_, run_.parallel, mesh_options(run_, transport_, queues_))),
      vote_(*mesh_.world, [this] { return session_.stop_requested() || out_of_time(to_save_s()); }) {
    session_.set_phase(Phase::plan, 0);
    open();
    sampler_ = std::make_unique<Sampler>(run_.data, run_.train.sequence, run_.model.vocab, SplitPart::train);
    if (!run_.data.valid.empty() || run_.data.valid_fraction > 0) {
        valid_ = std::make_unique<Sampler>(run_.data, run_.train.sequence, run_.model.vocab, SplitPart::valid);
    }
    texts_ = describe_run(session_, run_, mesh_, device_);
    find_checkpoint();
    place_ = prepare_workplace(session_, run_, mesh_, device_, axis_options(transport_, queues_));
    const bool gpu = device_.is_gpu();
    const PlanTold told{run_, mesh_.shape, place_, device_, transport_, session_};
    if (!gpu && !measures()) {
        announce_plan(told, *sampler_, valid_.get());
    }
    engine_ = std::make_unique<Engine<T>>(run_, place_.decisions, place_.ledger, mesh_, device_, queues_.compute);
    if (gpu) {
        warm_up(*engine_);
        const ProductChoices products = choose_products(session_, run_, mesh_, queues_.compute,
                                                        found_ ? products_within(found_->provenance_json) : "");
        texts_.provenance_json = with_products(texts_.provenance_json, products.text);
        place_.decisions.reasons.push_back(products.summary);
        record_passes();
        session_.world().barrier("devices warm").wait();
        add_gpu_lines(place_.ledger, device_, transport_.ranks_per_gpu, engine_->arena.device_bytes());
        if (!measures()) {
            announce_plan(told, *sampler_, valid_.get());
        }
    }
    if (hook) {
        engine_->units.set_hook(std::move(hook));
    }
    resume();
    first_step_ = engine_->step;
    if (trains()) {
        require_room_to_save(*engine_, *sampler_, texts_);
    }
    trace_ =
        std::make_unique<TraceFile>(session_, trains() ? run_.train.trace : "", first_step_ + run_.train.trace_steps);
    engine_->trace = record();
    replay_.emplace(run_.checkpoint.trace_steps, leads() ? ReplayTrace::Writes::yes : ReplayTrace::Writes::no,
                    replay_conditions(*engine_, place_.threads, texts_));
    if (folder_) {
        folder_->keep();
        archive(run_, texts_.provenance_json);
        metrics_ = std::make_unique<Metrics>(run_.run.output, is_own(run_, summary_.checkpoint) ? first_step_ : 0);
        console_ = std::make_unique<Console>(run_.train.steps, run_.train.log_interval_steps, first_step_);
    }
    saver_.emplace(
        typename Saver<T>::Place{session_, *engine_, *sampler_, texts_, *replay_, metrics_.get(), console_.get(),
                                 [this] {
                                     if (folder_) {
                                         folder_->require_ours();
                                     }
                                 }},
        found_ ? first_step_ : -1);
}

template <class T>
bool Trainer<T>::out_of_time(double needed_s) const {
    const double limit_s = options_.time_limit.after_launch_s;
    return limit_s > 0 && seconds_since_launch() + needed_s > limit_s;
}

template <class T>
Wish Trainer<T>::wish() const {
    const i64 done = engine_->step - first_step_;
    const bool counted_out = options_.stop_after_steps > 0 && done >= options_.stop_after_steps;
    // What comes before the next chance to stop must fit as well: a step, perhaps
    // an evaluation, and the save.
    const bool late = out_of_time(last_step_s_ + last_evaluation_s_ + to_save_s());
    return session_.stop_requested() || counted_out || late ? Wish::stop : Wish::go_on;
}

template <class T>
TrainSummary Trainer<T>::run() {
    Prefetch prefetch(*sampler_, run_.train, mesh_.place.dp, engine_->step, engine_->samples_read());
    summary_.launch_s = seconds_since_launch();
    if (measures()) {
        options_.watch->ready({place_, mesh_, device_, transport_, texts_.provenance_json});
    }
    clock_ = trains() ? std::make_unique<RankClock>(session_, device_) : nullptr;
    const Timer whole;
    while (engine_->step < run_.train.steps) {
        session_.set_phase(Phase::train, engine_->step + 1);
        trace_->begin_step(engine_->step);
        engine_->trace = record();
        if (measures()) {
            options_.watch->begin(engine_->step + 1);
        }
        if (clock_) {
            clock_->begin_step();
        }
        const Timer timer;
        const std::vector<Batch> batches = next_batches(prefetch);
        const StepControl control = agree_control(mesh_, batches, wish(), saver_->writer());
        if (control.stop) {
            summary_.code = ExitCode::saved_for_requeue;
            break;
        }
        if (saver_->under_way() && control.writers_idle) {
            saver_->advance();
            session_.set_phase(Phase::train, engine_->step + 1);
        }
        const StepResult result = train_step<T>(*engine_, batches, control.targets, &vote_);
        if (result.stopped) {
            summary_.code = ExitCode::saved_for_requeue;
            break;
        }
        StepTimes times{timer.seconds(), prefetch.waited_s() - last_waited_s_, engine_->units.exposed_s(),
                        bytes_sent(mesh_) - last_sent_};
        last_waited_s_ = prefetch.waited_s();
        last_sent_ = bytes_sent(mesh_);
        if (measures()) {
            options_.watch->end(engine_->step, result, control.targets, times);
        }
        after_step(result, control.targets, times);
    }
    summary_.train_s = whole.seconds();
    trace_->finish();
    read_trace();
    summary_.steps = engine_->step;
    finish();
    return summary_;
}

template <class T>
ReplayReport Trainer<T>::verify() {
    session_.set_phase(Phase::train, engine_->step + 1);
    Prefetch prefetch(*sampler_, run_.train, mesh_.place.dp, engine_->step, engine_->samples_read());
    return replay(*engine_, prefetch, summary_.checkpoint, recorded_.value(), replay_->conditions(),
                  [this] { return session_.stop_requested(); });
}

template <class T>
std::vector<Batch> Trainer<T>::next_batches(Prefetch& prefetch) const {
    const TraceScope scope(engine_->trace, "wait for data", SpanCategory::data);
    std::vector<Batch> batches = prefetch.next(engine_->step);
    if (options_.observe) {
        options_.observe(batches);
    }
    return batches;
}

// One rank of each stage: those of the first data and tensor rank.
template <class T>
void Trainer<T>::read_trace() {
    if (mesh_.shape.pp == 1 || trace_->ranks().empty()) {
        return;
    }
    std::vector<std::vector<TraceSpan>> stages;
    for (int stage = 0; stage < mesh_.shape.pp; ++stage) {
        const int rank = rank_of({.pp = stage}, mesh_.shape);
        stages.push_back(trace_->ranks()[static_cast<std::size_t>(rank)]);
    }
    summary_.schedule = last_whole_step(place_.decisions.schedule, stages);
}

template <class T>
void Trainer<T>::after_step(const StepResult& result, i64 targets, const StepTimes& times) {
    StepMetrics row;
    row.step = engine_->step;
    row.loss = result.loss;
    row.gradient_norm = result.norm;
    row.lr = result.lr;
    row.clip_factor = result.clip;
    row.tokens = targets;
    row.skipped = result.skipped;
    row.loss_scale = result.loss_scale;
    row.memory_bytes = device_.is_gpu() ? place_.ledger.on_device() : resident_memory().peak_anonymous();
    set_rates(row, run_, times, place_.matmul_rate);
    summary_.loss = result.loss;
    last_step_s_ = times.step_s;
    if (clock_) {
        clock_->end_step(engine_->step, times);
    }
    if (engine_->step > first_step_ + 1) {  // the first step warms caches and libraries up
        steps_s_ += times.step_s;
        tokens_ += static_cast<double>(targets);
    }
    if (console_) {
        console_->step(row);
    }
    const bool last = engine_->step == run_.train.steps;
    const i64 interval = run_.train.eval_interval_steps;
    if (valid_ && !measures() && !result.skipped && (last || (interval > 0 && engine_->step % interval == 0))) {
        evaluate_now();
        row.valid_loss = summary_.valid ? std::optional(summary_.valid->loss) : std::nullopt;
    }
    if (metrics_) {
        metrics_->row(row);
    }
    check_finite(result);
    if (replay_->wants(engine_->step)) {
        replay_->add(replay_row(*engine_, result));
    }
    if (trains() && saver_->due()) {
        saver_->save(best_valid_loss_);
    }
}

template <class T>
void Trainer<T>::check_finite(const StepResult& result) {
    if (!result.skipped) {
        return;
    }
    const std::string what = nonfinite_text(engine_->step, result);
    const std::string stop = stop_text(run_.numerics, result, engine_->consecutive_skips);
    if (!stop.empty()) {
        saver_->finish_before_stop();
        session_.set_phase(Phase::train, engine_->step);
        if (metrics_) {
            metrics_->publish_at_stop();
        }
        mesh_.world->barrier("numerics stop").wait();  // the first to leave ends the job: rank 0 is through
        fail(ExitCode::numerics, what + stop);
    }
    if (leads()) {
        log_warning("{}; skipped", what);
    }
    event(Phase::train, ExitCode::done, what + "; skipped");
}

template <class T>
void Trainer<T>::evaluate_now() {
    session_.set_phase(Phase::evaluate, engine_->step);
    const Timer timer;
    summary_.valid = evaluate(*engine_, *valid_, run_.train.eval_samples, vote_);
    if (!summary_.valid) {  // the next step is not begun, and after the last one
                            // this ends the run for a requeue
        summary_.code = ExitCode::saved_for_requeue;
        return;
    }
    const Evaluation& valid = *summary_.valid;
    evaluated_at_ = engine_->step;
    last_evaluation_s_ = timer.seconds();
    best_valid_loss_ = std::isnan(best_valid_loss_) ? valid.loss : std::min(best_valid_loss_, valid.loss);
    if (console_) {
        console_->note(valid_line(engine_->step, valid));
    }
}

// What stopped the run, from whichever rank knows. Collective.
template <class T>
std::string Trainer<T>::why_stopped() {
    std::string mine = session_.stop_signal();
    if (!mine.empty()) {
        mine += fmt::format(" on rank {}", session_.rank());
    } else if (options_.stop_after_steps > 0 && engine_->step - first_step_ >= options_.stop_after_steps) {
        mine = fmt::format("--stop-after {}", options_.stop_after_steps);
    } else if (options_.time_limit.after_launch_s > 0) {
        mine = options_.time_limit.name;
    }
    const std::vector<std::string> all = gather_text(session_.world(), mine, "why stopped");
    const auto signal = std::find_if(all.begin(), all.end(), [](const auto& text) { return text.starts_with("SIG"); });
    return signal != all.end() ? *signal : all[0];  // a limit is the same on all ranks
}

// The checkpoint of this step is in the run's own folder: another run's that it began from may go. Collective.
template <class T>
bool Trainer<T>::stands_on_own() const {
    const bool own = !saver_->checkpoint().empty() || (leads() && is_own(run_, summary_.checkpoint));
    return gather_text(session_.world(), own ? "own" : "", "whose checkpoint")[0] == "own";
}

template <class T>
void Trainer<T>::finish() {
    if (measures()) {
        return;
    }
    const bool early = summary_.code == ExitCode::saved_for_requeue;
    if (early) {
        summary_.stopped_by = why_stopped();
    }
    saver_->finish();
    if ((early || run_.checkpoint.at_end) && (saver_->saved_at() != engine_->step || !stands_on_own())) {
        saver_->save_last(best_valid_loss_);
    }
    if (!saver_->checkpoint().empty()) {
        summary_.checkpoint = saver_->checkpoint();
    }
    if (valid_ && !early && evaluated_at_ != engine_->step) {
        evaluate_now();  // resumed at the last step, or that step was skipped
    }
    session_.set_phase(Phase::report, engine_->step);
    summarise();
    write_rank_times();
    if (metrics_) {
        metrics_->publish_at_stop();
        console_->finish();
        log_lines(summary_text(summary_));
        flush_log();
    }
    event(Phase::report, summary_.code, summary_.code == ExitCode::done ? "done" : "stopped and saved");
}

// Collective. Figures are not worth a run.
template <class T>
void Trainer<T>::write_rank_times() {
    const std::vector<RankTimes> ranks = clock_ ? clock_->gather() : std::vector<RankTimes>();
    if (!metrics_ || ranks.empty()) {
        return;
    }
    try {
        ogrom::write_rank_times(run_.run.output, ranks);
    } catch (const Error& error) {
        log_warning("times by rank are not written: {}", error.what());
    }
}

template <class T>
void Trainer<T>::summarise() {
    const Engine<T>& engine = *engine_;
    summary_.steps = engine.step;
    summary_.skipped = engine.skipped;
    summary_.matmul_rate = place_.matmul_rate;
    summary_.weight_hash = engine.model_hash();
    const bool gpu = device_.is_gpu();
    summary_.memory_ledger = gpu ? place_.ledger.on_device() : place_.ledger.total();
    summary_.memory_peak =
        agree_max(session_.world(), gpu ? gpu_memory(device_).used : resident_memory().peak_anonymous(), "memory peak");
    if (summary_.valid && leads()) {
        summary_.unigram_entropy = valid_->unigram_entropy(summary_.valid->samples);
    }
    if (steps_s_ > 0) {
        const i64 steps = engine.step - first_step_ - 1;
        StepMetrics mean;
        mean.tokens = static_cast<i64>(tokens_ / static_cast<double>(steps));
        StepTimes times;
        times.step_s = steps_s_ / static_cast<double>(steps);
        set_rates(mean, run_, times, place_.matmul_rate);
        summary_.tokens_per_s = mean.tokens_per_s;
        summary_.model_tflops = mean.model_tflops;
        summary_.fraction_of_sgemm = mean.fraction_of_sgemm;
    }
}

template <class T>
void Trainer<T>::event(Phase phase, ExitCode code, const std::string& text) const {
    if (folder_) {
        (void)try_append_event(run_.run.output, session_.rank(), session_.host(), engine_->step,
                               std::string(name_of(phase)), static_cast<int>(code), text);
    }
}

template class Trainer<float>;
template class Trainer<double>;
template class Trainer<Bf16>;
template class Trainer<Fp16>;

}  // namespace ogrom
