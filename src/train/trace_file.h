// The Chrome trace of a run's first steps (train.trace), gathered from all
// ranks.
#pragma once
#include <memory>
#include <string>

#include "src/comm/session.h"
#include "src/pipeline/trace.h"

namespace ogrom {

class TraceFile {
public:
    // `path` empty: no trace. Steps below `end_step` are recorded. Collective.
    TraceFile(Session& session, std::string path, i64 end_step);
    // What is to be recorded into now; null outside the traced steps.
    [[nodiscard]] Trace* record() { return trace_.get(); }
    void begin_step(i64 step);  // collective: after the last traced step the file is written
    void finish();              // collective: writes what a shorter run recorded

private:
    void write();
    Session& session_;
    std::string path_;
    i64 end_step_;
    std::unique_ptr<Trace> trace_;
};

}  // namespace ogrom
