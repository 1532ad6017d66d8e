// Agreement, text and split over the ranks at hand.
#include <algorithm>
#include <unistd.h>

#include "tests/mpi/world.h"

namespace ogrom {
namespace {

TEST(Agree, sums_and_maxima) {
    Communicator& world = test::session().world();
    const i64 p = world.size(), r = world.rank();
    EXPECT_EQ(agree_sum(world, i64{r + 1} << 40, "t"), (p * (p + 1) / 2) << 40);
    EXPECT_EQ(agree_max(world, -5 - r, "t"), -5);
    EXPECT_EQ(agree_max(world, r * 7, "t"), (p - 1) * 7);
    // 0.1 + 0.1 + ... from left to right on every rank.
    double expected = 0;
    for (i64 i = 0; i < p; ++i) {
        expected += 0.1 * static_cast<double>(i + 1);
    }
    EXPECT_EQ(agree_sum(world, 0.1 * static_cast<double>(r + 1), "t"), expected);
}

TEST(Agree, text_of_every_length) {
    Communicator& world = test::session().world();
    const std::string mine(static_cast<std::size_t>(world.rank() * 37), static_cast<char>('a' + world.rank()));
    const std::vector<std::string> all = gather_text(world, mine, "t");
    ASSERT_EQ(all.size(), static_cast<std::size_t>(world.size()));
    for (int r = 0; r < world.size(); ++r) {
        EXPECT_EQ(all[static_cast<std::size_t>(r)],
                  std::string(static_cast<std::size_t>(r * 37), static_cast<char>('a' + r)));
    }
    EXPECT_THROW(gather_text(world, std::string((64 << 10) + 1, 'x'), "t"), Error);
    if (world.size() <= 4) {  // thousands of calls under this program's chunk limit
        EXPECT_EQ(gather_text(world, std::string(64 << 10, 'x'), "t").front().size(), std::size_t{64} << 10);
    }
}

TEST(Node, ranks_of_this_node_are_numbered) {
    Session& session = test::session();
    const std::vector<std::string> hosts = gather_text(session.world(), session.host(), "t");
    EXPECT_EQ(hosts[static_cast<std::size_t>(session.rank())], session.host());
    EXPECT_GE(session.node_rank(), 0);
    EXPECT_LT(session.node_rank(), session.node_size());
    EXPECT_LE(session.node_size(), session.size());
}

TEST(Split, keys_order_and_colours_separate) {
    Session& session = test::session();
    const int colour = session.rank() % 2;
    auto part = session.split(colour, -session.rank(), "part");
    EXPECT_EQ(part->name(), "part");
    const i64 sum = agree_sum(*part, i64{session.rank()}, "t");
    i64 expected = 0, members = 0, above = 0;
    for (int r = colour; r < session.size(); r += 2) {
        expected += r;
        ++members;
        above += r > session.rank() ? 1 : 0;
    }
    EXPECT_EQ(sum, expected);
    EXPECT_EQ(part->size(), members);
    EXPECT_EQ(part->rank(), above);  // descending by world rank
}

TEST(Split, who_has_no_colour_joins_none_and_one_rank_needs_no_mpi) {
    Session& session = test::session();
    auto part = session.split(session.rank() == 0 ? -1 : 0, session.rank(), "rest");
    EXPECT_EQ(part == nullptr, session.rank() == 0);
    if (part != nullptr) {
        EXPECT_EQ(agree_sum(*part, i64{1}, "t"), session.size() - 1);
    }
    auto alone = session.split(session.rank(), 0, "alone");
    EXPECT_EQ(alone->size(), 1);
    EXPECT_EQ(alone->name(), "alone");
    EXPECT_EQ(alone->bytes_sent(), 0);
}

// The first n ranks make a world of their own, for every n, while the others rest; then all meet again.
TEST(Part, its_ranks_are_a_session_and_the_rest_waits) {
    Session& session = test::session();
    for (int n = 1; n <= session.size(); ++n) {
        std::unique_ptr<Session> part = session.part(n);
        ASSERT_EQ(part != nullptr, session.rank() < n);
        const bool ran = part != nullptr;
        if (part != nullptr) {
            EXPECT_EQ(part->rank(), session.rank());
            EXPECT_EQ(part->size(), n);
            EXPECT_EQ(part->world().size(), n);
            EXPECT_EQ(part->node_rank(), session.node_rank());
            EXPECT_LE(part->node_size(), n);
            EXPECT_GE(part->nodes(), 1);
            EXPECT_EQ(part->oversubscribed(), part->node_size() > part->node_cores());
            part->set_phase(Phase::train, n);
            EXPECT_EQ(agree_sum(part->world(), i64{1} << part->rank(), "t"), (i64{1} << n) - 1);
            auto half = part->split(part->rank() % 2, part->rank(), "half");
            EXPECT_EQ(half->size(), (n + 1 - part->rank() % 2) / 2);
            half.reset();
            part.reset();
        }
        Pending met = session.world().barrier("t");
        if (ran) {
            met.wait();
        } else {
            session.rest(met);
        }
        EXPECT_EQ(agree_sum(session.world(), i64{ran ? 1 : 0}, "t"), n);
    }
}

// What a rank gives to communication is told with its axis, and only while someone listens.
TEST(Waits, are_told_with_axis_and_times) {
    Session& session = test::session();
    std::vector<std::string> axes;
    double longest = 0;
    session.observe_waits([&](const CommWait& wait) {
        axes.emplace_back(wait.axis);
        longest = std::max(longest, wait.end_s - wait.begin_s);
        EXPECT_LE(wait.begin_s, wait.end_s);
    });
    session.world().barrier("t").wait();
    if (session.rank() == 0) {
        usleep(100'000);
    }
    EXPECT_EQ(agree_max(session.world(), i64{1}, "t"), 1);
    session.observe_waits({});
    const std::size_t told = axes.size();
    EXPECT_EQ(told > 0, session.size() > 1);
    for (const std::string& axis : axes) {
        EXPECT_EQ(axis, "world");
    }
    EXPECT_EQ(agree_max(session.world(), static_cast<i64>(1e9 * longest), "t") > 0, session.size() > 1);
    EXPECT_EQ(agree_max(session.world(), i64{1}, "t"), 1);
    EXPECT_EQ(axes.size(), told);
}

TEST(Split, a_part_splits_again) {
    Session& session = test::session();
    auto half = session.split(session.rank() % 2, session.rank(), "half");
    auto quarter = half->split(half->rank() % 2, half->rank(), "quarter", CollectiveCheck::off);
    i64 expected = 0;
    for (int r = session.rank() % 4; r < session.size(); r += 4) {
        expected += r;
    }
    EXPECT_EQ(agree_sum(*quarter, i64{session.rank()}, "t"), expected);
}

}  // namespace
}  // namespace ogrom
