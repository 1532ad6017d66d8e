#include <nlohmann/json.hpp>

#include "src/report/preflight.h"

namespace ogrom {
namespace {

using nlohmann::ordered_json;

ordered_json limit_json(i64 value) {
    return value >= ProcessLimits::unlimited ? ordered_json(nullptr) : ordered_json(value);
}

ordered_json rank_json(const PreflightRank& rank) {
    ordered_json json = {{"host", rank.host},
                         {"node", rank.place.node},
                         {"node_rank", rank.place.node_rank},
                         {"cores", core_list(rank.mask)},
                         {"threads", rank.threads},
                         {"cpu", rank.cpu},
                         {"matmul_flops_per_s", rank.matmul_flops},
                         {"clock_ahead_s", rank.clock.ahead_s},
                         {"clock_error_s", rank.clock.error_s},
                         {"open_files", limit_json(rank.limits.open_files)},
                         {"locked_memory_bytes", limit_json(rank.limits.locked_memory)},
                         {"shared_memory_bytes", rank.limits.shared_memory},
                         {"shared_memory_free_bytes", rank.limits.shared_memory_free},
                         {"gpu", nullptr}};
    if (rank.device.is_gpu()) {
        json["gpu"] = {{"index", rank.device.index},
                       {"name", rank.device.name},
                       {"uuid", rank.device.uuid},
                       {"pci", rank.device.pci},
                       {"memory_bytes", rank.device.memory_bytes},
                       {"capability", rank.device.capability},
                       {"driver", rank.driver},
                       {"driver_cuda", rank.device.cuda_version},
                       {"to_device_bytes_per_s", rank.copies.to_device},
                       {"to_host_bytes_per_s", rank.copies.to_host}};
    }
    return json;
}

ordered_json links_json(const std::vector<LinkFigure>& links) {
    ordered_json rows = ordered_json::array();
    for (const LinkFigure& link : links) {
        rows.push_back({{"a", link.a},
                        {"b", link.b},
                        {"span", name_of(link.span)},
                        {"latency_s", link.latency_s > 0 ? ordered_json(link.latency_s) : ordered_json(nullptr)},
                        {"bytes_per_s", link.bytes_per_s}});
    }
    return rows;
}

ordered_json axes_json(const Preflight& found) {
    ordered_json rows = ordered_json::array();
    for (const PreflightAxis& axis : found.axes) {
        for (const CollectiveRate& rate : axis.rates) {
            rows.push_back({{"axis", axis.name},
                            {"ranks", axis.size},
                            {"groups", axis.groups},
                            {"call", name_of(rate.what)},
                            {"bytes", rate.bytes},
                            {"repetitions", rate.repetitions},
                            {"seconds", rate.seconds},
                            {"bus_bytes_per_s", rate.bus_bytes_per_s}});
        }
    }
    return rows;
}

ordered_json folder_json(const FolderProbe& folder) {
    return {{"path", folder.folder},
            {"free_bytes", folder.free_bytes},
            {"written_bytes", folder.written_bytes},
            {"write_bytes_per_s", folder.write_bytes_per_s},
            {"rank_bytes_per_s", folder.rank_bytes_per_s},
            {"direct", folder.direct},
            {"locks", folder.locks},
            {"replacements", folder.replacements},
            {"reads", folder.reads},
            {"seen_after_s", folder.seen_after_s}};
}

}  // namespace

std::string preflight_json(const Preflight& found) {
    ordered_json ranks = ordered_json::array(), findings = ordered_json::array();
    for (const PreflightRank& rank : found.ranks) {
        ranks.push_back(rank_json(rank));
    }
    for (const Finding& finding : found.findings) {
        findings.push_back({{"level", finding.level == FindingLevel::fault ? "fault" : "warning"},
                            {"exit_code", static_cast<int>(finding.code)},
                            {"area", finding.area},
                            {"text", finding.text}});
    }
    const ordered_json root = {{"format", 1},
                               {"started_utc", found.started},
                               {"launch",
                                {{"launcher", found.launcher},
                                 {"mpi", found.mpi},
                                 {"thread_level", found.thread_level},
                                 {"nodes", found.nodes},
                                 {"ranks", found.ranks.size()},
                                 {"oversubscribed", found.oversubscribed}}},
                               {"matmul_dtype", found.matmul_dtype},
                               {"transport", found.transport},
                               {"ranks", std::move(ranks)},
                               {"links", links_json(found.links)},
                               {"neighbours", links_json(found.neighbours)},
                               {"collectives", axes_json(found)},
                               {"folder", folder_json(found.folder)},
                               {"threshold", found.threshold},
                               {"findings", std::move(findings)},
                               {"verdict", preflight_verdict(found)},
                               {"exit_code", static_cast<int>(exit_code_of(found.findings))},
                               {"seconds", found.seconds}};
    return root.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ogrom
