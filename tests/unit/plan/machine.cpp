#include "src/plan/machine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/base/file.h"
#include "src/base/text.h"

namespace ogrom {
namespace {

MachineFile example() {
    MachineFile m;
    m.name = "node \"a\"\\1";
    m.measured = "2026-01-31T23:59:59.123Z";
    m.commit = "abc";
    m.mpi = "Open MPI v4.1.4";
    m.nodes = 2;
    m.ranks = 16;
    m.ranks_per_node = 8;
    m.cores_per_node = 96;
    m.device = "cuda";
    m.device_name = "NVIDIA H200";
    m.device_memory = i64{141} << 30;
    m.threads_per_rank = 12;
    m.matmul_dtype = "bf16";
    m.matmul_flops = 7.25e14;
    m.slowest_matmul_flops = 7e14;
    m.to_device_bytes_per_s = 5.5e10;
    m.to_host_bytes_per_s = 5.25e10;
    m.within_node = {56, 1.5e-6, 9e9, 8.5e9};
    m.between_nodes = {8, 3e-6, 2.5e10, 2e10};
    m.transport = "NCCL 2.27.3";
    m.all_reduce_bus_bytes_per_s = 4.5e11;
    m.all_gather_bus_bytes_per_s = 3.5e11;
    m.reduce_scatter_bus_bytes_per_s = 3.4e11;
    m.broadcast_bus_bytes_per_s = 3e11;
    m.send_bytes_per_s = 4.9e10;
    m.folder = "/data/results";
    m.write_bytes_per_s = 2.25e9;
    return m;
}

std::string refusal(const std::string& text) {
    try {
        parse_machine(text, "m.toml");
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    return "accepted";
}

std::string with(const std::string& from, const std::string& to) {
    std::string text = machine_toml(example());
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

void expect_has(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(MachineFile, ComesBackAsItWasWritten) {
    const std::string text = machine_toml(example());
    const MachineFile back = parse_machine(text, "m.toml");
    EXPECT_EQ(machine_toml(back), text);
    EXPECT_EQ(back.name, example().name);
    EXPECT_EQ(back.device_memory, i64{141} << 30);
    EXPECT_EQ(back.matmul_flops, 7.25e14);
    EXPECT_EQ(back.between_nodes.pairs, 8);
    EXPECT_EQ(back.between_nodes.latency_s, 3e-6);
    EXPECT_EQ(back.within_node.slowest_bytes_per_s, 8.5e9);
    EXPECT_EQ(back.send_bytes_per_s, 4.9e10);
    EXPECT_EQ(back.write_bytes_per_s, 2.25e9);
    EXPECT_TRUE(is_machine_file(text));
    MachineFile bare;
    bare.device = "cpu";
    EXPECT_EQ(machine_toml(parse_machine(machine_toml(bare), "m.toml")),
              machine_toml(bare));  // nothing measured: zeros come back
}

TEST(MachineFile, FaultsNameTheLineTheKeyAndWhatIsRight) {
    expect_has(refusal(with("nodes = 2", "nods = 2")),
               "m.toml:9: machine.nods: no key of a machine file; nearest: "
               "machine.nodes");
    expect_has(refusal(with("nodes = 2", "nods = 2")), "m.toml: machine.nodes: is missing");
    expect_has(refusal(with("nodes = 2", "nodes = 0")),
               "machine.nodes: 0 is not right; would be right: a whole number "
               ">= 1");
    expect_has(refusal(with("nodes = 2", "nodes = 2.5")), "machine.nodes: 2.5 is not right");
    expect_has(refusal(with("nodes = 2", "nodes = 2\nnodes = 3")), "given twice");
    expect_has(refusal(with("format = 1", "format = 2")), "machine.format: 2, this program reads 1");
    expect_has(refusal(with("kind = \"cuda\"", "kind = \"tpu\"")),
               "device.kind: \"tpu\"; would be right: \"cpu\" or "
               "\"cuda\"");
    expect_has(refusal(with("kind = \"cuda\"", "kind = 1")), "device.kind: 1 is not a text");
    for (const char* value : {"nan", "inf", "-1.0", "\"fast\"", "true", "[1.0]"}) {
        expect_has(refusal(with("write_bytes_per_s = 2.25e+09", fmt::format("write_bytes_per_s = {}", value))),
                   "disk.write_bytes_per_s");
    }
    expect_has(refusal(with("ranks = 16", "ranks = 1")), "machine.ranks");
    expect_has(refusal(with("[disk]", "[disc]")), "disc.folder");
    expect_has(refusal(fmt::format("x = 1\n{}", machine_toml(example()))), "m.toml:1: x");
    expect_has(refusal(""), "m.toml: the file is empty");
    expect_has(refusal("not toml"), "m.toml:1");
}

TEST(MachineFile, AMissingOneIsAUsageError) {
    try {
        read_machine("/nonexistent/m.toml");
        ADD_FAILURE();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        expect_has(error.what(), "/nonexistent/m.toml");
    }
}

TEST(MachineFile, NamesStandForTheFolderOfMachines) {
    EXPECT_EQ(machine_path("h200"), "inputs/machines/h200.toml");
    EXPECT_EQ(machine_path("h200.toml"), "h200.toml");
    EXPECT_EQ(machine_path("a/h200"), "a/h200");
}

// Those that are committed can be read; the others of that folder are parts of run files (unit/config/files.cpp).
TEST(MachineFile, CommittedOnesAreRead) {
    const std::string folder =
        join_path(parent_path(parent_path(parent_path(parent_path(__FILE__)))), "inputs/machines");
    i64 read = 0;
    for (const std::string& name : list_directory(folder)) {
        const std::string path = join_path(folder, name), text = read_file(path, i64{1} << 20);
        if (is_machine_file(text)) {
            const MachineFile machine = read_machine(path);
            EXPECT_EQ(machine.name + ".toml", name);
            EXPECT_GT(machine.matmul_flops, 0);
            ++read;
        }
    }
    EXPECT_GE(read, 1);
}

}  // namespace
}  // namespace ogrom
