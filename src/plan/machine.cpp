#include "src/plan/machine.h"

#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <set>
#include <variant>
#include <vector>

#include "src/base/file.h"
#include "src/base/text.h"
#include "src/config/toml_source.h"

namespace ogrom {
namespace {

constexpr i64 largest_file = i64{1} << 20;

// Where the value of a key is, and how small it may be.
using Field = std::variant<std::string*, i64*, double*>;
struct MachineKey {
    const char* section;
    const char* key;
    Field field;
    double low = 0;
    const char* meaning = "";
};

void add_links(std::vector<MachineKey>& keys, const char* section, MachineLinks& links) {
    keys.push_back({section, "pairs", &links.pairs, 0, "of ranks that were measured"});
    keys.push_back({section, "latency_s", &links.latency_s, 0, "half a round trip of 8 bytes, median"});
    keys.push_back({section, "bytes_per_s", &links.bytes_per_s, 0, "one way, host memory, median"});
    keys.push_back({section, "slowest_bytes_per_s", &links.slowest_bytes_per_s, 0, ""});
}

// Every key of the file in its order; writer and reader know them from here alone.
std::vector<MachineKey> keys_of(MachineFile& m, i64& format) {
    std::vector<MachineKey> keys = {
        {"machine", "format", &format, 1, ""},
        {"machine", "name", &m.name, 0, ""},
        {"machine", "measured", &m.measured, 0, "UTC"},
        {"machine", "commit", &m.commit, 0, "of the program"},
        {"machine", "mpi", &m.mpi, 0, ""},
        {"machine", "nodes", &m.nodes, 1, ""},
        {"machine", "ranks", &m.ranks, 1, ""},
        {"machine", "ranks_per_node", &m.ranks_per_node, 1, "the most on one node"},
        {"machine", "cores_per_node", &m.cores_per_node, 1, "that the ranks of rank 0's node may use"},
        {"device", "kind", &m.device, 0, "cpu or cuda"},
        {"device", "name", &m.device_name, 0, ""},
        {"device", "memory_bytes", &m.device_memory, 0, "of one GPU; 0 on the CPU"},
        {"device", "threads_per_rank", &m.threads_per_rank, 1, ""},
        {"device", "matmul_dtype", &m.matmul_dtype, 0, "of the product that was measured"},
        {"device", "matmul_flops_per_s", &m.matmul_flops, 0, "of one rank, all ranks at once, median"},
        {"device", "slowest_matmul_flops_per_s", &m.slowest_matmul_flops, 0, ""},
        {"device", "to_device_bytes_per_s", &m.to_device_bytes_per_s, 0, "from page-locked memory; 0 on the CPU"},
        {"device", "to_host_bytes_per_s", &m.to_host_bytes_per_s, 0, ""},
    };
    add_links(keys, "links_within_node", m.within_node);
    add_links(keys, "links_between_nodes", m.between_nodes);
    const std::vector<MachineKey> rest = {
        {"collectives", "transport", &m.transport, 0,
         "over all ranks; bus rates as nccl-tests defines them; 0 = one rank"},
        {"collectives", "all_reduce_bus_bytes_per_s", &m.all_reduce_bus_bytes_per_s, 0, ""},
        {"collectives", "all_gather_bus_bytes_per_s", &m.all_gather_bus_bytes_per_s, 0, ""},
        {"collectives", "reduce_scatter_bus_bytes_per_s", &m.reduce_scatter_bus_bytes_per_s, 0, ""},
        {"collectives", "broadcast_bus_bytes_per_s", &m.broadcast_bus_bytes_per_s, 0, ""},
        {"collectives", "send_bytes_per_s", &m.send_bytes_per_s, 0, "each rank to the next, all at once"},
        {"disk", "folder", &m.folder, 0, "as it was given to the check"},
        {"disk", "write_bytes_per_s", &m.write_bytes_per_s, 0, "all ranks together, with fsync"},
    };
    keys.insert(keys.end(), rest.begin(), rest.end());
    return keys;
}

std::string value_text(const Field& field) {
    if (const auto* text = std::get_if<std::string*>(&field)) {
        return quote(**text);
    }
    if (const auto* integer = std::get_if<i64*>(&field)) {
        return group_digits(**integer);
    }
    const double value = *std::get<double*>(field);
    const std::string text = fmt::format("{:.6g}", value);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

// What is wrong with an entry, with what would be right; empty when it was taken.
std::string take(const Entry& entry, const MachineKey& key) {
    if (auto* const* text = std::get_if<std::string*>(&key.field)) {
        const auto* value = std::get_if<std::string>(&entry.value);
        if (value == nullptr || has_control(*value)) {
            return fmt::format("{} is not a text; would be right: \"...\" of one line", entry.raw);
        }
        **text = *value;
        return {};
    }
    const auto* integer = std::get_if<i64>(&entry.value);
    if (auto* const* whole = std::get_if<i64*>(&key.field)) {
        if (integer == nullptr || static_cast<double>(*integer) < key.low) {
            return fmt::format("{} is not right; would be right: a whole number >= {}", entry.raw, key.low);
        }
        **whole = *integer;
        return {};
    }
    const auto* real = std::get_if<double>(&entry.value);
    const double value = real != nullptr ? *real : integer != nullptr ? static_cast<double>(*integer) : NAN;
    if (!std::isfinite(value) || value < key.low) {
        return fmt::format("{} is not right; would be right: a finite number >= {}", entry.raw, key.low);
    }
    *std::get<double*>(key.field) = value;
    return {};
}

// What was wrong with the keys of one file, a line each.
class KeyFaults {
public:
    void add(const std::string& where, const std::string& key, const std::string& what) {
        lines_.push_back(fmt::format("{}: {}: {}", where, key, what));
    }
    void throw_if_any() const {
        if (!lines_.empty()) {
            fail(ExitCode::usage, join(lines_, "\n"));
        }
    }

private:
    std::vector<std::string> lines_;
};

void check_values(const MachineFile& m, i64 format, const std::string& path, KeyFaults& faults) {
    if (format != machine_format) {
        faults.add(path, "machine.format",
                   fmt::format("{}, this program reads {}; would be right: ogrom check --write with this version",
                               format, machine_format));
        return;
    }
    if (m.device != "cpu" && m.device != "cuda") {
        faults.add(path, "device.kind", fmt::format("{}; would be right: \"cpu\" or \"cuda\"", quote(m.device)));
    }
    if (m.ranks < m.nodes || m.ranks_per_node > m.ranks) {
        faults.add(path, "machine.ranks",
                   fmt::format("{} ranks on {} nodes, at most {} on one; would be right: ranks >= "
                               "nodes and ranks >= ranks_per_node",
                               m.ranks, m.nodes, m.ranks_per_node));
    }
}

}  // namespace

std::string machine_toml(const MachineFile& machine) {
    MachineFile copy = machine;
    i64 format = machine_format;
    std::string text =
        "# Measured by `ogrom check --write`; read by `ogrom plan --machine`. Not a part of a run file.\n";
    std::string section;
    for (const MachineKey& key : keys_of(copy, format)) {
        if (section != key.section) {
            section = key.section;
            text += fmt::format("\n[{}]\n", section);
        }
        const std::string meaning = key.meaning[0] == 0 ? "" : fmt::format("  # {}", key.meaning);
        text += fmt::format("{} = {}{}\n", key.key, value_text(key.field), meaning);
    }
    return text;
}

MachineFile parse_machine(const std::string& text, const std::string& path) {
    if (text.empty()) {
        fail(ExitCode::usage,
             fmt::format("{}: the file is empty; would be right: a file of ogrom check --write", path));
    }
    Faults syntax;
    std::vector<Entry> entries;
    const std::vector<std::string> files = read_run_file(path, text, entries, syntax);
    syntax.throw_if_any();
    KeyFaults faults;
    if (files.size() != 1) {
        faults.add(path, "include", "a machine file includes no other; would be right: no include");
    }
    MachineFile machine;
    i64 format = 0;
    const std::vector<MachineKey> keys = keys_of(machine, format);
    std::set<std::string> taken;
    std::vector<std::string> names;
    names.reserve(keys.size());
    for (const MachineKey& key : keys) {
        names.push_back(fmt::format("{}.{}", key.section, key.key));
    }
    for (const Entry& entry : entries) {
        const std::string name = entry.full_name();
        std::size_t i = 0;
        while (i < keys.size() && names[i] != name) {
            ++i;
        }
        if (i == keys.size()) {
            const std::optional<std::string> meant = nearest(name, names);
            faults.add(entry.where, name,
                       "no key of a machine file" + (meant ? "; nearest: " + *meant : std::string()));
            continue;
        }
        taken.insert(name);
        if (const std::string wrong = take(entry, keys[i]); !wrong.empty()) {
            faults.add(entry.where, name, wrong);
        }
    }
    for (const std::string& name : names) {
        if (!taken.contains(name)) {
            faults.add(path, name, "is missing; would be right: a file of ogrom check --write");
        }
    }
    faults.throw_if_any();
    check_values(machine, format, path, faults);
    faults.throw_if_any();
    return machine;
}

MachineFile read_machine(const std::string& path) {
    return parse_machine(read_file(path, largest_file, ExitCode::usage), path);
}

std::string machine_path(const std::string& name_or_path) {
    const bool is_path = name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".toml");
    return is_path ? name_or_path : join_path("inputs/machines", name_or_path + ".toml");
}

bool is_machine_file(const std::string& text) {
    return text.starts_with("[machine]\n") || text.find("\n[machine]\n") != std::string::npos;
}

}  // namespace ogrom
