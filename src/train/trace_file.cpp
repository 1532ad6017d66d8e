#include "src/train/trace_file.h"

#include <fmt/format.h>

#include "src/base/file.h"
#include "src/base/log.h"

namespace ogrom {
namespace {

constexpr i64 spans_per_rank = 20'000;
constexpr std::size_t message_bytes = 60'000;  // a text of gather_text is bounded at 64 KiB

}  // namespace

TraceFile::TraceFile(Session& session, std::string path, i64 end_step)
    : session_(session), path_(std::move(path)), end_step_(end_step) {
    if (!path_.empty()) {
        session_.world().barrier("trace begins").wait();  // a common epoch for hosts whose clocks differ
        trace_ = std::make_unique<Trace>(spans_per_rank, Trace::Clock::now());
    }
}

void TraceFile::begin_step(i64 step) {
    if (!trace_) {
        return;
    }
    if (step >= end_step_) {
        write();
    } else {
        trace_->set_step(step);
    }
}

void TraceFile::finish() {
    if (trace_) {
        write();
    }
}

void TraceFile::write() {
    const std::string mine = serialise_spans(trace_->spans());
    const i64 longest = agree_max(session_.world(), static_cast<i64>(mine.size()), "trace");
    std::vector<std::string> texts(static_cast<std::size_t>(session_.size()));
    for (std::size_t at = 0; at < static_cast<std::size_t>(longest); at += message_bytes) {
        const std::string piece = at < mine.size() ? mine.substr(at, message_bytes) : std::string();
        const std::vector<std::string> pieces = gather_text(session_.world(), piece, "trace");
        for (std::size_t rank = 0; rank < pieces.size(); ++rank) {
            texts[rank] += pieces[rank];
        }
    }
    if (session_.rank() == 0) {
        std::vector<std::vector<TraceSpan>> ranks;
        for (const std::string& text : texts) {
            ranks.push_back(parse_spans(text));
        }
        write_file_atomic(path_, chrome_trace(ranks));
        log_info("trace {} ({} spans that did not fit on rank 0)", path_, trace_->dropped());
    }
    trace_.reset();
}

}  // namespace ogrom
