// Comes in: where the ranks are. Goes out: who meets whom in which round. Next: comm/probe_links.cpp
#include <algorithm>

#include "src/comm/probe.h"

namespace ogrom {
namespace {

// The circle method: one partner stands still, the others move round it.
std::vector<std::vector<int>> all_pairs(int count) {
    const int seats = count + count % 2, circle = seats - 1;
    std::vector<std::vector<int>> rounds(static_cast<std::size_t>(circle));
    for (int k = 0; k < circle; ++k) {
        std::vector<int>& partner = rounds[static_cast<std::size_t>(k)];
        partner.assign(static_cast<std::size_t>(count), -1);
        for (int i = 0; i < circle; ++i) {
            int other = ((2 * k - i) % circle + circle) % circle;
            other = other == i ? circle : other;
            if (i < count && other < count) {
                partner[static_cast<std::size_t>(i)] = other;
                partner[static_cast<std::size_t>(other)] = i;
            }
        }
    }
    return rounds;
}

std::vector<std::vector<int>> doubling_pairs(int count) {
    std::vector<std::vector<int>> rounds;
    for (int distance = 1; distance < count; distance *= 2) {
        std::vector<int>& partner = rounds.emplace_back(static_cast<std::size_t>(count), -1);
        for (int i = 0; i < count; ++i) {
            const int other = i ^ distance;
            partner[static_cast<std::size_t>(i)] = other < count ? other : -1;
        }
    }
    return rounds;
}

using NodeRanks = std::vector<std::vector<int>>;  // ranks of each node, by their number on it

NodeRanks ranks_of_nodes(std::span<const ProbePlace> places) {
    NodeRanks nodes;
    for (std::size_t rank = 0; rank < places.size(); ++rank) {
        const auto node = static_cast<std::size_t>(places[rank].node);
        const auto number = static_cast<std::size_t>(places[rank].node_rank);
        nodes.resize(std::max(nodes.size(), node + 1));
        nodes[node].resize(std::max(nodes[node].size(), number + 1), -1);
        nodes[node][number] = static_cast<int>(rank);
    }
    return nodes;
}

void join_pair(std::vector<int>& partner, int a, int b) {
    if (a >= 0 && b >= 0) {
        partner[static_cast<std::size_t>(a)] = b;
        partner[static_cast<std::size_t>(b)] = a;
    }
}

}  // namespace

std::vector<std::vector<int>> pair_rounds(int count) {
    if (count < 2) {
        return {};
    }
    return count <= most_complete ? all_pairs(count) : doubling_pairs(count);
}

std::vector<LinkRound> link_rounds(std::span<const ProbePlace> places) {
    const NodeRanks nodes = ranks_of_nodes(places);
    std::vector<LinkRound> rounds;
    std::size_t largest = 0;
    for (const std::vector<int>& ranks : nodes) {
        largest = std::max(largest, ranks.size());
    }
    for (const std::vector<int>& pairs : pair_rounds(static_cast<int>(largest))) {
        LinkRound& round = rounds.emplace_back(LinkRound{LinkSpan::within_node, std::vector<int>(places.size(), -1)});
        for (const std::vector<int>& ranks : nodes) {
            for (std::size_t i = 0; i < ranks.size(); ++i) {
                const int other = pairs[i];
                if (other > static_cast<int>(i) && other < static_cast<int>(ranks.size())) {
                    join_pair(round.partner, ranks[i], ranks[static_cast<std::size_t>(other)]);
                }
            }
        }
    }
    for (const std::vector<int>& pairs : pair_rounds(static_cast<int>(nodes.size()))) {
        LinkRound& round = rounds.emplace_back(LinkRound{LinkSpan::between_nodes, std::vector<int>(places.size(), -1)});
        for (std::size_t node = 0; node < nodes.size(); ++node) {
            if (pairs[node] <= static_cast<int>(node)) {
                continue;
            }
            const std::vector<int>&here = nodes[node], &there = nodes[static_cast<std::size_t>(pairs[node])];
            for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
                join_pair(round.partner, here[i], there[i]);
            }
        }
    }
    return rounds;
}

}  // namespace ogrom
