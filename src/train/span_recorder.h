// Spans of this rank while it lives: those that the step itself records, the collectives of every axis as they end,
// and, where asked, the time that its thread gave to communication. Its clock begins with the ranks of its host
// together.
#pragma once
#include "src/comm/session.h"
#include "src/pipeline/trace.h"

namespace ogrom {

class SpanRecorder {
public:
    enum class Waits { no, yes };  // spans of category wait, named "<axis>: <label>"
    // Collective. Room for `capacity` spans.
    SpanRecorder(Session& session, i64 capacity, Waits waits);
    ~SpanRecorder();
    SpanRecorder(const SpanRecorder&) = delete;
    SpanRecorder& operator=(const SpanRecorder&) = delete;

    [[nodiscard]] Trace& trace() { return *trace_; }
    void stop();  // no span of communication from here on

private:
    void agree_epoch();
    void observe(const FlightEntry& entry);
    void observe_wait(const CommWait& wait);
    Session& session_;
    Waits waits_;
    double epoch_s_ = 0;  // of the steady clock
    std::unique_ptr<Trace> trace_;
};

}  // namespace ogrom
