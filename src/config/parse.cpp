// Comes in: the run file and the files it includes, --set overrides, the number of ranks.
// Goes out: RunConfig, every value final and checked, and the resolved text; or one error with all faults.
// Next: comm/mesh.cpp
#include <fmt/format.h>

#include "src/base/error.h"
#include "src/base/text.h"
#include "src/config/resolve.h"
#include "src/config/toml_source.h"

namespace ogrom {

void Faults::add(const std::string& where, const std::string& key, const std::string& what) {
    lines_.push_back(fmt::format("{}: {}: {}", where, key, what));
}

void Faults::throw_if_any(const char* in) const {
    if (!lines_.empty()) {
        const std::string count = lines_.size() > 1 ? fmt::format("{} faults in {}\n", lines_.size(), in) : "";
        fail(ExitCode::usage, count + join(lines_, "\n"));
    }
}

bool Resolution::sound(std::initializer_list<const char*> keys) const {
    for (const char* key : keys) {
        if (assigned.bad.contains(key)) {
            return false;
        }
    }
    return true;
}

void Resolution::fault(const std::string& key, const std::string& what) {
    const auto found = assigned.given.find(key);
    faults.add(found == assigned.given.end() ? input.path : found->second.where, key, what);
}

RunConfig parse_run(const ParseInput& input) {
    Faults faults;
    std::vector<Entry> entries;
    const std::vector<std::string> files = read_run_file(input.path, input.text, entries, faults);
    // A file that could not be read or is no TOML would make every other key look missing.
    faults.throw_if_any();
    for (std::size_t i = 0; i < input.overrides.size(); ++i) {
        read_override(input.overrides[i], static_cast<i64>(i) + 1, entries, faults);
    }
    RunConfig run = standard_run();
    Assigned assigned = assign_entries(entries, run, faults);
    Resolution resolution{run, input, assigned, faults, {}, {}, files};
    resolve_required(resolution);
    resolve_built(resolution);
    resolve_mesh(resolution);
    resolve_effects(resolution);
    resolve_types(resolution);
    resolve_model(resolution);
    resolve_batch(resolution);
    resolve_layout(resolution);
    resolve_schedule(resolution);
    resolve_size(resolution);
    resolve_run_section(resolution);
    resolve_trace(resolution);
    resolve_stop(resolution);
    faults.throw_if_any();
    run.resolved_toml = resolved_text(resolution);
    return run;
}

}  // namespace ogrom
