#include "src/comm/slow.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace ogrom {
namespace {

std::vector<ProbePlace> on_nodes(int nodes, int each) {
    std::vector<ProbePlace> places;
    for (int node = 0; node < nodes; ++node) {
        for (int i = 0; i < each; ++i) {
            places.push_back({node, i});
        }
    }
    return places;
}

std::vector<std::string> hosts_of(const std::vector<ProbePlace>& places) {
    std::vector<std::string> hosts;
    hosts.reserve(places.size());
    for (const ProbePlace& place : places) {
        hosts.push_back(fmt::format("n{}", place.node));
    }
    return hosts;
}

std::vector<std::string> names(const std::vector<SlowOne>& slow, const std::vector<ProbePlace>& places) {
    std::vector<std::string> texts;
    texts.reserve(slow.size());
    for (const SlowOne& one : slow) {
        texts.push_back(name_of(one, places, hosts_of(places)));
    }
    return texts;
}

// All pairs of `ranks`, 10 each; `value_of` changes some.
template <class Value>
std::vector<LinkValue> all_links(int ranks, const Value& value_of) {
    std::vector<LinkValue> links;
    for (int a = 0; a < ranks; ++a) {
        for (int b = a + 1; b < ranks; ++b) {
            links.push_back({a, b, value_of(a, b)});
        }
    }
    return links;
}

using Names = std::vector<std::string>;

TEST(SlowRanks, AreNamedAgainstTheMedian) {
    const auto places = on_nodes(2, 2);
    const double even[] = {10, 9, 9.5, 8.6};
    EXPECT_TRUE(slow_ranks(even, places, 0.85).empty());
    const double one[] = {10, 9, 9.5, 7};
    const auto found = slow_ranks(one, places, 0.85);
    ASSERT_EQ(names(found, places), Names{"rank 3 (host n1)"});
    EXPECT_DOUBLE_EQ(found[0].value, 7);
    EXPECT_DOUBLE_EQ(found[0].median, 9.5);
    EXPECT_NEAR(found[0].ratio(), 7 / 9.5, 1e-12);
    EXPECT_TRUE(slow_ranks(one, places, 0.7).empty());
}

TEST(SlowRanks, OfANodeThatIsSlowAsAWholeAreNotListed) {
    const auto places = on_nodes(3, 2);
    const double values[] = {10, 10, 4, 5, 10, 10};
    const auto found = slow_ranks(values, places, 0.85);
    ASSERT_EQ(names(found, places), Names{"node 1 (host n1)"});
    EXPECT_DOUBLE_EQ(found[0].value, 5);
}

TEST(SlowRanks, OfTwoTheSlowerIsNamedAndAloneNobody) {
    const auto places = on_nodes(1, 2);
    const double two[] = {10, 3};
    EXPECT_EQ(names(slow_ranks(two, places, 0.85), places), Names{"rank 1 (host n0)"});
    EXPECT_TRUE(slow_ranks(std::vector<double>{3}, on_nodes(1, 1), 0.85).empty());
    const double none[] = {0, 0};  // not measured
    EXPECT_TRUE(slow_ranks(none, places, 0.85).empty());
}

TEST(SlowLinks, OfOneRankNameTheRank) {
    const auto places = on_nodes(1, 4);
    const auto links = all_links(4, [](int, int b) { return b == 3 ? 1.0 : 10.0; });
    EXPECT_EQ(names(slow_links(links, places, 0.85), places), Names{"rank 3 (host n0)"});
    const auto two_of_five = all_links(5, [](int a, int b) { return b >= 3 || a >= 3 ? 1.0 : 10.0; });
    EXPECT_EQ(names(slow_links(two_of_five, on_nodes(1, 5), 0.85), on_nodes(1, 5)),
              (Names{"rank 3 (host n0)", "rank 4 (host n0)"}));
}

TEST(SlowLinks, OfOneNodeNameTheNode) {
    // Rank i of a node meets rank i of each other node; the network of node 1 is slow.
    const auto places = on_nodes(4, 2);
    std::vector<LinkValue> links;
    for (int a = 0; a < 4; ++a) {
        for (int b = a + 1; b < 4; ++b) {
            for (int i = 0; i < 2; ++i) {
                links.push_back({2 * a + i, 2 * b + i, a == 1 || b == 1 ? 2.0 : 10.0});
            }
        }
    }
    EXPECT_EQ(names(slow_links(links, places, 0.85), places), Names{"node 1 (host n1)"});
}

TEST(SlowLinks, ASingleOneIsNamedByItsEnds) {
    const auto places = on_nodes(1, 4);
    const auto links = all_links(4, [](int a, int b) { return a == 0 && b == 2 ? 8.0 : 10.0; });
    EXPECT_EQ(names(slow_links(links, places, 0.85), places),
              Names{"the link between rank 0 (host n0) and rank 2 (host n0)"});
    EXPECT_TRUE(slow_links(links, places, 0.75).empty());
    // One rail of two nodes: each rank has one link, so neither end can be blamed.
    const auto two = on_nodes(2, 3);
    const std::vector<LinkValue> rails = {{0, 3, 10}, {1, 4, 3}, {2, 5, 10}};
    EXPECT_EQ(names(slow_links(rails, two, 0.85), two),
              Names{"the link between rank 1 (host n0) and rank 4 (host n1)"});
}

TEST(SlowLinks, OneLinkHasNoPeers) {
    const auto places = on_nodes(1, 2);
    EXPECT_TRUE(slow_links(std::vector<LinkValue>{{0, 1, 1}}, places, 0.85).empty());
    EXPECT_TRUE(slow_links({}, places, 0.85).empty());
}

}  // namespace
}  // namespace ogrom
