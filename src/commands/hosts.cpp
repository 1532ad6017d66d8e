// ogrom hosts: the machines of a run, checked before mpirun starts anything on them. In: a hostfile or a SLURM node
// list. Out: `host slots=N` per line, which mpirun --hostfile reads; exit code 2 with every bad line otherwise.
// Next: config/hosts.cpp, comm/host_addresses.cpp.
#include "src/config/hosts.h"

#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <string>

#include "src/base/file.h"
#include "src/comm/host_addresses.h"
#include "src/commands/arguments.h"
#include "src/commands/commands.h"

namespace ogrom {
namespace {

struct HostsOptions {
    std::string hostfile, nodelist, slots;
    bool resolve = false;
};

std::vector<HostEntry> read_hosts(const HostsOptions& options, bool from_file) {
    if (!from_file) {
        return parse_nodelist(options.nodelist, "--nodelist");
    }
    require(!options.hostfile.empty() && file_exists(options.hostfile) && !is_directory(options.hostfile),
            ExitCode::usage,
            fmt::format("--hostfile {}: there is no such file; mpirun could run everything on this machine instead",
                        options.hostfile.empty() ? "\"\"" : options.hostfile));
    return parse_hostfile(read_file(options.hostfile, largest_hostfile, ExitCode::usage), options.hostfile);
}

int run_hosts(const HostsOptions& options, bool from_file) {
    std::vector<HostEntry> hosts = read_hosts(options, from_file);
    if (!options.slots.empty()) {
        set_slots(hosts, options.slots, "--slots");
    }
    require_slots(hosts);
    if (options.resolve) {
        require_addresses(hosts, system_resolver);
    }
    std::string text;
    for (const HostEntry& host : hosts) {
        text += host.text() + "\n";
    }
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        fail(ExitCode::checkpoint, "hosts: cannot write to the standard output");
    }
    return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_hosts(CLI::App& app, Invocation& chosen) {
    CLI::App* command = app.add_subcommand("hosts", "Check a hostfile or a SLURM node list before anything is started");
    const auto options = std::make_shared<HostsOptions>();
    const CLI::Option* file =
        command->add_option("--hostfile", options->hostfile, "hostfile in Open MPI's form: `node1 slots=8` per line");
    const CLI::Option* list =
        command->add_option("--nodelist", options->nodelist, "node list as in SLURM_JOB_NODELIST: node[01-03,07],gpu1");
    command->add_option("--slots", options->slots,
                        "ranks of each host that says none itself: 8, or as SLURM_TASKS_PER_NODE has it, 4(x2),3");
    command->add_flag("--resolve", options->resolve,
                      "look every name up: refuse what does not resolve, resolves to a loopback address, or is a "
                      "second name of another host");
    command->footer("Example: ogrom hosts --hostfile hosts.txt --resolve > checked && mpirun --hostfile checked ...");
    command->callback([options, file, list, &chosen] {
        require(file->count() + list->count() == 1, ExitCode::usage,
                "hosts: would be right: either --hostfile FILE or --nodelist TEXT");
        const bool from_file = file->count() == 1;
        chosen.needs_session = false;
        chosen.run = alone("hosts", [options, from_file] { return run_hosts(*options, from_file); });
    });
}

}  // namespace ogrom
