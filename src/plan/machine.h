// The machine file: what `ogrom check --write` measured on a machine, for `ogrom plan --machine`. TOML, strict: every
// key of the table in machine.cpp stands in it once, with a value of its unit.
#pragma once
#include <string>

#include "kernels/common/extents.h"

namespace ogrom {

struct MachineLinks {
    i64 pairs = 0;         // measured; 0 = there are none, and the rates are 0
    double latency_s = 0;  // medians
    double bytes_per_s = 0;
    double slowest_bytes_per_s = 0;
};

struct MachineFile {
    std::string name, measured, commit, mpi;  // measured: UTC
    i64 nodes = 1, ranks = 1, ranks_per_node = 1, cores_per_node = 1;
    std::string device, device_name;  // "cpu" | "cuda"
    i64 device_memory = 0, threads_per_rank = 1;
    std::string matmul_dtype;                           // of the product that was measured
    double matmul_flops = 0, slowest_matmul_flops = 0;  // per second of one rank: median, and of the slowest
    double to_device_bytes_per_s = 0, to_host_bytes_per_s = 0;
    MachineLinks within_node, between_nodes;
    std::string transport;  // of the collectives, in words
    double all_reduce_bus_bytes_per_s = 0, all_gather_bus_bytes_per_s = 0, reduce_scatter_bus_bytes_per_s = 0,
           broadcast_bus_bytes_per_s = 0, send_bytes_per_s = 0;  // over all ranks
    std::string folder;
    double write_bytes_per_s = 0;  // of all ranks together, with fsync
};

inline constexpr i64 machine_format = 1;

std::string machine_toml(const MachineFile& machine);

// Throws Error(usage) with all faults of the file: one that is missing, larger than 1 MiB, no TOML, of another format,
// with an unknown key, a missing key or a value out of range.
MachineFile read_machine(const std::string& path);
MachineFile parse_machine(const std::string& text, const std::string& path);

// "NAME" stands for inputs/machines/NAME.toml, what has a slash or ends with ".toml" for itself.
std::string machine_path(const std::string& name_or_path);

// Whether a text is a machine file (its [machine] header), not a part of a run file.
bool is_machine_file(const std::string& text);

}  // namespace ogrom
