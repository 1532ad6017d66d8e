// Comes in: what a preflight measured. Goes out: the medians that the machine file keeps. Next: plan/machine.cpp
#include <algorithm>
#include <map>

#include "src/train/preflight.h"

namespace ogrom {
namespace {

double median_of(std::vector<double> values) {
    if (values.empty()) {
        return 0;
    }
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

MachineLinks links_of(const Preflight& found, LinkSpan span) {
    std::vector<double> latencies, rates;
    for (const LinkFigure& link : found.links) {
        if (link.span == span) {
            latencies.push_back(link.latency_s);
            rates.push_back(link.bytes_per_s);
        }
    }
    MachineLinks links;
    links.pairs = static_cast<i64>(rates.size());
    links.latency_s = median_of(latencies);
    links.bytes_per_s = median_of(rates);
    links.slowest_bytes_per_s = rates.empty() ? 0 : *std::min_element(rates.begin(), rates.end());
    return links;
}

template <class Value>
double median_over(const Preflight& found, const Value& value) {
    std::vector<double> values;
    for (const PreflightRank& rank : found.ranks) {
        values.push_back(value(rank));
    }
    return median_of(values);
}

// Cores that any rank of node 0 may use.
i64 cores_of_first_node(const Preflight& found) {
    std::string any;
    for (const PreflightRank& rank : found.ranks) {
        if (rank.place.node != 0) {
            continue;
        }
        any.resize(std::max(any.size(), rank.mask.size()), '0');
        for (std::size_t core = 0; core < rank.mask.size(); ++core) {
            any[core] = rank.mask[core] == '1' ? '1' : any[core];
        }
    }
    return std::max<i64>(1, std::count(any.begin(), any.end(), '1'));
}

void take_collectives(const Preflight& found, MachineFile& machine) {
    const auto all = std::find_if(found.axes.begin(), found.axes.end(),
                                  [](const PreflightAxis& axis) { return axis.name == "all"; });
    if (all == found.axes.end()) {
        return;
    }
    const std::map<ProbedCollective, double*> places = {
        {ProbedCollective::all_reduce, &machine.all_reduce_bus_bytes_per_s},
        {ProbedCollective::all_gather, &machine.all_gather_bus_bytes_per_s},
        {ProbedCollective::reduce_scatter, &machine.reduce_scatter_bus_bytes_per_s},
        {ProbedCollective::broadcast, &machine.broadcast_bus_bytes_per_s},
        {ProbedCollective::send, &machine.send_bytes_per_s}};
    for (const CollectiveRate& rate : all->rates) {
        *places.at(rate.what) = rate.bus_bytes_per_s;
    }
}

}  // namespace

MachineFile machine_of(const Preflight& found, const std::string& name) {
    const PreflightRank& first = found.ranks[0];
    MachineFile machine;
    machine.name = name;
    machine.measured = found.started;
    machine.commit = first.program;
    machine.mpi = found.mpi;
    machine.nodes = found.nodes;
    machine.ranks = static_cast<i64>(found.ranks.size());
    std::map<int, i64> ranks_of;
    for (const PreflightRank& rank : found.ranks) {
        machine.ranks_per_node = std::max(machine.ranks_per_node, ++ranks_of[rank.place.node]);
    }
    machine.cores_per_node = cores_of_first_node(found);
    machine.device = first.device.is_gpu() ? "cuda" : "cpu";
    machine.device_name = first.device.is_gpu() ? first.device.name : first.cpu;
    machine.device_memory = first.device.memory_bytes;
    machine.threads_per_rank = first.threads;
    machine.matmul_dtype = found.matmul_dtype;
    machine.matmul_flops = median_over(found, [](const PreflightRank& rank) { return rank.matmul_flops; });
    machine.slowest_matmul_flops = machine.matmul_flops;
    for (const PreflightRank& rank : found.ranks) {
        machine.slowest_matmul_flops = std::min(machine.slowest_matmul_flops, rank.matmul_flops);
    }
    machine.to_device_bytes_per_s = median_over(found, [](const PreflightRank& rank) { return rank.copies.to_device; });
    machine.to_host_bytes_per_s = median_over(found, [](const PreflightRank& rank) { return rank.copies.to_host; });
    machine.within_node = links_of(found, LinkSpan::within_node);
    machine.between_nodes = links_of(found, LinkSpan::between_nodes);
    machine.transport = found.transport;
    take_collectives(found, machine);
    machine.folder = found.folder.asked;
    machine.write_bytes_per_s = found.folder.write_bytes_per_s;
    return machine;
}

}  // namespace ogrom
