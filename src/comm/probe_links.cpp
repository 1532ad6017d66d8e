// Comes in: the rounds of comm/probe_rounds. Goes out: latency and bandwidth of each pair, offsets of the clocks.
// Next: comm/probe_collectives.cpp
#include <algorithm>
#include <chrono>
#include <limits>

#include "src/base/timer.h"
#include "src/comm/probe.h"

namespace ogrom {
namespace {

constexpr i64 word = static_cast<i64>(sizeof(u64));
constexpr int most_repetitions = 20;

// Messages of data[words] to and fro; the first word says whether another one follows, so that both ends stop alike.
class PingPong {
public:
    PingPong(Communicator& ranks, int peer, std::vector<u64>& data, i64 words)
        : ranks_(ranks), peer_(peer), data_(data), words_(words) {}
    // Seconds of the shortest round trip after one to warm up; at most `seconds` in all, but two are made.
    double lead(double seconds) {
        const Timer whole;
        double best = std::numeric_limits<double>::infinity();
        for (int repetition = 0, more = 1; more == 1; ++repetition) {
            more = repetition == 0 || (repetition < most_repetitions && whole.seconds() < seconds) ? 1 : 0;
            data_[0] = static_cast<u64>(more);
            const Timer timer;
            ranks_.send(data_.data(), words_, Dtype::u64, peer_, "check ping").wait();
            ranks_.receive(data_.data(), words_, Dtype::u64, peer_, "check pong").wait();
            if (repetition > 0) {
                best = std::min(best, timer.seconds());
            }
        }
        return best;
    }
    void follow() {
        for (bool more = true; more;) {
            ranks_.receive(data_.data(), words_, Dtype::u64, peer_, "check ping").wait();
            more = data_[0] == 1;
            ranks_.send(data_.data(), words_, Dtype::u64, peer_, "check pong").wait();
        }
    }

private:
    Communicator& ranks_;
    int peer_;
    std::vector<u64>& data_;
    i64 words_;
};

double clock_of_day() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

constexpr int clock_trips = 10;

// This rank against rank 0, which serves its clock.
ClockOffset ask_clock(Communicator& ranks) {
    ClockOffset found;
    double shortest = std::numeric_limits<double>::infinity();
    for (int trip = 0; trip < clock_trips; ++trip) {
        double theirs = 0;
        const double before = clock_of_day();
        const Timer timer;
        ranks.send(&before, 1, Dtype::fp64, 0, "check clock").wait();
        ranks.receive(&theirs, 1, Dtype::fp64, 0, "check clock").wait();
        if (const double took = timer.seconds(); took < shortest) {
            shortest = took;
            found = {before + took / 2 - theirs, took / 2};
        }
    }
    return found;
}

void serve_clock(Communicator& ranks, int peer) {
    for (int trip = 0; trip < clock_trips; ++trip) {
        double theirs = 0;
        ranks.receive(&theirs, 1, Dtype::fp64, peer, "check clock").wait();
        const double mine = clock_of_day();
        ranks.send(&mine, 1, Dtype::fp64, peer, "check clock").wait();
    }
}

}  // namespace

std::vector<LinkFigure> measure_links(Communicator& ranks, std::span<const ProbePlace> places, i64 bytes,
                                      double seconds) {
    const std::vector<LinkRound> rounds = link_rounds(places);
    std::vector<u64> data(static_cast<std::size_t>(std::max<i64>(1, bytes / word)));
    const i64 words = static_cast<i64>(data.size());
    const double share = seconds / static_cast<double>(std::max<std::size_t>(1, rounds.size()));
    const int self = ranks.rank();
    std::vector<LinkFigure> links;
    for (const LinkRound& round : rounds) {
        ranks.barrier("check round").wait();
        const int peer = round.partner[static_cast<std::size_t>(self)];
        double figures[2] = {0, 0};
        if (peer > self) {
            figures[0] = PingPong(ranks, peer, data, 1).lead(share / 4) / 2;
            figures[1] = static_cast<double>(words * word) / (PingPong(ranks, peer, data, words).lead(share / 2) / 2);
        } else if (peer >= 0) {
            PingPong(ranks, peer, data, 1).follow();
            PingPong(ranks, peer, data, words).follow();
        }
        std::vector<double> all(2 * places.size());
        ranks.all_gather(all.data(), figures, 2, Dtype::fp64, "check round").wait();
        for (std::size_t rank = 0; rank < places.size(); ++rank) {
            if (round.partner[rank] > static_cast<int>(rank)) {
                links.push_back(
                    {static_cast<int>(rank), round.partner[rank], round.span, all[2 * rank], all[2 * rank + 1]});
            }
        }
    }
    return links;
}

std::vector<ClockOffset> measure_clocks(Communicator& ranks, std::span<const ProbePlace> places) {
    ClockOffset mine;
    for (std::size_t rank = 1; rank < places.size(); ++rank) {
        if (places[rank].node_rank != 0 || places[rank].node == places[0].node) {
            continue;
        }
        if (ranks.rank() == static_cast<int>(rank)) {
            mine = ask_clock(ranks);
        } else if (ranks.rank() == 0) {
            serve_clock(ranks, static_cast<int>(rank));
        }
    }
    const double pair[2] = {mine.ahead_s, mine.error_s};
    std::vector<double> all(2 * places.size());
    ranks.all_gather(all.data(), pair, 2, Dtype::fp64, "check clocks").wait();
    std::vector<ClockOffset> by_node, offsets;
    for (std::size_t rank = 0; rank < places.size(); ++rank) {
        const auto node = static_cast<std::size_t>(places[rank].node);
        by_node.resize(std::max(by_node.size(), node + 1));
        if (places[rank].node_rank == 0) {
            by_node[node] = {all[2 * rank], all[2 * rank + 1]};
        }
    }
    for (const ProbePlace& place : places) {
        offsets.push_back(by_node[static_cast<std::size_t>(place.node)]);
    }
    return offsets;
}

}  // namespace ogrom
