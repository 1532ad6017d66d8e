// The passes of a stage on a GPU, recorded once each (device/recorded) and launched whole in every step. Where that may
// be is decided in plan/decide; a pass in which something is reduced or gathered runs kernel by kernel, as all passes
// do without it.
#pragma once
#include <vector>

#include "src/device/recorded.h"
#include "src/train/engine.h"

namespace ogrom {

template <class T>
class PassGraphs {
public:
    // Records the compute actions of the engine's step: after warm_up, once the algorithms of the products are chosen.
    // Micro-batches of the extents and fields of `like` (its values are of no account) are then launched so; each pass
    // is run once on it before. Leaves no step begun; weights and moments are what they were.
    void record(Engine<T>& engine, const Batch& like);
    // Enqueues what the recorded passes of a step read. The host must have waited for the stream since the last step.
    void begin_step(Engine<T>& engine, const typename Stage<T>::StepInfo& info) const;
    // Seconds of one micro-batch's passes, both ways, on the batch of record(): the shorter of two times each. Leaves
    // everything as record() does.
    struct Times {
        double whole = 0, single = 0;
    };
    [[nodiscard]] Times measure(Engine<T>& engine) const;
    // The pass of `action` on `batch`, where it is recorded and may be launched now. False: it is to be run.
    bool launch(Engine<T>& engine, const Action& action, const BatchView& batch);
    [[nodiscard]] i64 count() const { return static_cast<i64>(passes_.size()); }
    [[nodiscard]] i64 nodes() const;
    [[nodiscard]] i64 launched() const { return launched_; }  // passes so far

private:
    [[nodiscard]] typename Stage<T>::StepInfo info_of(Engine<T>& engine) const;
    struct Recorded {
        Action action;  // of any micro-batch
        i64 uses = 0;   // of units within it
        bool makes_loss = false;
        RecordedWork work;
    };
    std::vector<Recorded> passes_;
    BatchView batch_;  // what they read
    i64 launched_ = 0;
};

}  // namespace ogrom
