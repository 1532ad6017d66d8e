// The Chrome trace of a run's first steps (train.trace), gathered from all ranks: pipeline passes and their transfers,
// collectives of every axis, optimizer, waits for data.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/comm/session.h"
#include "src/device/ledger.h"
#include "src/pipeline/trace.h"
#include "src/train/span_recorder.h"

namespace ogrom {

class TraceFile {
public:
    // Line "trace": spans of this rank, and what gathering and writing them takes.
    static void declare(Ledger& ledger, int rank, int ranks);
    // Throws Error(checkpoint) unless a file can be made at `path`: its folder is there and can be written to, and no
    // folder, pipe or device has that name.
    static void require_writable(const std::string& path);
    // `path` empty: no trace. Steps below `end_step` are recorded, under the number that metrics give them (from 1).
    // Collective.
    TraceFile(Session& session, std::string path, i64 end_step);
    TraceFile(const TraceFile&) = delete;
    TraceFile& operator=(const TraceFile&) = delete;
    // What is to be recorded into now; null outside the traced steps.
    [[nodiscard]] Trace* record() { return recorder_ ? &recorder_->trace() : nullptr; }
    // Collective: after the last traced step the file is written. A file that cannot be written (a full disk) is a
    // warning: training goes on.
    void begin_step(i64 step);
    void finish();  // collective: writes what a shorter run recorded
    // Spans by rank, on rank 0 once the file is written; empty elsewhere.
    [[nodiscard]] const std::vector<std::vector<TraceSpan>>& ranks() const { return ranks_; }

private:
    void gather();
    void write();
    Session& session_;
    std::string path_;
    i64 end_step_;
    std::unique_ptr<SpanRecorder> recorder_;
    std::vector<std::vector<TraceSpan>> ranks_;
};

}  // namespace ogrom
