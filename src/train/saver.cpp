#include "src/train/saver.h"

#include <algorithm>
#include <fmt/format.h>
#include <thread>

#include "src/base/log.h"
#include "src/base/text.h"
#include "src/io/checkpoint_folder.h"
#include "src/train/run_folder.h"

namespace ogrom {
namespace {

constexpr std::chrono::seconds retry_pause{1};

// Adds the time of its life to `sum`.
class Held {
public:
    explicit Held(double& sum) : sum_(sum) {}
    ~Held() { sum_ += timer_.seconds(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

private:
    double& sum_;
    Timer timer_;
};

}  // namespace

template <class T>
Saver<T>::Saver(const Place& place, i64 saved_at) : place_(place), run_(place.engine.run), saved_at_(saved_at) {}

template <class T>
bool Saver<T>::due() const {
    const i64 interval = run_.checkpoint.interval_steps;
    return interval > 0 && place_.engine.step % interval == 0;
}

template <class T>
void Saver<T>::save(double best_valid_loss) {
    if (place_.engine.step == run_.train.steps) {
        begin(Way::last, best_valid_loss);
        return;
    }
    begin(place_.engine.decisions.background_saves ? Way::background : Way::waited_for, best_valid_loss);
}

template <class T>
void Saver<T>::save_last(double best_valid_loss) {
    begin(Way::last, best_valid_loss);
}

template <class T>
void Saver<T>::begin(Way way, double best_valid_loss) {
    double held_s = 0;
    {
        const Held held(held_s);
        finish();
        place_.session.set_phase(Phase::save, place_.engine.step);
        place_.engine.require_equal_copies();
        wanted_.emplace();
        wanted_->way = way;
        wanted_->header = make_header(place_.engine, place_.sampler, place_.texts, best_valid_loss);
        wanted_->groups = place_.engine.groups_to_write();
        place_.replay.begin(wanted_->header.step, wanted_->header.weight_hash);
        attempt();
    }
    if (wanted_) {
        wanted_->held_s += held_s;
    }
    if (way != Way::background) {
        finish();
    }
}

template <class T>
void Saver<T>::attempt() {
    SaveOptions options{.keep = {run_.checkpoint.keep_last, run_.checkpoint.keep_every}};
    options.disk.set_direct(run_.checkpoint.direct_io);
    if (wanted_->way == Way::background) {
        options.disk.set_pace(std::make_shared<Pace>(run_.checkpoint.write_mb_per_s * 1e6));
    }
    options.require_ours = place_.require_ours;
    if (place_.metrics != nullptr) {
        options.before_commit = place_.metrics->publication(wanted_->header.step);
    }
    try {
        const Engine<T>& engine = place_.engine;
        pending_ = begin_save<GradientOf<T>>(engine.world, checkpoints_of(run_), wanted_->header, engine.layout,
                                             run_.model, wanted_->groups, std::move(options));
    } catch (const Error& error) {
        failed(error);
    }
}

template <class T>
void Saver<T>::advance() {
    if (!wanted_) {
        return;
    }
    place_.session.set_phase(Phase::save, wanted_->header.step);
    double held_s = 0;
    {
        const Held held(held_s);
        next_stage();
    }
    if (wanted_) {
        wanted_->held_s += held_s;
    }
}

template <class T>
void Saver<T>::next_stage() {
    if (wanted_->again_at) {
        std::this_thread::sleep_until(*wanted_->again_at);
        wanted_->again_at.reset();
        attempt();
        return;
    }
    try {
        if (!pending_->advance()) {
            return;
        }
    } catch (const Error& error) {
        failed(error);
        return;
    }
    complete();
}

template <class T>
void Saver<T>::finish() {
    while (wanted_) {
        if (pending_) {
            pending_->hurry();
        }
        advance();
    }
}

template <class T>
void Saver<T>::finish_before_stop() noexcept {
    try {
        finish();
    } catch (const std::exception& error) {
        log_warning("the save that was under way failed: {}", error.what());
    }
}

template <class T>
Writer Saver<T>::writer() const {
    if (!wanted_) {
        return Writer::idle;
    }
    const bool busy = wanted_->again_at ? Clock::now() < *wanted_->again_at : pending_->busy();
    return busy ? Writer::busy : Writer::idle;
}

// The stages so far of one that is under way are taken to come again.
template <class T>
double Saver<T>::needed_s() const {
    return wanted_ ? 2 * last_save_s_ : last_save_s_;
}

// The same on every rank: the verdict of a save is shared.
template <class T>
void Saver<T>::failed(const Error& error) {
    pending_.reset();
    const i64 step = wanted_->header.step, tries = run_.checkpoint.retries + 1;
    const bool mends = error.code() == ExitCode::checkpoint;
    if (mends && ++wanted_->failures < tries) {
        wanted_->again_at = Clock::now() + retry_pause;
        if (place_.session.rank() == 0) {
            log_warning("save of step {} failed (try {} of {}), the next one in {} s: {}", step, wanted_->failures,
                        tries, retry_pause.count(), error.what());
        }
        return;
    }
    const bool stop = !mends || wanted_->way == Way::last || run_.checkpoint.on_failure == SaveFailure::stop;
    wanted_.reset();
    place_.replay.abandon(step);
    if (stop) {
        throw error;
    }
    const std::string text =
        fmt::format("NO CHECKPOINT of step {}: {}; the run goes on (checkpoint.on_failure = \"warn\"), {}", step,
                    error.what(), age_text());
    if (place_.session.rank() == 0) {
        log_warning("{}", text);
    }
    event(ExitCode::checkpoint, step, text);
}

template <class T>
std::string Saver<T>::age_text() const {
    const i64 behind = place_.engine.step - std::max<i64>(saved_at_, 0);
    if (saved_at_ < 0) {
        return fmt::format("nothing of its {} steps is saved", behind);
    }
    return fmt::format("the last good checkpoint is of step {}: {} steps and {:.0f} s ago", saved_at_, behind,
                       since_good_.seconds());
}

template <class T>
void Saver<T>::complete() {
    const Wanted done = std::move(*wanted_);
    const std::unique_ptr<PendingSave> save = std::move(pending_);
    wanted_.reset();
    const i64 step = done.header.step;
    saved_at_ = step;
    since_good_.restart();
    checkpoint_ = fmt::format("{}/{}", checkpoints_of(run_), step_name(step));
    const double seconds = done.since.seconds();
    last_save_s_ = done.way == Way::background ? done.held_s + save->work_s() : seconds;
    place_.replay.publish(step, checkpoint_);
    if (place_.console != nullptr) {
        const double bytes = static_cast<double>(save->bytes());
        place_.console->note(fmt::format("saved {} in {:.2f} s: {}, {:.2f} GB/s; {}", checkpoint_, seconds,
                                         human_bytes(save->bytes()), bytes / 1e9 / std::max(seconds, 1e-9),
                                         done.way == Way::background
                                             ? fmt::format("steps held up for {:.0f} ms", 1e3 * done.held_s)
                                             : "steps waited"));
    }
    event(ExitCode::done, step, checkpoint_);
}

template <class T>
void Saver<T>::event(ExitCode code, i64 step, const std::string& text) const {
    if (place_.metrics != nullptr) {
        (void)try_append_event(run_.run.output, place_.session.rank(), place_.session.host(), step,
                               std::string(name_of(Phase::save)), static_cast<int>(code), text);
    }
}

template class Saver<float>;
template class Saver<double>;
template class Saver<Bf16>;
template class Saver<Fp16>;

}  // namespace ogrom
