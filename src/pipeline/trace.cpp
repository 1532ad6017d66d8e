#include "src/pipeline/trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <optional>

#include "kernels/common/error.h"

#include "src/base/text.h"

namespace ogrom {
namespace {

constexpr std::array<std::string_view, 6> category_names = {"compute",   "communication", "wait",
                                                            "optimizer", "data",          "other"};
constexpr double nanoseconds = 1e9;

std::string_view name_of_category(SpanCategory category) {
    return category_names.at(static_cast<std::size_t>(category));
}

std::optional<i64> integer(std::string_view text) {
    i64 value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

i64 to_nanoseconds(double seconds) {
    return static_cast<i64>(std::llround(seconds * nanoseconds));
}

// Names become JSON strings and fields of a line.
std::string plain(std::string_view name) {
    std::string text(name);
    std::replace_if(
        text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 32 || c == '"' || c == '\\'; },
        ' ');
    return text;
}

std::optional<TraceSpan> parse_span(std::string_view line) {
    const std::vector<std::string> fields = split(line, '\t');
    if (fields.size() != 9) {
        return std::nullopt;
    }
    TraceSpan span;
    span.set_name(fields[0]);
    const auto* const category = std::find(category_names.begin(), category_names.end(), fields[1]);
    if (category == category_names.end() || span.name() != fields[0]) {
        return std::nullopt;
    }
    span.category = static_cast<SpanCategory>(category - category_names.begin());
    std::array<i64, 7> values = {};
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::optional<i64> value = integer(fields[i + 2]);
        if (!value) {
            return std::nullopt;
        }
        values[i] = *value;
    }
    span.start = static_cast<double>(values[0]) / nanoseconds;
    span.end = static_cast<double>(values[1]) / nanoseconds;
    span.step = values[2];
    span.micro_batch = values[3];
    span.chunk = values[4];
    span.layer = values[5];
    span.bytes = values[6];
    return span;
}

// Thread of each span: 0, or the first communication thread that is free at its start.
std::vector<i64> threads_of(const std::vector<TraceSpan>& spans) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < spans.size(); ++i) {
        if (spans[i].category == SpanCategory::communication) {
            order.push_back(i);
        }
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return spans[a].start < spans[b].start; });
    std::vector<i64> threads(spans.size(), 0);
    std::vector<double> busy_until;
    for (const std::size_t i : order) {
        auto lane =
            std::find_if(busy_until.begin(), busy_until.end(), [&](double until) { return until <= spans[i].start; });
        if (lane == busy_until.end()) {
            lane = busy_until.insert(lane, 0.0);
        }
        *lane = spans[i].end;
        threads[i] = 1 + (lane - busy_until.begin());
    }
    return threads;
}

void append_span(std::string& json, std::size_t rank, i64 thread, const TraceSpan& span) {
    fmt::format_to(
        std::back_inserter(json),
        ",\n{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},"
        "\"args\":{{\"step\":{}",
        plain(span.name()), name_of_category(span.category), rank, thread, 1e6 * span.start,
        1e6 * (span.end - span.start), span.step);
    const auto argument = [&](const char* name, i64 value, i64 absent) {
        if (value != absent) {
            fmt::format_to(std::back_inserter(json), ",\"{}\":{}", name, value);
        }
    };
    argument("micro_batch", span.micro_batch, -1);
    argument("chunk", span.chunk, -1);
    argument("layer", span.layer, -1);
    argument("bytes", span.bytes, 0);
    json += "}}";
}

void append_thread_name(std::string& json, std::size_t rank, i64 thread) {
    const std::string name = thread == 0   ? "compute"
                             : thread == 1 ? "communication"
                                           : fmt::format("communication {}", thread);
    fmt::format_to(std::back_inserter(json),
                   ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}\"}}}}",
                   rank, thread, name);
}

}  // namespace

void TraceSpan::set_name(std::string_view name) {
    const std::string text = plain(name.substr(0, name_size - 1));
    name_text.fill('\0');
    std::copy(text.begin(), text.end(), name_text.begin());
}

Trace::Trace(i64 capacity, Clock::time_point epoch) : epoch_(epoch), capacity_(static_cast<std::size_t>(capacity)) {
    OGROM_ASSERT(capacity >= 0);
    spans_.reserve(capacity_);
}

double Trace::now() const {
    return std::chrono::duration<double>(Clock::now() - epoch_).count();
}

void Trace::add(std::string_view name, const TraceSpan& span) {
    if (spans_.size() == capacity_) {
        ++dropped_;
        return;
    }
    TraceSpan& kept = spans_.emplace_back(span);
    kept.set_name(name);
    kept.step = step_;
}

void Trace::clear() {
    spans_.clear();
    dropped_ = 0;
}

TraceScope::TraceScope(Trace* trace, std::string_view name, SpanCategory category, i64 micro_batch, i64 chunk,
                       i64 layer)
    : range_(name), trace_(trace), name_(name) {
    if (trace_ != nullptr) {
        span_.category = category;
        span_.micro_batch = micro_batch;
        span_.chunk = chunk;
        span_.layer = layer;
        span_.start = trace_->now();
    }
}

TraceScope::~TraceScope() {
    if (trace_ != nullptr) {
        span_.end = trace_->now();
        trace_->add(name_, span_);
    }
}

std::string serialise_spans(std::span<const TraceSpan> spans) {
    std::string text;
    for (const TraceSpan& span : spans) {
        fmt::format_to(std::back_inserter(text), "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", span.name(),
                       name_of_category(span.category), to_nanoseconds(span.start), to_nanoseconds(span.end), span.step,
                       span.micro_batch, span.chunk, span.layer, span.bytes);
    }
    return text;
}

std::vector<TraceSpan> parse_spans(std::string_view text) {
    std::vector<TraceSpan> spans;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::optional<TraceSpan> span = parse_span(text.substr(begin, end - begin));
        if (!span || end == text.size()) {
            fail(ExitCode::peer,
                 fmt::format("trace line {} is not a span (name, category, 7 integers, a line end): {}",
                             spans.size() + 1, quote(text.substr(begin, std::min<std::size_t>(end - begin, 80)))));
        }
        spans.push_back(*span);
        begin = end + 1;
    }
    return spans;
}

std::string chrome_trace(std::span<const std::vector<TraceSpan>> ranks) {
    std::string events;  // each opens with a comma and a line end
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        fmt::format_to(std::back_inserter(events),
                       ",\n{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{0},\"tid\":0,\"args\":{{\"name\":\"rank "
                       "{0}\"}}}}",
                       rank);
        const std::vector<i64> threads = threads_of(ranks[rank]);
        const i64 most = threads.empty() ? 0 : *std::max_element(threads.begin(), threads.end());
        for (i64 thread = 0; thread <= most; ++thread) {
            append_thread_name(events, rank, thread);
        }
        for (std::size_t i = 0; i < threads.size(); ++i) {
            append_span(events, rank, threads[i], ranks[rank][i]);
        }
    }
    return "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"format\":1},\"traceEvents\":[" + events.erase(0, 1) + "\n]}\n";
}

std::vector<PassSpan> passes_of(std::span<const TraceSpan> spans, i64 step) {
    constexpr std::array kinds = {ActionKind::forward, ActionKind::backward, ActionKind::backward_input,
                                  ActionKind::backward_weight};
    std::vector<PassSpan> passes;
    for (const TraceSpan& span : spans) {
        const auto* const kind =
            std::find_if(kinds.begin(), kinds.end(), [&](ActionKind k) { return name_of(k) == span.name(); });
        if (span.step == step && span.category == SpanCategory::compute && kind != kinds.end()) {
            passes.push_back({*kind, span.micro_batch, span.chunk, span.start, span.end});
        }
    }
    std::stable_sort(passes.begin(), passes.end(),
                     [](const PassSpan& a, const PassSpan& b) { return a.start < b.start; });
    return passes;
}

std::vector<double> bubble_of(std::span<const std::vector<PassSpan>> stages) {
    double first = std::numeric_limits<double>::infinity(), last = -first;
    for (const std::vector<PassSpan>& stage : stages) {
        for (const PassSpan& pass : stage) {
            first = std::min(first, pass.start);
            last = std::max(last, pass.end);
        }
    }
    std::vector<double> bubble;
    for (const std::vector<PassSpan>& stage : stages) {
        double idle = last < first ? 0 : last - first;
        for (const PassSpan& pass : stage) {
            idle -= pass.end - pass.start;
        }
        bubble.push_back(idle);
    }
    return bubble;
}

}  // namespace ogrom
