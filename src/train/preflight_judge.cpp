// Comes in: what a preflight measured. Goes out: what is wrong or slow, by name. Next: report/preflight.cpp
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>

#include "kernels/common/error.h"

#include "src/base/text.h"
#include "src/train/preflight.h"

namespace ogrom {
namespace {

constexpr i64 files_base = 256;               // beside one socket for each rank
constexpr i64 shm_each = i64{8} << 20;        // Open MPI's segment of a rank and its queues
constexpr i64 shm_each_gpu = i64{128} << 20;  // NCCL's buffers between GPUs without peer access
constexpr i64 locked_least = i64{1} << 30;    // registered buffers of an InfiniBand transport
constexpr i64 free_least = i64{1} << 30;
constexpr double clock_most_s = 1;
constexpr double seen_most_s = 1;
constexpr double wide = 1.0 / 3;  // of the threshold: latencies and files of healthy nodes differ more than rates do

std::string who(const Preflight& found, std::size_t rank) {
    return fmt::format("rank {} (host {})", rank, found.ranks[rank].host);
}

// Ranks for which `wrong` gives a text: the first one's, and how many more there are.
template <class Wrong>
void add_first(const Preflight& found, std::vector<Finding>& out, const Finding& kind, const Wrong& wrong) {
    std::string text;
    i64 more = 0;
    for (std::size_t rank = 0; rank < found.ranks.size(); ++rank) {
        const std::string here = wrong(rank);
        if (!here.empty() && text.empty()) {
            text = fmt::format("{}: {}", who(found, rank), here);
        } else if (!here.empty()) {
            ++more;
        }
    }
    if (!text.empty()) {
        const std::string tail = more == 0 ? "" : fmt::format(" ({} more rank{} likewise)", more, more == 1 ? "" : "s");
        out.push_back({kind.level, kind.code, kind.area, text + tail});
    }
}

void judge_versions(const Preflight& found, std::vector<Finding>& out) {
    const PreflightRank& first = found.ranks[0];
    add_first(found, out, fault_of(ExitCode::peer, "versions", ""), [&](std::size_t rank) {
        const PreflightRank& r = found.ranks[rank];
        if (r.mpi != first.mpi) {
            return fmt::format("runs on {}, rank 0 on {}; would be right: one MPI library", r.mpi, first.mpi);
        }
        return r.program == first.program
                   ? std::string()
                   : fmt::format("is ogrom of commit {}, rank 0 of {}; would be right: one binary", r.program,
                                 first.program);
    });
}

bool share_a_core(const std::string& a, const std::string& b) {
    for (std::size_t core = 0; core < std::min(a.size(), b.size()); ++core) {
        if (a[core] == '1' && b[core] == '1') {
            return true;
        }
    }
    return false;
}

// Ranks of one node that share all their cores are not bound, which is well; those that share some are bound wrongly.
void judge_binding(const Preflight& found, std::vector<Finding>& out) {
    if (found.oversubscribed) {
        out.push_back(warning_of("cores",
                                 "more ranks than cores on a node: figures are low, and only what is below a "
                                 "quarter of the threshold is named"));
    }
    std::map<int, std::vector<std::size_t>> by_node;
    for (std::size_t rank = 0; rank < found.ranks.size(); ++rank) {
        by_node[found.ranks[rank].place.node].push_back(rank);
    }
    std::set<std::size_t> sizes;
    for (const auto& [node, ranks] : by_node) {
        sizes.insert(ranks.size());
        const std::string& first_mask = found.ranks[ranks[0]].mask;
        const bool all_alike = std::all_of(ranks.begin(), ranks.end(),
                                           [&](std::size_t rank) { return found.ranks[rank].mask == first_mask; });
        for (std::size_t i = 0; i < ranks.size() && !all_alike; ++i) {
            for (std::size_t j = i + 1; j < ranks.size(); ++j) {
                const std::string &a = found.ranks[ranks[i]].mask, &b = found.ranks[ranks[j]].mask;
                if (share_a_core(a, b)) {
                    out.push_back(warning_of("cores", fmt::format("{} and {} are bound to cores in common; would be "
                                                                  "right: cores of their own (mpirun --bind-to core, "
                                                                  "srun --cpu-bind=cores), or no binding",
                                                                  who(found, ranks[i]), who(found, ranks[j]))));
                    i = j = ranks.size();  // one pair of a node is enough
                }
            }
        }
    }
    if (sizes.size() > 1) {
        out.push_back(
            warning_of("hosts", fmt::format("the nodes have {} to {} ranks; a mesh expects the same number on "
                                            "each",
                                            *sizes.begin(), *sizes.rbegin())));
    }
}

void judge_devices(const Preflight& found, std::vector<Finding>& out) {
    const PreflightRank& first = found.ranks[0];
    add_first(found, out, warning_of("devices", ""), [&](std::size_t rank) {
        const Device &mine = found.ranks[rank].device, &other = first.device;
        if (!mine.is_gpu() || !other.is_gpu()) {
            return std::string();  // mixed devices: comm/placement refuses them
        }
        if (mine.name != other.name || mine.memory_bytes != other.memory_bytes) {
            return fmt::format("its GPU is {} with {}, that of rank 0 {} with {}", mine.name,
                               human_bytes(mine.memory_bytes), other.name, human_bytes(other.memory_bytes));
        }
        if (found.ranks[rank].driver != first.driver) {
            return fmt::format("its GPU driver is {}, that of rank 0 {}", found.ranks[rank].driver, first.driver);
        }
        return mine.cuda_version == other.cuda_version
                   ? std::string()
                   : fmt::format("its driver offers CUDA {}.{}, that of rank 0 {}.{}", mine.cuda_version / 1000,
                                 mine.cuda_version % 1000 / 10, other.cuda_version / 1000,
                                 other.cuda_version % 1000 / 10);
    });
}

void judge_limits(const Preflight& found, std::vector<Finding>& out) {
    const i64 files = files_base + static_cast<i64>(found.ranks.size());
    add_first(found, out, fault_of(ExitCode::memory, "limits", ""), [&](std::size_t rank) {
        const ProcessLimits& limits = found.ranks[rank].limits;
        return limits.open_files >= files
                   ? std::string()
                   : fmt::format(
                         "at most {} open files, {} ranks need {}; would be right: ulimit -n {} or more (the "
                         "hard limit is {})",
                         limits.open_files, found.ranks.size(), files, files, limits.open_files_hard);
    });
    std::map<int, i64> ranks_of;
    for (const PreflightRank& rank : found.ranks) {
        ++ranks_of[rank.place.node];
    }
    add_first(found, out, fault_of(ExitCode::memory, "limits", ""), [&](std::size_t rank) {
        const PreflightRank& r = found.ranks[rank];
        const i64 needed = shm_each * ranks_of[r.place.node];
        if (r.place.node_rank != 0 || r.limits.shared_memory_free >= needed) {
            return std::string();
        }
        return r.limits.shared_memory < 0
                   ? std::string("there is no /dev/shm; would be right: mount -t tmpfs tmpfs /dev/shm")
                   : fmt::format(
                         "{} of /dev/shm are free, the ranks of its node need {}; would be right: a larger "
                         "one (containers: --shm-size, or --ipc=host)",
                         human_bytes(r.limits.shared_memory_free), human_bytes(needed));
    });
    add_first(found, out, warning_of("limits", ""), [&](std::size_t rank) {
        const PreflightRank& r = found.ranks[rank];
        const i64 needed = shm_each_gpu * ranks_of[r.place.node];
        const bool few = r.device.is_gpu() && ranks_of[r.place.node] > 1 && r.place.node_rank == 0 &&
                         r.limits.shared_memory_free < needed;
        return few ? fmt::format("{} of /dev/shm are free; NCCL may need up to {} on its node",
                                 human_bytes(r.limits.shared_memory_free), human_bytes(needed))
                   : std::string();
    });
    add_first(found, out, warning_of("limits", ""), [&](std::size_t rank) {
        const ProcessLimits& limits = found.ranks[rank].limits;
        return limits.infiniband && limits.locked_memory < locked_least
                   ? fmt::format(
                         "at most {} of locked memory beside an InfiniBand adapter; would be right: ulimit -l "
                         "unlimited",
                         human_bytes(limits.locked_memory))
                   : std::string();
    });
}

void judge_clocks(const Preflight& found, std::vector<Finding>& out) {
    add_first(found, out, warning_of("clocks", ""), [&](std::size_t rank) {
        const PreflightRank& r = found.ranks[rank];
        const bool off = r.place.node_rank == 0 && std::abs(r.clock.ahead_s) - r.clock.error_s > clock_most_s;
        return off ? fmt::format(
                         "its clock is {:.1f} s {} that of rank 0; logs and time limits of the hosts disagree: "
                         "chrony or ntp would set it right",
                         std::abs(r.clock.ahead_s), r.clock.ahead_s > 0 ? "ahead of" : "behind")
                   : std::string();
    });
}

void add_links(const Preflight& found, const std::vector<LinkFigure>& links, const std::string& area, LinkSpan span,
               std::vector<SlowFinding>& out) {
    std::vector<LinkValue> rates, latencies;
    for (const LinkFigure& link : links) {
        if (link.span == span) {
            rates.push_back({link.a, link.b, link.bytes_per_s});
            latencies.push_back({link.a, link.b, link.latency_s > 0 ? 1 / link.latency_s : 0});
        }
    }
    const std::vector<ProbePlace> places = found.places();
    const auto add = [&](const SlowFinding& finding) {
        const bool known = std::any_of(out.begin(), out.end(), [&](const SlowFinding& other) {
            return other.slow.same_as(finding.slow) && other.area == finding.area;
        });
        if (!known) {
            out.push_back(finding);
        }
    };
    for (const SlowOne& slow : slow_links(rates, places, found.threshold)) {
        add({slow, area, "large messages", 1e9, "GB/s"});
    }
    for (const SlowOne& slow : slow_links(latencies, places, found.threshold * wide)) {
        add({slow, area, "small messages", 1e-6, "us", true});
    }
}

// What the ranks of a node write together, against the other nodes.
void add_folder(const Preflight& found, std::vector<SlowFinding>& out) {
    std::vector<double> rates(static_cast<std::size_t>(found.nodes), 0);
    std::vector<ProbePlace> nodes(rates.size());
    for (std::size_t rank = 0; rank < found.folder.rank_bytes_per_s.size(); ++rank) {
        rates[static_cast<std::size_t>(found.ranks[rank].place.node)] += found.folder.rank_bytes_per_s[rank];
    }
    for (std::size_t node = 0; node < nodes.size(); ++node) {
        nodes[node].node = static_cast<int>(node);
    }
    for (SlowOne slow : slow_ranks(rates, nodes, found.threshold * wide)) {
        slow.kind = SlowKind::node;
        out.push_back({slow, "folder", "files written with fsync", 1e9, "GB/s"});
    }
}

}  // namespace

std::vector<Finding> judge_ranks(const Preflight& found) {
    std::vector<Finding> out;
    judge_versions(found, out);
    judge_binding(found, out);
    judge_devices(found, out);
    judge_limits(found, out);
    judge_clocks(found, out);
    return out;
}

std::vector<Finding> judge_folder(const Preflight& found) {
    std::vector<Finding> out = found.folder.findings;
    const FolderProbe& folder = found.folder;
    if (folder.written_bytes == 0) {
        return out;  // said by the probe
    }
    if (folder.free_bytes < found.checkpoint_bytes) {
        out.push_back(
            fault_of(ExitCode::checkpoint, "folder",
                     fmt::format("{}: {} are free, one checkpoint of the run takes {}; would be right: more "
                                 "room, or another run.output",
                                 folder.folder, human_bytes(folder.free_bytes), human_bytes(found.checkpoint_bytes))));
    } else if (folder.free_bytes < free_least) {
        out.push_back(warning_of("folder", fmt::format("{}: {} are free; a checkpoint takes 12 bytes per parameter",
                                                       folder.folder, human_bytes(folder.free_bytes))));
    }
    if (folder.seen_after_s > seen_most_s) {
        out.push_back(warning_of("folder", fmt::format("{}: what one rank made was seen by another only after {:.1f} s",
                                                       folder.folder, folder.seen_after_s)));
    }
    return out;
}

std::vector<SlowFinding> judge_speed(const Preflight& found) {
    const std::vector<ProbePlace> places = found.places();
    std::vector<SlowFinding> out;
    const auto judge = [&](const char* area, const char* what, double unit, const char* suffix, const auto& value_of) {
        std::vector<double> values;
        for (const PreflightRank& rank : found.ranks) {
            values.push_back(value_of(rank));
        }
        for (const SlowOne& slow : slow_ranks(values, places, found.threshold)) {
            out.push_back({slow, area, what, unit, suffix});
        }
    };
    judge("matrix rate", "matrix products", 1e12, "Tflop/s",
          [](const PreflightRank& rank) { return rank.matmul_flops; });
    judge("host to device", "copies to its GPU", 1e9, "GB/s",
          [](const PreflightRank& rank) { return rank.copies.to_device; });
    judge("device to host", "copies from its GPU", 1e9, "GB/s",
          [](const PreflightRank& rank) { return rank.copies.to_host; });
    add_folder(found, out);
    for (const LinkSpan span : {LinkSpan::within_node, LinkSpan::between_nodes}) {
        add_links(found, found.links, fmt::format("links {}", name_of(span)), span, out);
        if (found.device_links) {
            add_links(found, found.neighbours, fmt::format("device links {}", name_of(span)), span, out);
        }
    }
    return out;
}

Finding describe(const SlowFinding& slow, const Preflight& found) {
    const auto shown = [&](double value) { return (slow.inverse ? 1 / value : value) / slow.unit; };
    const std::string best = slow.slow.kind == SlowKind::link               ? ""
                             : slow.area.find("links") == std::string::npos ? ""
                                                                            : ", over its best link";
    std::string text = fmt::format("{} is slow: {} {:.3g} {}{}; median of its peers {:.3g} {}",
                                   name_of(slow.slow, found.places(), found.hosts()), slow.what, shown(slow.slow.value),
                                   slow.suffix, best, shown(slow.slow.median), slow.suffix);
    text += slow.inverse ? fmt::format(" ({:.1f} times as long)", 1 / slow.slow.ratio())
                         : fmt::format(" ({:.1f} %)", 100 * slow.slow.ratio());
    return fault_of(ExitCode::peer, slow.area, text);
}

ExitCode exit_code_of(std::span<const Finding> findings) {
    int code = static_cast<int>(ExitCode::done);
    for (const Finding& finding : findings) {
        if (finding.level == FindingLevel::fault) {
            const int own = static_cast<int>(finding.code);
            code = code == 0 ? own : std::min(code, own);
        }
    }
    return static_cast<ExitCode>(code);
}

}  // namespace ogrom
