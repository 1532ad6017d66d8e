// Comes in: what comm tells as it happens. Goes out: spans in one trace. Next: pipeline/trace.cpp
#include "src/train/span_recorder.h"

#include <chrono>
#include <cstdlib>
#include <fmt/format.h>

#include "src/pipeline/execute.h"

namespace ogrom {

SpanRecorder::SpanRecorder(Session& session, i64 capacity, Waits waits) : session_(session), waits_(waits) {
    agree_epoch();
    const auto epoch = std::chrono::duration_cast<Trace::Clock::duration>(std::chrono::duration<double>(epoch_s_));
    trace_ = std::make_unique<Trace>(capacity, Trace::Clock::time_point(epoch));
    session_.observe_collectives([this](const FlightEntry& entry) { observe(entry); });
    if (waits == Waits::yes) {
        session_.observe_waits([this](const CommWait& wait) { observe_wait(wait); });
    }
}

SpanRecorder::~SpanRecorder() {
    stop();
}

void SpanRecorder::stop() {
    session_.observe_collectives({});
    if (waits_ == Waits::yes) {
        session_.observe_waits({});
    }
}

// Ranks of one host share its clock, and so the epoch of their first rank; hosts meet at a barrier.
void SpanRecorder::agree_epoch() {
    session_.world().barrier("trace begins").wait();
    const double now = std::chrono::duration<double>(Trace::Clock::now().time_since_epoch()).count();
    for (const std::string& text :
         gather_text(session_.world(), fmt::format("{:.9f} {}", now, session_.host()), "trace")) {
        const std::size_t blank = text.find(' ');
        if (text.substr(blank + 1) == session_.host()) {
            epoch_s_ = std::strtod(text.c_str(), nullptr);
            return;
        }
    }
}

// Boundaries of the pipeline are recorded by the executor, which knows their micro-batch.
void SpanRecorder::observe(const FlightEntry& entry) {
    if (entry.label == activation_label || entry.label == gradient_label) {
        return;
    }
    TraceSpan span;
    span.category = SpanCategory::communication;
    span.start = entry.issued_s - epoch_s_;
    span.end = entry.done_s - epoch_s_;
    span.bytes = entry.bytes;
    trace_->add(fmt::format("{} ({})", entry.label, entry.axis), span);
}

void SpanRecorder::observe_wait(const CommWait& wait) {
    TraceSpan span;
    span.category = SpanCategory::wait;
    span.start = wait.begin_s - epoch_s_;
    span.end = wait.end_s - epoch_s_;
    trace_->add(fmt::format("{}: {}", wait.axis, wait.label), span);
}

}  // namespace ogrom
