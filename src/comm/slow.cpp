#include "src/comm/slow.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "kernels/common/fault.h"

namespace ogrom {
namespace {

// The upper one of two middle values; 0 of none.
double upper_median(std::vector<double> values) {
    std::erase_if(values, [](double value) { return !(value > 0); });
    if (values.empty()) {
        return 0;
    }
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

bool is_slow(double value, double median, double threshold) {
    if (fault_active("slow_rank_missed")) {
        return false;
    }
    return value > 0 && value < threshold * median;
}

// Where all the ranks of a node of several are slow, the node.
std::vector<SlowOne> join_nodes(const std::vector<SlowOne>& ranks, std::span<const ProbePlace> places) {
    std::map<int, int> ranks_of, slow_of;
    std::map<int, double> best_of;
    for (const ProbePlace& place : places) {
        ++ranks_of[place.node];
    }
    for (const SlowOne& slow : ranks) {
        const int node = places[static_cast<std::size_t>(slow.a)].node;
        ++slow_of[node];
        best_of[node] = std::max(best_of[node], slow.value);
    }
    std::vector<SlowOne> joined;
    for (const SlowOne& slow : ranks) {
        const int node = places[static_cast<std::size_t>(slow.a)].node;
        if (ranks_of[node] == 1 || slow_of[node] < ranks_of[node]) {
            joined.push_back(slow);
        } else if (joined.empty() || joined.back().kind != SlowKind::node || joined.back().a != node) {
            const SlowOne whole{SlowKind::node, node, -1, best_of[node], slow.median};
            const bool known =
                std::any_of(joined.begin(), joined.end(), [&](const SlowOne& other) { return other.same_as(whole); });
            if (!known) {
                joined.push_back(whole);
            }
        }
    }
    return joined;
}

std::vector<SlowOne> single_ranks(std::span<const double> values, double threshold) {
    const double median = upper_median({values.begin(), values.end()});
    std::vector<SlowOne> found;
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
        if (is_slow(values[rank], median, threshold)) {
            found.push_back({SlowKind::rank, static_cast<int>(rank), -1, values[rank], median});
        }
    }
    return found;
}

std::string rank_text(int rank, std::span<const std::string> hosts) {
    return fmt::format("rank {} (host {})", rank, hosts[static_cast<std::size_t>(rank)]);
}

}  // namespace

std::vector<SlowOne> slow_ranks(std::span<const double> values, std::span<const ProbePlace> places, double threshold) {
    return join_nodes(single_ranks(values, threshold), places);
}

std::vector<SlowOne> slow_links(std::span<const LinkValue> links, std::span<const ProbePlace> places,
                                double threshold) {
    std::vector<double> best(places.size(), 0);
    std::vector<int> count(places.size(), 0);
    for (const LinkValue& link : links) {
        for (const int rank : {link.a, link.b}) {
            double& value = best[static_cast<std::size_t>(rank)];
            value = std::max(value, link.value);
            ++count[static_cast<std::size_t>(rank)];
        }
    }
    for (std::size_t rank = 0; rank < best.size(); ++rank) {
        best[rank] = count[rank] > 1 ? best[rank] : 0;  // of a single link nobody can say which end is slow
    }
    const std::vector<SlowOne> ranks = single_ranks(best, threshold);
    const auto named = [&](int rank) {
        return std::any_of(ranks.begin(), ranks.end(), [&](const SlowOne& slow) { return slow.a == rank; });
    };
    std::vector<SlowOne> found = join_nodes(ranks, places);
    std::vector<double> rest;
    for (const LinkValue& link : links) {
        if (!named(link.a) && !named(link.b)) {
            rest.push_back(link.value);
        }
    }
    const double median = upper_median(rest);
    for (const LinkValue& link : links) {
        if (!named(link.a) && !named(link.b) && is_slow(link.value, median, threshold)) {
            found.push_back({SlowKind::link, link.a, link.b, link.value, median});
        }
    }
    return found;
}

std::string name_of(const SlowOne& slow, std::span<const ProbePlace> places, std::span<const std::string> hosts) {
    switch (slow.kind) {
        case SlowKind::node: {
            const auto place = std::find_if(places.begin(), places.end(),
                                            [&](const ProbePlace& other) { return other.node == slow.a; });
            return fmt::format("node {} (host {})", slow.a, hosts[static_cast<std::size_t>(place - places.begin())]);
        }
        case SlowKind::rank:
            return rank_text(slow.a, hosts);
        case SlowKind::link:
            return fmt::format("the link between {} and {}", rank_text(slow.a, hosts), rank_text(slow.b, hosts));
    }
    return "?";
}

}  // namespace ogrom
