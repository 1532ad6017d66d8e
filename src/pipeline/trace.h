// Spans of time of one rank: what it computed, sent, waited for. Bounded memory taken at construction; times are
// seconds of the steady clock since an epoch that all ranks of a run share (ranks of one node share the clock).
#pragma once
#include <array>
#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/common/extents.h"

#include "src/device/profile.h"
#include "src/pipeline/actions.h"

namespace ogrom {

enum class SpanCategory { compute, communication, wait, optimizer, data, other };

struct TraceSpan {
    static constexpr std::size_t name_size = 40;
    std::array<char, name_size> name_text = {};  // closed by a zero; longer names are cut
    SpanCategory category = SpanCategory::other;
    double start = 0, end = 0;  // seconds since the epoch
    i64 step = -1;
    i64 micro_batch = -1, chunk = -1, layer = -1;  // -1: does not apply
    i64 bytes = 0;

    [[nodiscard]] std::string_view name() const { return name_text.data(); }
    void set_name(std::string_view name);
};

class Trace {
public:
    using Clock = std::chrono::steady_clock;
    // Room for `capacity` spans, about 100 bytes each; what does not fit is counted and not kept.
    Trace(i64 capacity, Clock::time_point epoch);
    [[nodiscard]] double now() const;  // seconds since the epoch
    void set_step(i64 step) { step_ = step; }
    void add(std::string_view name, const TraceSpan& span);  // name and step are filled in
    [[nodiscard]] std::span<const TraceSpan> spans() const { return spans_; }
    [[nodiscard]] i64 dropped() const { return dropped_; }
    void clear();

private:
    Clock::time_point epoch_;
    std::vector<TraceSpan> spans_;
    std::size_t capacity_;
    i64 step_ = -1;
    i64 dropped_ = 0;
};

// Records one span from construction to destruction; `trace` may be null. A profiler sees it in any case.
class TraceScope {
public:
    TraceScope(Trace* trace, std::string_view name, SpanCategory category, i64 micro_batch = -1, i64 chunk = -1,
               i64 layer = -1);
    ~TraceScope();
    TraceScope(const TraceScope&) = delete;
    TraceScope& operator=(const TraceScope&) = delete;

private:
    ProfileRange range_;
    Trace* trace_;
    std::string_view name_;  // must outlive the scope
    TraceSpan span_;
};

// One line per span, for gathering over the ranks; parse_spans is its exact inverse and throws Error(peer) naming the
// line that it cannot read.
std::string serialise_spans(std::span<const TraceSpan> spans);
std::vector<TraceSpan> parse_spans(std::string_view text);

// Chrome's trace format (chrome://tracing, ui.perfetto.dev): one process per rank; thread 0 is what the rank itself
// did, threads 1, 2, ... its communication, cut so that no two spans of a thread overlap.
std::string chrome_trace(std::span<const std::vector<TraceSpan>> ranks);

// A compute action on the time axis, simulated or measured.
struct PassSpan {
    ActionKind kind = ActionKind::forward;
    i64 micro_batch = 0, chunk = 0;
    double start = 0, end = 0;  // seconds
};

// The pipeline passes that execute recorded in `step`, in order of time.
std::vector<PassSpan> passes_of(std::span<const TraceSpan> spans, i64 step);

// Idle seconds of each stage between the first and the last pass of the step on any stage.
std::vector<double> bubble_of(std::span<const std::vector<PassSpan>> stages);

}  // namespace ogrom
