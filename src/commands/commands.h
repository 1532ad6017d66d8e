// One file per subcommand; each adds itself to the command line and, when chosen, leaves behind what to run.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>

#include "src/comm/session.h"

namespace ogrom {

// The subcommand that the command line chose. `run` gets the MPI session where `needs_session`, null otherwise, and
// returns the exit code (contracts of exit codes: kernels/common/error.h); faults are thrown as Error.
struct Invocation {
    std::function<int(Session*)> run;
    bool needs_session = false;
    double timeout_s = 120;
};

void add_train(CLI::App& app, Invocation& chosen);
void add_plan(CLI::App& app, Invocation& chosen);
void add_report(CLI::App& app, Invocation& chosen);
void add_data(CLI::App& app, Invocation& chosen);
void add_tokenizer(CLI::App& app, Invocation& chosen);
void add_sample(CLI::App& app, Invocation& chosen);
void add_inspect(CLI::App& app, Invocation& chosen);
void add_keys(CLI::App& app, Invocation& chosen);
void add_selftest(CLI::App& app, Invocation& chosen);
void add_check(CLI::App& app, Invocation& chosen);
void add_scale(CLI::App& app, Invocation& chosen);
void add_convert(CLI::App& app, Invocation& chosen);
void add_hosts(CLI::App& app, Invocation& chosen);

}  // namespace ogrom
