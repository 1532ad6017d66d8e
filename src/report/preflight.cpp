// Comes in: what a preflight found. Goes out: its tables. Next: report/preflight_json.cpp
#include "src/report/preflight.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <vector>

#include "src/base/text.h"

namespace ogrom {
namespace {

constexpr std::size_t most_rows = 64;  // of ranks and links; all of them are in the JSON

std::string limit_text(i64 value) {
    return value >= ProcessLimits::unlimited ? "unlimited" : human_bytes(value);
}

std::string rank_row(const Preflight& found, std::size_t index) {
    const PreflightRank& rank = found.ranks[index];
    const std::string device = rank.device.is_gpu() ? fmt::format("{} {}", rank.device.index, rank.device.name) : "CPU";
    return fmt::format("{:>5}  {:<20} {:>4}  {:<14} {:>7}  {:<24} {:>9.3f}\n", index, rank.host, rank.place.node,
                       core_list(rank.mask), rank.threads, device, rank.matmul_flops / 1e12);
}

std::string ranks_table(const Preflight& found) {
    std::string text = fmt::format("ranks\n{:>5}  {:<20} {:>4}  {:<14} {:>7}  {:<24} {:>9}\n", "rank", "host", "node",
                                   "cores", "threads", "device", "Tflop/s");
    for (std::size_t rank = 0; rank < std::min(most_rows, found.ranks.size()); ++rank) {
        text += rank_row(found, rank);
    }
    if (found.ranks.size() > most_rows) {
        text += fmt::format("       ... and {} more: --json has all\n", found.ranks.size() - most_rows);
    }
    return text;
}

std::string gpus_table(const Preflight& found) {
    if (!found.ranks[0].device.is_gpu()) {
        return {};
    }
    std::string text =
        fmt::format("GPUs (driver {})\n{:>5}  {:<42} {:<14} {:>10} {:>6} {:>14} {:>14}\n", found.ranks[0].driver,
                    "rank", "UUID", "PCI bus", "memory", "CUDA", "to GPU GB/s", "to host GB/s");
    for (std::size_t rank = 0; rank < std::min(most_rows, found.ranks.size()); ++rank) {
        const PreflightRank& r = found.ranks[rank];
        text += fmt::format("{:>5}  {:<42} {:<14} {:>10} {:>6} {:>14.1f} {:>14.1f}\n", rank, r.device.uuid,
                            r.device.pci, human_bytes(r.device.memory_bytes),
                            fmt::format("{}.{}", r.device.cuda_version / 1000, r.device.cuda_version % 1000 / 10),
                            r.copies.to_device / 1e9, r.copies.to_host / 1e9);
    }
    return text;
}

std::string clocks_line(const Preflight& found) {
    double most = 0, error = 0;
    std::string host = found.ranks[0].host;
    for (const PreflightRank& rank : found.ranks) {
        if (std::abs(rank.clock.ahead_s) > std::abs(most)) {
            most = rank.clock.ahead_s;
            error = rank.clock.error_s;
            host = rank.host;
        }
    }
    return found.nodes == 1
               ? std::string("clocks    one node\n")
               : fmt::format("clocks    the largest offset from rank 0 is {:+.6f} s (+- {:.6f} s), host {}\n", most,
                             error, host);
}

// One line for each kind of link, and each link where there are few.
std::string links_table(const Preflight& found) {
    if (found.links.empty()) {
        return "links     one rank\n";
    }
    std::string text = fmt::format(
        "links (MPI on host memory, all pairs of a round at once)\n{:<16} {:>6} {:>12} {:>12} "
        "{:>13} {:>14} {:>14}\n",
        "", "pairs", "median us", "slowest us", "median GB/s", "slowest GB/s", "slowest link");
    for (const LinkSpan span : {LinkSpan::within_node, LinkSpan::between_nodes}) {
        std::vector<LinkFigure> links;
        std::copy_if(found.links.begin(), found.links.end(), std::back_inserter(links),
                     [&](const LinkFigure& link) { return link.span == span; });
        if (links.empty()) {
            continue;
        }
        const auto by_latency = [](const LinkFigure& a, const LinkFigure& b) { return a.latency_s < b.latency_s; };
        std::sort(links.begin(), links.end(), by_latency);
        const double median_s = links[links.size() / 2].latency_s, slowest_s = links.back().latency_s;
        std::sort(links.begin(), links.end(),
                  [](const LinkFigure& a, const LinkFigure& b) { return a.bytes_per_s < b.bytes_per_s; });
        text += fmt::format("{:<16} {:>6} {:>12.1f} {:>12.1f} {:>13.3f} {:>14.3f} {:>14}\n", name_of(span),
                            links.size(), median_s * 1e6, slowest_s * 1e6, links[links.size() / 2].bytes_per_s / 1e9,
                            links[0].bytes_per_s / 1e9, fmt::format("{} - {}", links[0].a, links[0].b));
    }
    return text;
}

std::string axes_table(const Preflight& found) {
    if (found.axes.empty()) {
        return "axes      one rank\n";
    }
    std::string text = fmt::format(
        "collectives ({}); bus rate as nccl-tests defines it\n{:<6} {:>6} {:>7}  {:<15} {:>10} "
        "{:>12} {:>12} {:>12}\n",
        found.transport, "axis", "ranks", "groups", "call", "bytes", "ms", "GB/s", "bus GB/s");
    for (const PreflightAxis& axis : found.axes) {
        for (const CollectiveRate& rate : axis.rates) {
            text += fmt::format("{:<6} {:>6} {:>7}  {:<15} {:>10} {:>12.3f} {:>12.3f} {:>12.3f}\n", axis.name,
                                axis.size, axis.groups, name_of(rate.what), human_bytes(rate.bytes), rate.seconds * 1e3,
                                static_cast<double>(rate.bytes) / rate.seconds / 1e9, rate.bus_bytes_per_s / 1e9);
        }
    }
    return text;
}

std::string folder_lines(const Preflight& found) {
    const FolderProbe& folder = found.folder;
    std::string text = fmt::format("folder    {}: {} free\n", folder.folder, human_bytes(folder.free_bytes));
    if (folder.written_bytes > 0) {
        text += fmt::format(
            "          {} written by all ranks with fsync at {:.3f} GB/s; past the page cache: {}; locks: {}\n"
            "          one file replaced {} times, read {} times, always whole: {}; seen by others after {:.1f} ms at "
            "most\n",
            human_bytes(folder.written_bytes), folder.write_bytes_per_s / 1e9, folder.direct ? "yes" : "no",
            folder.locks ? "yes" : "no", folder.replacements, folder.reads,
            folder.findings.empty() ? "yes" : "see below", folder.seen_after_s * 1e3);
    }
    return text;
}

std::string limits_line(const Preflight& found) {
    i64 files = ProcessLimits::unlimited, locked = files, shm = files;
    for (const PreflightRank& rank : found.ranks) {
        files = std::min(files, rank.limits.open_files);
        locked = std::min(locked, rank.limits.locked_memory);
        shm = std::min(shm, rank.limits.shared_memory_free);
    }
    return fmt::format("limits    the least of all ranks: {} open files, locked memory {}, /dev/shm {} free\n", files,
                       limit_text(locked), shm < 0 ? "absent, 0 B" : human_bytes(shm));
}

}  // namespace

std::string core_list(const std::string& mask) {
    std::string text;
    for (std::size_t first = mask.find('1'); first != std::string::npos; first = mask.find('1', first)) {
        std::size_t last = mask.find('0', first);
        last = (last == std::string::npos ? mask.size() : last) - 1;
        text += fmt::format("{}{}", text.empty() ? "" : ",", first);
        text += last > first ? fmt::format("-{}", last) : std::string();
        first = last + 1;
        if (first >= mask.size()) {
            break;
        }
    }
    return text.empty() ? "none" : text;
}

std::string preflight_verdict(const Preflight& found) {
    const auto faults = std::count_if(found.findings.begin(), found.findings.end(),
                                      [](const Finding& finding) { return finding.level == FindingLevel::fault; });
    const auto warnings = static_cast<std::ptrdiff_t>(found.findings.size()) - faults;
    const std::string also = warnings == 0 ? "" : fmt::format(", {} warning{}", warnings, warnings == 1 ? "" : "s");
    const ExitCode code = exit_code_of(found.findings);
    return faults == 0 ? fmt::format("ok{}", also)
                       : fmt::format("{} fault{}{} (exit code {})", faults, faults == 1 ? "" : "s", also,
                                     static_cast<int>(code));
}

std::string preflight_text(const Preflight& found) {
    std::string text = fmt::format("check     {} rank{} on {} node{}; launcher: {}; {}; thread level {}\n",
                                   found.ranks.size(), found.ranks.size() == 1 ? "" : "s", found.nodes,
                                   found.nodes == 1 ? "" : "s", found.launcher, found.mpi, found.thread_level);
    text += fmt::format("device    {}; products of {}\n",
                        found.ranks[0].device.is_gpu()
                            ? found.ranks[0].device.reason
                            : fmt::format("CPU, {} ({})", found.ranks[0].cpu, found.ranks[0].device.reason),
                        found.matmul_dtype);
    text += ranks_table(found) + gpus_table(found) + clocks_line(found) + limits_line(found) + links_table(found) +
            axes_table(found) + folder_lines(found);
    for (const Finding& finding : found.findings) {
        text += fmt::format("{:<9} {}: {}\n", finding.level == FindingLevel::fault ? "FAULT" : "warning", finding.area,
                            finding.text);
    }
    return text +
           fmt::format("verdict   {}; slow = below {:.4g} of the median of its peers in two measurements; {:.1f} s\n",
                       preflight_verdict(found), found.threshold, found.seconds);
}

}  // namespace ogrom
