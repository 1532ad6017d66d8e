#include <fmt/format.h>

#include "kernels/common/fault.h"

#include "src/base/file.h"
#include "src/config/resolve.h"

namespace ogrom {

// The trace replaces what stands at its path: a word too few in --set train.trace must not cost the run file, the
// token set or the history of the run.
void resolve_trace(Resolution& r) {
    const std::string& trace = r.run.train.trace;
    if (trace.empty() || !r.sound({"train.trace", "run.output", "data.train"}) ||
        fault_active("config_trace_over_input")) {
        return;
    }
    std::vector<std::pair<std::string, std::string>> taken;  // path, what it is
    for (const std::string& file : r.files) {
        taken.emplace_back(file, "a run file");
    }
    for (const std::string& prefix : {r.run.data.train, r.run.data.valid}) {
        for (const char* ending : {".bin", ".idx", ".json", ".lock"}) {
            if (!prefix.empty()) {
                taken.emplace_back(prefix + ending, "a token set of this run");
            }
        }
    }
    if (r.run.data.tokenizer != "byte" && !r.run.data.tokenizer.empty()) {
        for (const char* name : {"", "tokenizer.json", "encoder.json", "vocab.json", "vocab.bpe", "merges.txt"}) {
            const std::string& tokenizer = r.run.data.tokenizer;
            taken.emplace_back(*name == '\0' ? tokenizer : join_path(tokenizer, name), "the tokenizer");
        }
    }
    for (const char* name : {"run.toml", "provenance.json", "metrics.csv", "metrics.h5", "log.txt", "events.jsonl",
                             "run.lock", "checkpoints"}) {
        taken.emplace_back(join_path(r.run.run.output, name), "a file of the run itself");
    }
    for (const auto& [path, what] : taken) {
        if (same_place(trace, path)) {
            r.fault("train.trace", fmt::format("\"{}\" is {} ({}) and would be overwritten; would be right: a name of "
                                               "its own, as in \"trace.json\"",
                                               trace, what, path));
            return;
        }
    }
}

}  // namespace ogrom
