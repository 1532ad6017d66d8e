// Who is slower than its peers: figures of ranks and links (higher is better) against their medians. Pure.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/comm/probe.h"

namespace ogrom {

enum class SlowKind { node, rank, link };

struct SlowOne {
    SlowKind kind = SlowKind::rank;
    int a = 0, b = -1;             // the number of a node; a rank; the two ranks of a link
    double value = 0, median = 0;  // of a node: the best value of its ranks; the median is that of its peers

    [[nodiscard]] double ratio() const { return value / median; }
    [[nodiscard]] bool same_as(const SlowOne& other) const {
        return kind == other.kind && a == other.a && b == other.b;
    }
};

// Ranks whose value is below `threshold` x the median of all ranks (the upper one of two middle values, so of two ranks
// the slower can be named). Ranks with a value of 0 or less were not measured. A node of several ranks that are all
// slow is named instead of them.
std::vector<SlowOne> slow_ranks(std::span<const double> values, std::span<const ProbePlace> places, double threshold);

struct LinkValue {
    int a = 0, b = 0;
    double value = 0;
};
// Of links of one kind. A rank of several links whose best one is slow against the best ones of the others is named
// (then its node, if all its ranks are); after that each slow link of the ranks that were not.
std::vector<SlowOne> slow_links(std::span<const LinkValue> links, std::span<const ProbePlace> places, double threshold);

// "node 3 (host n3)", "rank 5 (host n2)", "the link between rank 0 (host n0) and rank 5 (host n2)". `hosts` by rank.
std::string name_of(const SlowOne& slow, std::span<const ProbePlace> places, std::span<const std::string> hosts);

}  // namespace ogrom
