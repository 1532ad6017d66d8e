#include "src/comm/probe.h"

#include <gtest/gtest.h>
#include <set>

namespace ogrom {
namespace {

// nccl-tests' convention from first principles: the busiest link's share of the bytes in the ring algorithm, which no
// algorithm undercuts. Chunks are counted as they travel.
struct Ring {
    int ranks;
    std::vector<double> sent;  // by rank, over its link to the next, in units of the whole
    explicit Ring(int n) : ranks(n), sent(static_cast<std::size_t>(n), 0) {}
    void round() {
        for (double& bytes : sent) {
            bytes += 1.0 / ranks;  // every rank passes one chunk on
        }
    }
    [[nodiscard]] double busiest() const { return *std::max_element(sent.begin(), sent.end()); }
};

TEST(BusRate, EqualsTheBytesThatCrossALinkOfARing) {
    for (int n = 2; n <= 9; ++n) {
        Ring scatter(n), gather(n), both(n);
        // A chunk has met all ranks, or has come to all, after n - 1 rounds.
        for (int k = 0; k < n - 1; ++k) {
            scatter.round();
            gather.round();
        }
        for (int k = 0; k < 2 * (n - 1); ++k) {
            both.round();
        }
        EXPECT_NEAR(bus_factor(ProbedCollective::reduce_scatter, n), scatter.busiest(), 1e-12) << n;
        EXPECT_NEAR(bus_factor(ProbedCollective::all_gather, n), gather.busiest(), 1e-12) << n;
        EXPECT_NEAR(bus_factor(ProbedCollective::all_reduce, n), both.busiest(), 1e-12) << n;
        EXPECT_EQ(bus_factor(ProbedCollective::broadcast, n), 1);  // the whole enters every rank but one, once
        EXPECT_EQ(bus_factor(ProbedCollective::send, n), 1);
    }
}

// The known figures: 8 ranks, 1 GB all_reduce in 10 ms = 100 GB/s algorithm, 175 GB/s bus.
TEST(BusRate, OfEightRanksIsTheKnownFactor) {
    EXPECT_DOUBLE_EQ(bus_factor(ProbedCollective::all_reduce, 8), 1.75);
    EXPECT_DOUBLE_EQ(bus_factor(ProbedCollective::all_gather, 8), 0.875);
}

void expect_symmetric(const std::vector<int>& partner) {
    for (std::size_t i = 0; i < partner.size(); ++i) {
        if (partner[i] >= 0) {
            EXPECT_NE(partner[i], static_cast<int>(i));
            EXPECT_EQ(partner[static_cast<std::size_t>(partner[i])], static_cast<int>(i));
        }
    }
}

TEST(PairRounds, MeetEveryPairOnceUpToSixteen) {
    EXPECT_TRUE(pair_rounds(0).empty());
    EXPECT_TRUE(pair_rounds(1).empty());
    for (int n = 2; n <= most_complete; ++n) {
        std::set<std::pair<int, int>> met;
        const auto rounds = pair_rounds(n);
        EXPECT_EQ(rounds.size(), static_cast<std::size_t>(n % 2 == 0 ? n - 1 : n));
        for (const std::vector<int>& partner : rounds) {
            expect_symmetric(partner);
            for (int i = 0; i < n; ++i) {
                if (partner[static_cast<std::size_t>(i)] > i) {
                    EXPECT_TRUE(met.emplace(i, partner[static_cast<std::size_t>(i)]).second) << n;
                }
            }
        }
        EXPECT_EQ(met.size(), static_cast<std::size_t>(n * (n - 1) / 2)) << n;
    }
}

TEST(PairRounds, OfManyAreFewAndReachEachSeveralTimes) {
    for (const int n : {17, 100, 1000, 1024}) {
        const auto rounds = pair_rounds(n);
        EXPECT_LE(rounds.size(), 10U);
        std::vector<int> links(static_cast<std::size_t>(n), 0);
        for (const std::vector<int>& partner : rounds) {
            expect_symmetric(partner);
            for (int i = 0; i < n; ++i) {
                links[static_cast<std::size_t>(i)] += partner[static_cast<std::size_t>(i)] >= 0 ? 1 : 0;
            }
        }
        EXPECT_GE(*std::min_element(links.begin(), links.end()), 1) << n;
    }
}

TEST(LinkRounds, KeepNodesApart) {
    // Three nodes of 3, 2 and 1 ranks, placed round robin.
    const std::vector<ProbePlace> places = {{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {0, 2}};
    std::set<std::pair<int, int>> within, between;
    for (const LinkRound& round : link_rounds(places)) {
        expect_symmetric(round.partner);
        for (int r = 0; r < 6; ++r) {
            const int other = round.partner[static_cast<std::size_t>(r)];
            if (other > r) {
                const bool same =
                    places[static_cast<std::size_t>(r)].node == places[static_cast<std::size_t>(other)].node;
                EXPECT_EQ(same, round.span == LinkSpan::within_node);
                (same ? within : between).emplace(r, other);
            }
        }
    }
    EXPECT_EQ(within, (std::set<std::pair<int, int>>{{0, 3}, {0, 5}, {3, 5}, {1, 4}}));
    EXPECT_EQ(between, (std::set<std::pair<int, int>>{{0, 1}, {0, 2}, {1, 2}, {3, 4}}));
}

}  // namespace
}  // namespace ogrom
