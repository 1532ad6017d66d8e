#include "src/comm/placement.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <map>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

#include "src/base/text.h"
#include "src/comm/nccl_library.h"

namespace ogrom {
namespace {

// The most ranks that share one GPU. Identity is the UUID: a number means another GPU in each process where
// CUDA_VISIBLE_DEVICES differs.
i64 share_of_gpus(std::span<const RankDevice> ranks, const RunSection& run) {
    std::map<std::string, std::vector<i64>> on_gpu;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        if (ranks[r].uuid.empty() != ranks[0].uuid.empty()) {
            fail(ExitCode::usage,
                 fmt::format("rank {} ({}) runs on {}, rank 0 ({}) on {}: one job is on GPUs or on CPUs; "
                             "set run.device",
                             r, ranks[r].host, ranks[r].uuid.empty() ? "the CPU" : "a GPU", ranks[0].host,
                             ranks[0].uuid.empty() ? "the CPU" : "a GPU"));
        }
        if (!ranks[r].uuid.empty()) {
            on_gpu[ranks[r].uuid].push_back(static_cast<i64>(r));
        }
    }
    i64 most = 0;
    for (const auto& [uuid, here] : on_gpu) {
        most = std::max(most, static_cast<i64>(here.size()));
        if (here.size() > 1 && !run.share_gpu && !fault_active("gpu_shared_silently")) {
            const std::string& host = ranks[static_cast<std::size_t>(here[0])].host;
            fail(ExitCode::usage,
                 fmt::format(
                     "ranks {} and {} (host {}) are on one GPU, {}: start one rank for each GPU of a node, or say "
                     "run.share_gpu = true (slower than one rank, for tests)",
                     here[0], here[1], host, uuid));
        }
    }
    return most;
}

// Why NCCL cannot carry these ranks' axes; empty when it can.
std::string nccl_refusal(std::span<const RankDevice> ranks, i64 ranks_per_gpu) {
    int least = ranks[0].nccl_version;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        if (!ranks[r].nccl_missing.empty()) {
            return fmt::format("rank {} ({}): {}", r, ranks[r].host, ranks[r].nccl_missing);
        }
        if (ranks[r].nccl_version / 100 != ranks[0].nccl_version / 100) {
            return fmt::format("rank {} ({}) has NCCL {}, rank 0 {}", r, ranks[r].host,
                               nccl::version_text(ranks[r].nccl_version), nccl::version_text(ranks[0].nccl_version));
        }
        least = std::min(least, ranks[r].nccl_version);
    }
    if (ranks_per_gpu > 1 && least < nccl::shared_gpu_version) {
        return fmt::format("{} ranks share a GPU, which NCCL {} cannot; {} and later can, and comm.backend = \"mpi\"",
                           ranks_per_gpu, nccl::version_text(least), nccl::version_text(nccl::shared_gpu_version));
    }
    return {};
}

int number(const std::string& text) {
    int value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

}  // namespace

TransportChoice choose_transport(std::span<const RankDevice> ranks, const CommConfig& comm, const RunSection& run) {
    TransportChoice choice;
    choice.ranks_per_gpu = share_of_gpus(ranks, run);
    if (choice.ranks_per_gpu == 0) {
        if (comm.backend == "nccl") {
            fail(ExitCode::usage,
                 "comm.backend = \"nccl\": the ranks run on CPUs; NCCL carries the memory of GPUs only");
        }
        choice.reason = "MPI: the ranks run on CPUs";
        return choice;
    }
    choice.transport = AxisTransport::staged;
    const std::string refusal = nccl_refusal(ranks, choice.ranks_per_gpu);
    if (comm.backend == "nccl") {
        if (!refusal.empty()) {
            fail(ExitCode::usage, "comm.backend = \"nccl\": " + refusal);
        }
        choice.transport = AxisTransport::nccl;
        choice.reason = fmt::format("NCCL {}, asked for", nccl::version_text(ranks[0].nccl_version));
    } else if (comm.backend == "mpi") {
        choice.reason = "MPI through page-locked memory, asked for";
    } else if (choice.ranks_per_gpu > 1) {
        choice.reason = fmt::format("MPI through page-locked memory: {} ranks share a GPU", choice.ranks_per_gpu);
    } else if (!refusal.empty()) {
        choice.reason = "MPI through page-locked memory: " + refusal;
    } else {
        choice.transport = AxisTransport::nccl;
        choice.reason = fmt::format("NCCL {}", nccl::version_text(ranks[0].nccl_version));
    }
    return choice;
}

TransportChoice agree_transport(Communicator& world, const std::string& host, const Device& device,
                                const RunConfig& run) {
    const bool asks = device.is_gpu() && run.comm.backend != "mpi" && world.size() > 1;
    const nccl::Facts facts = asks ? nccl::facts() : nccl::Facts{};
    const std::string mine = fmt::format("{}\n{}\n{}\n{}", host, device.uuid, facts.version, facts.missing);
    std::vector<RankDevice> ranks;
    for (const std::string& text : gather_text(world, mine, "devices")) {
        std::vector<std::string> lines = split(text, '\n');
        lines.resize(4);
        ranks.push_back({lines[0], lines[1], number(lines[2]), lines[3]});
    }
    TransportChoice choice = choose_transport(ranks, run.comm, run.run);
    if (choice.transport == AxisTransport::nccl && choice.ranks_per_gpu > 1) {
        setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
    }
    if (world.size() == 1 && device.is_gpu()) {
        choice = {AxisTransport::host, 1, "one rank"};
    }
    return choice;
}

}  // namespace ogrom
