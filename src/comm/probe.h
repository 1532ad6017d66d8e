// Rates of links and collectives between the ranks of a job, measured through the communicators that training uses.
// Comes in: where the ranks are; communicators; memory. Goes out: seconds and bytes per second, the same figures on
// every rank. Next: comm/slow.cpp (who is slower than its peers)
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "src/comm/communicator.h"

namespace ogrom {

// Where a rank is: nodes are numbered, and so are the ranks of each.
struct ProbePlace {
    int node = 0, node_rank = 0;
};

// Rounds of disjoint pairs among `count` partners: rounds[k][i] = the partner of i, or -1. Up to `most_complete`
// partners every pair meets once (count - 1 rounds, or count for an odd one); beyond that i meets i XOR 1, 2, 4, ...
// (log2 rounds), so that a job of thousands is measured in seconds.
inline constexpr int most_complete = 16;
std::vector<std::vector<int>> pair_rounds(int count);

enum class LinkSpan { within_node, between_nodes };
constexpr std::string_view name_of(LinkSpan span) {
    return span == LinkSpan::within_node ? "within a node" : "between nodes";
}

// The same over ranks: first all nodes within themselves at once, then pairs of nodes, in which rank i of one node
// meets rank i of the other: in each round all ranks of a node use its network at once, so links of one kind are loaded
// alike and can be compared.
struct LinkRound {
    LinkSpan span = LinkSpan::within_node;
    std::vector<int> partner;  // by rank; -1 = idle
};
std::vector<LinkRound> link_rounds(std::span<const ProbePlace> places);

struct LinkFigure {
    int a = 0, b = 0;  // ranks, a < b
    LinkSpan span = LinkSpan::within_node;
    double latency_s = 0;    // half a round trip of 8 bytes, the best one
    double bytes_per_s = 0;  // bytes over half a round trip of large messages, the best one
};
// Messages to and fro between the pairs of every round, all pairs of a round at once. `bytes`: of a large message.
// Collective over `ranks`, whose memory is the host's; `seconds` bounds the repetitions of all rounds together.
std::vector<LinkFigure> measure_links(Communicator& ranks, std::span<const ProbePlace> places, i64 bytes,
                                      double seconds);

// By how much the clock of a rank's host is ahead of that of rank 0, and how far off that may be (half the shortest
// round trip). One rank of each node measures; the others have its figures. Collective.
struct ClockOffset {
    double ahead_s = 0, error_s = 0;
};
std::vector<ClockOffset> measure_clocks(Communicator& ranks, std::span<const ProbePlace> places);

enum class ProbedCollective { all_reduce, all_gather, reduce_scatter, broadcast, send };
std::string_view name_of(ProbedCollective what);

// What the algorithm rate (bytes / seconds) is multiplied with to give the bus rate, as NVIDIA's nccl-tests define it
// (doc/PERFORMANCE.md there): the share of the bytes that has to cross each rank's link whatever the algorithm, so that
// the figure compares with the link's own rate at any number of ranks. bytes = all that a rank ends up with.
//   all_reduce 2 (n - 1) / n;  all_gather, reduce_scatter (n - 1) / n;  broadcast, send 1
double bus_factor(ProbedCollective what, int ranks);

struct CollectiveRate {
    ProbedCollective what = ProbedCollective::all_reduce;
    i64 bytes = 0;  // as of bus_factor
    i64 repetitions = 0;
    double seconds = 0;  // median over the repetitions of the slowest rank's time
    double bus_bytes_per_s = 0;
    std::vector<double> own_s;  // by rank of the axis: the median of its own times (of a send: until it has received)
};
// Memory of one rank, where the axis' communicator works; both of `bytes` bytes.
struct ProbeMemory {
    void* a = nullptr;
    void* b = nullptr;
    i64 bytes = 0;
};
// On one axis of more than one rank; a send goes from each rank to the next, the last one's to the first, all at once
// (NCCL: Channels::up_ring). The size grows from 1 MiB to memory.bytes as long as one call stays within a share of
// `seconds`, which bounds all five. Collective over the axis; axes of one name measure at the same time, as in
// training.
std::vector<CollectiveRate> measure_collectives(Communicator& axis, const ProbeMemory& memory, double seconds);

}  // namespace ogrom
