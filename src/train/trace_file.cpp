#include "src/train/trace_file.h"

#include <fmt/format.h>
#include <unistd.h>
#include <utility>

#include "src/base/file.h"
#include "src/base/log.h"

namespace ogrom {
namespace {

constexpr i64 spans_per_rank = 8'192;
constexpr i64 text_bytes = 128, json_bytes = 256;  // of a span, at most
constexpr std::size_t message_bytes = 60'000;      // a text of gather_text is bounded at 64 KiB

// The next whole lines of `text`, at most message_bytes.
std::string take_lines(std::string_view text, std::size_t& at) {
    if (text.size() - at <= message_bytes) {
        return std::string(text.substr(std::exchange(at, text.size())));
    }
    const std::size_t end = text.rfind('\n', at + message_bytes - 1) + 1;
    const std::size_t begin = std::exchange(at, end);
    return std::string(text.substr(begin, end - begin));
}

}  // namespace

void TraceFile::declare(Ledger& ledger, int rank, int ranks) {
    const i64 span = static_cast<i64>(sizeof(TraceSpan));
    const i64 gathered = rank == 0 ? ranks * (span + json_bytes) : 0;
    ledger.add("trace", Tier::baseline, spans_per_rank * (span + text_bytes + gathered),
               fmt::format("{} spans x ({} + {} as text{})", spans_per_rank, span, text_bytes,
                           rank == 0 ? fmt::format(" + {} ranks x {} gathered", ranks, span + json_bytes) : ""));
}

void TraceFile::require_writable(const std::string& path) {
    const std::string folder = parent_path(path);
    const auto refuse = [&](const std::string& reason) {
        fail(ExitCode::checkpoint, fmt::format("train.trace: {}: {}; would be right: a file in a folder that is there "
                                               "and can be written to",
                                               path, reason));
    };
    if (is_directory(path)) {
        refuse("is a folder");
    } else if (is_special(path)) {
        refuse("is a pipe, socket or device");
    } else if (!is_directory(folder)) {
        refuse(fmt::format("the folder {} {}", folder, file_exists(folder) ? "is a file" : "does not exist"));
    }
    // Rights, a file system mounted to be read and names that are too long: only an attempt tells them all.
    const std::string attempt = fmt::format("{}.{}.tmp", path, ::getpid());
    try {
        (void)create_file_exclusive(attempt, "");
        remove_file(attempt);
    } catch (const Error& error) {
        refuse(error.what());
    }
}

TraceFile::TraceFile(Session& session, std::string path, i64 end_step)
    : session_(session), path_(std::move(path)), end_step_(end_step) {
    if (!path_.empty()) {
        recorder_ = std::make_unique<SpanRecorder>(session_, spans_per_rank, SpanRecorder::Waits::no);
    }
}

void TraceFile::begin_step(i64 step) {
    if (!recorder_) {
        return;
    }
    if (step >= end_step_) {
        write();
    } else {
        recorder_->trace().set_step(step + 1);
    }
}

void TraceFile::finish() {
    if (recorder_) {
        write();
    }
}

void TraceFile::gather() {
    const std::string mine = serialise_spans(recorder_->trace().spans());
    std::size_t at = 0;
    if (session_.rank() == 0) {
        ranks_.resize(static_cast<std::size_t>(session_.size()));
    }
    // All ranks go on until the longest text is out.
    while (agree_max(session_.world(), static_cast<i64>(mine.size() - at), "trace") > 0) {
        const std::vector<std::string> pieces = gather_text(session_.world(), take_lines(mine, at), "trace");
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
            const std::vector<TraceSpan> spans = parse_spans(pieces[rank]);
            ranks_[rank].insert(ranks_[rank].end(), spans.begin(), spans.end());
        }
    }
}

void TraceFile::write() {
    recorder_->stop();
    gather();
    if (session_.rank() == 0) {
        try {
            write_file_atomic(path_, chrome_trace(ranks_));
            log_info(
                "trace {}{}", path_,
                recorder_->trace().dropped() > 0
                    ? fmt::format(" ({} spans of rank 0 did not fit and are left out)", recorder_->trace().dropped())
                    : std::string());
        } catch (const Error& error) {
            log_warning("train.trace: not written: {}; training goes on", error.what());
        }
    }
    recorder_.reset();
}

}  // namespace ogrom
