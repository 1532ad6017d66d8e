// Findings of made-up jobs.
#include "src/train/preflight.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace ogrom {
namespace {

// `nodes` x 2 healthy ranks on four cores each.
Preflight healthy(int nodes) {
    Preflight found;
    found.nodes = nodes;
    for (int node = 0; node < nodes; ++node) {
        for (int i = 0; i < 2; ++i) {
            PreflightRank rank;
            rank.host = fmt::format("n{}", node);
            rank.place = {node, i};
            rank.mask = i == 0 ? "11110000" : "00001111";
            rank.limits = {65536, 65536, ProcessLimits::unlimited, i64{64} << 30, i64{32} << 30, false};
            rank.mpi = "Open MPI v4.1.4";
            rank.program = "abc";
            rank.matmul_flops = 1e12;
            found.ranks.push_back(rank);
        }
    }
    for (const LinkRound& round : link_rounds(found.places())) {
        for (int a = 0; a < 2 * nodes; ++a) {
            if (const int b = round.partner[static_cast<std::size_t>(a)]; b > a) {
                const bool within = round.span == LinkSpan::within_node;
                found.links.push_back({a, b, round.span, within ? 1e-6 : 3e-6, within ? 9e9 : 2e10});
            }
        }
    }
    return found;
}

std::string text_of(const std::vector<Finding>& findings) {
    std::string text;
    for (const Finding& finding : findings) {
        text += fmt::format("{} {}: {}\n", finding.level == FindingLevel::fault ? "FAULT" : "warning", finding.area,
                            finding.text);
    }
    return text;
}

std::string speed_text(const Preflight& found) {
    std::vector<Finding> findings;
    for (const SlowFinding& slow : judge_speed(found)) {
        findings.push_back(describe(slow, found));
    }
    return text_of(findings);
}

void expect_has(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Preflight, AHealthyJobHasNoFindings) {
    for (const int nodes : {1, 2, 5}) {
        EXPECT_EQ(text_of(judge_ranks(healthy(nodes))), "") << nodes;
        EXPECT_EQ(speed_text(healthy(nodes)), "") << nodes;
    }
    EXPECT_EQ(exit_code_of({}), ExitCode::done);
}

TEST(Preflight, TellsBindingsThatOverlapButNotRanksThatAreFree) {
    Preflight found = healthy(2);
    found.ranks[3].mask = "00111100";
    EXPECT_EQ(text_of(judge_ranks(found)).substr(0, 75),
              "warning cores: rank 2 (host n1) and rank 3 (host n1) are bound to cores in ");
    found.ranks[2].mask = found.ranks[3].mask;  // neither is bound
    EXPECT_EQ(text_of(judge_ranks(found)), "");
}

TEST(Preflight, TellsVersionsThatDiffer) {
    Preflight found = healthy(2);
    found.ranks[2].program = "def";
    found.ranks[3].program = "def";
    const auto findings = judge_ranks(found);
    EXPECT_EQ(text_of(findings),
              "FAULT versions: rank 2 (host n1): is ogrom of commit def, rank 0 of abc; would be right: "
              "one binary (1 more rank likewise)\n");
    EXPECT_EQ(exit_code_of(findings), ExitCode::peer);
}

TEST(Preflight, TellsLimitsThatAreTooSmall) {
    Preflight found = healthy(2);
    found.ranks[1].limits.open_files = 259;
    found.ranks[2].limits.shared_memory_free = i64{1} << 20;
    found.ranks[3].limits.infiniband = true;
    found.ranks[3].limits.locked_memory = 65536;
    const auto findings = judge_ranks(found);
    const std::string text = text_of(findings);
    expect_has(text,
               "FAULT limits: rank 1 (host n0): at most 259 open files, 4 ranks need 260; would be right: ulimit -n "
               "260 or more (the hard limit is 65536)");
    expect_has(text,
               "FAULT limits: rank 2 (host n1): 1.0 MiB of /dev/shm are free, the ranks of its node need 16.0 MiB");
    expect_has(text,
               "warning limits: rank 3 (host n1): at most 64.0 KiB of locked memory beside an InfiniBand adapter");
    EXPECT_EQ(exit_code_of(findings), ExitCode::memory);
    found.ranks[1].limits.open_files = 260;
    found.ranks[2].limits.shared_memory_free = i64{16} << 20;
    found.ranks[3].limits.infiniband = false;
    EXPECT_EQ(text_of(judge_ranks(found)), "");
}

TEST(Preflight, TellsClocksThatAreOff) {
    Preflight found = healthy(2);
    found.ranks[2].clock = found.ranks[3].clock = {-42.5, 0.001};
    EXPECT_EQ(text_of(judge_ranks(found)).substr(0, 75),
              "warning clocks: rank 2 (host n1): its clock is 42.5 s behind that of rank 0");
    found.ranks[2].clock = found.ranks[3].clock = {1.4, 0.5};  // could be 0.9 s
    EXPECT_EQ(text_of(judge_ranks(found)), "");
}

TEST(Preflight, TellsGpusThatDiffer) {
    Preflight found = healthy(1);
    for (PreflightRank& rank : found.ranks) {
        rank.device.backend = Backend::cuda;
        rank.device.name = "H200";
        rank.device.memory_bytes = i64{141} << 30;
        rank.device.cuda_version = 13000;
    }
    EXPECT_EQ(text_of(judge_ranks(found)), "");
    found.ranks[1].device.cuda_version = 12080;
    expect_has(text_of(judge_ranks(found)), "rank 1 (host n0): its driver offers CUDA 12.8, that of rank 0 13.0");
    found.ranks[1].device.memory_bytes = i64{80} << 30;
    expect_has(text_of(judge_ranks(found)), "its GPU is H200 with 80.0 GiB, that of rank 0 H200 with 141.0 GiB");
}

TEST(Preflight, NamesASlowDeviceAndBySoMuch) {
    Preflight found = healthy(3);
    found.ranks[4].matmul_flops = 0.5e12;
    EXPECT_EQ(speed_text(found),
              "FAULT matrix rate: rank 4 (host n2) is slow: matrix products 0.5 Tflop/s; median of its "
              "peers 1 Tflop/s (50.0 %)\n");
    found.ranks[5].matmul_flops = 0.6e12;
    expect_has(speed_text(found), "node 2 (host n2) is slow: matrix products 0.6 Tflop/s");
}

TEST(Preflight, NamesASlowNodeByItsNetworkAlone) {
    Preflight found = healthy(4);
    for (LinkFigure& link : found.links) {
        const bool touches = found.ranks[static_cast<std::size_t>(link.a)].place.node == 2 ||
                             found.ranks[static_cast<std::size_t>(link.b)].place.node == 2;
        link.bytes_per_s = touches && link.span == LinkSpan::between_nodes ? 5e9 : link.bytes_per_s;
    }
    EXPECT_EQ(speed_text(found),
              "FAULT links between nodes: node 2 (host n2) is slow: large messages 5 GB/s, over its best "
              "link; median of its peers 20 GB/s (25.0 %)\n");
}

TEST(Preflight, NamesASlowLatencyOnlyWhenItIsFarOff) {
    Preflight found = healthy(3);
    const auto set = [&](double latency_s) {
        for (LinkFigure& link : found.links) {
            if (link.span == LinkSpan::between_nodes && link.b == 4) {
                link.latency_s = latency_s;
            }
        }
    };
    set(9e-6);
    EXPECT_EQ(speed_text(found), "");
    set(3e-5);
    expect_has(speed_text(found),
               "rank 4 (host n2) is slow: small messages 30 us, over its best link; median of its peers 3 "
               "us (10.0 times as long)");
}

TEST(Preflight, TellsAFolderThatIsFullOrShowsThingsLate) {
    Preflight found = healthy(2);
    found.folder.folder = "/data";
    found.folder.written_bytes = 1 << 20;
    found.folder.free_bytes = i64{2} << 30;
    EXPECT_EQ(text_of(judge_folder(found)), "");
    found.checkpoint_bytes = i64{3} << 30;
    EXPECT_EQ(text_of(judge_folder(found)),
              "FAULT folder: /data: 2.0 GiB are free, one checkpoint of the run takes 3.0 GiB; "
              "would be right: more room, or another run.output\n");
    EXPECT_EQ(exit_code_of(judge_folder(found)), ExitCode::checkpoint);
    found.checkpoint_bytes = i64{2} << 30;
    EXPECT_EQ(text_of(judge_folder(found)), "");
    found.checkpoint_bytes = 0;
    found.folder.free_bytes = i64{512} << 20;
    found.folder.seen_after_s = 2.5;
    EXPECT_EQ(text_of(judge_folder(found)),
              "warning folder: /data: 512.0 MiB are free; a checkpoint takes 12 bytes per parameter\n"
              "warning folder: /data: what one rank made was seen by another only after 2.5 s\n");
}

TEST(Preflight, NamesANodeThatWritesSlowly) {
    Preflight found = healthy(3);
    found.folder.rank_bytes_per_s = {1e9, 1e9, 1e8, 1e8, 1e9, 1e9};
    EXPECT_EQ(speed_text(found),
              "FAULT folder: node 1 (host n1) is slow: files written with fsync 0.2 GB/s; median of its "
              "peers 2 GB/s (10.0 %)\n");
    found.folder.rank_bytes_per_s = {1e9, 1e9, 5e8, 5e8, 1e9, 1e9};
    EXPECT_EQ(speed_text(found), "");
}

TEST(Preflight, TheLowestCodeOfTheFaultsWins) {
    const std::vector<Finding> findings = {fault_of(ExitCode::memory, "a", ""), warning_of("b", ""),
                                           fault_of(ExitCode::checkpoint, "c", ""), fault_of(ExitCode::peer, "d", "")};
    EXPECT_EQ(exit_code_of(findings), ExitCode::checkpoint);
    EXPECT_EQ(exit_code_of(std::vector<Finding>{warning_of("b", "")}), ExitCode::done);
}

TEST(Preflight, GivesTheMachineFileItsMedians) {
    Preflight found = healthy(2);
    found.ranks[3].matmul_flops = 0.5e12;
    found.started = "now";
    found.axes.push_back({"all", 4, 1, {{ProbedCollective::all_reduce, 1 << 20, 3, 0.01, 1.5e8, {}}}});
    found.folder.asked = "results";
    found.folder.write_bytes_per_s = 1e9;
    const MachineFile machine = machine_of(found, "m");
    EXPECT_EQ(machine.ranks, 4);
    EXPECT_EQ(machine.nodes, 2);
    EXPECT_EQ(machine.ranks_per_node, 2);
    EXPECT_EQ(machine.cores_per_node, 8);
    EXPECT_EQ(machine.matmul_flops, 1e12);
    EXPECT_EQ(machine.slowest_matmul_flops, 0.5e12);
    EXPECT_EQ(machine.within_node.pairs, 2);
    EXPECT_EQ(machine.between_nodes.pairs, 2);
    EXPECT_EQ(machine.between_nodes.bytes_per_s, 2e10);
    EXPECT_EQ(machine.all_reduce_bus_bytes_per_s, 1.5e8);
    EXPECT_EQ(machine.send_bytes_per_s, 0);
    EXPECT_EQ(machine.folder, "results");
    EXPECT_EQ(machine.write_bytes_per_s, 1e9);
}

}  // namespace
}  // namespace ogrom
