// How a run begins. Comes in: the run's folder, a checkpoint or weights of the user's choice, or nothing. Goes out: an
// engine with its weights, at its first step. Next: train/trainer.cpp
#include <fmt/format.h>

#include "kernels/common/fault.h"

#include "src/base/file.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/train/trainer.h"

namespace ogrom {

template <class T>
void Trainer<T>::open() {
    if (!trains()) {
        return;
    }
    if (leads()) {
        folder_.emplace(run_, options_.resume.kind);
        if (!run_.train.trace.empty()) {
            TraceFile::require_writable(run_.train.trace);
        }
        open_log_file(run_.run.output + "/log.txt");
    }
    // In the process that prints how the job ended, whichever rank failed: exits
    // 2-7 and dead ranks stand in the events. A run that is refused leaves no folder for them to stand in.
    session_.on_failure([output = run_.run.output, rank = session_.rank(), host = session_.host()](
                            ExitCode code, const std::string& text) {
        if (file_exists(join_path(output, "run.toml"))) {
            (void)try_append_event(output, rank, host, -1, "failure", static_cast<int>(code), text);
        }
    });
    // Nobody goes on before rank 0 has the folder: a refused run must leave no
    // trace of the others.
    session_.world().barrier("run folder").wait();
}

template <class T>
void Trainer<T>::record_passes() {
    if (!place_.decisions.records_passes) {
        return;
    }
    graphs_.record(*engine_, make_batch(run_.train.micro_batch, run_.train.sequence));
    const auto times = graphs_.measure(*engine_);
    const bool whole = run_.run.graphs == "always" || times.whole < times.single;
    engine_->graphs = whole ? &graphs_ : nullptr;
    place_.decisions.reasons.push_back(fmt::format(
        "passes launched {}: a micro-batch takes {:.2f} ms whole, recorded as {} kernels, copies and fills in "
        "{} passes, and {:.2f} ms kernel by kernel (run.graphs = {})",
        whole ? "whole" : "kernel by kernel", 1e3 * times.whole, graphs_.nodes(), graphs_.count(), 1e3 * times.single,
        run_.run.graphs));
    if (!whole) {
        graphs_ = {};
    }
}

template <class T>
void Trainer<T>::find_checkpoint() {
    session_.set_phase(Phase::load, 0);
    if (measures()) {  // of the weights it begins with no time depends
        return;
    }
    const std::string checkpoint = choose_checkpoint(session_.world(), run_, options_.resume);
    summary_.checkpoint = checkpoint;
    if (!checkpoint.empty() && !fault_active("init_over_resume")) {
        found_ = open_checkpoint(session_.world(), run_, *sampler_, texts_, checkpoint);
        texts_.origin = origin_within(found_->extra);
    } else if (trains() && !run_.checkpoint.init_from.empty()) {
        initial_.emplace(session_.world(), run_, texts_);
    }
    if (options_.purpose == Purpose::verify) {
        recorded_ = record_to_replay(session_.world(), checkpoint, found_ ? found_->weight_hash : 0);
    }
    session_.set_phase(Phase::plan, 0);
}

template <class T>
void Trainer<T>::resume() {
    session_.set_phase(Phase::load, 0);
    if (!found_) {
        start();
        return;
    }
    const CheckpointHeader& header = *found_;
    const std::string& checkpoint = summary_.checkpoint;
    resume_from(*engine_, header, texts_, checkpoint);
    best_valid_loss_ = header.best_valid_loss;
    if (leads()) {
        log_info("resumed from {} at step {}, {} samples read", checkpoint, engine_->step,
                 group_digits(header.cursor.total_samples));
        if (!run_.checkpoint.init_from.empty()) {
            log_info("checkpoint.init_from = {} was not read: this run has begun", quote(run_.checkpoint.init_from));
        }
        if (trains() && engine_->step >= run_.train.steps) {
            log_warning("nothing to train: train.steps = {}, the checkpoint is of step {}", run_.train.steps,
                        engine_->step);
        }
    }
    event(Phase::load, ExitCode::done, "resumed from " + checkpoint);
}

template <class T>
void Trainer<T>::start() {
    std::string with;
    if (initial_) {
        initial_->load(*engine_);
        texts_.origin = initial_->origin();
        with = ", weights from " + initial_->text();
        log_info("fresh start{}", with);
        initial_.reset();
    }
    event(Phase::start, ExitCode::done, "fresh start" + with);
}

#define OGROM_INSTANTIATE(T)                     \
    template void Trainer<T>::open();            \
    template void Trainer<T>::record_passes();   \
    template void Trainer<T>::find_checkpoint(); \
    template void Trainer<T>::resume();          \
    template void Trainer<T>::start()
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
