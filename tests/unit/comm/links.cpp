#include "src/comm/links.h"

#include <arpa/inet.h>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "src/comm/link_watch.h"
#include "src/comm/node_memory.h"

namespace ogrom {
namespace {

struct Pair {
    Descriptor near, far;
    Pair() {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        near.reset(ends[0]);
        far.reset(ends[1]);
    }
};

LinkMessage message(LinkKind kind, const char* text) {
    LinkMessage made;
    made.token = 42;
    made.kind = kind;
    std::strcpy(made.text, text);
    return made;
}

TEST(LinkEnd, a_message_in_pieces_arrives_whole) {
    Pair pair;
    LinkEnd end(std::move(pair.far));
    const LinkMessage sent = message(LinkKind::report, "rank 5 died");
    const char* bytes = reinterpret_cast<const char*>(&sent);
    ASSERT_EQ(write(pair.near.get(), bytes, 100), 100);
    EXPECT_TRUE(end.receive().empty());
    ASSERT_EQ(write(pair.near.get(), bytes + 100, sizeof(sent) - 100), static_cast<ssize_t>(sizeof(sent) - 100));
    ASSERT_EQ(write(pair.near.get(), bytes, sizeof(sent)), static_cast<ssize_t>(sizeof(sent)));
    const std::vector<LinkMessage> got = end.receive();
    ASSERT_EQ(got.size(), 2U);
    EXPECT_STREQ(got[0].text, "rank 5 died");
    EXPECT_FALSE(end.closed());
    pair.near.reset();
    EXPECT_TRUE(end.receive().empty());
    EXPECT_TRUE(end.closed());
    end.send(sent);  // no signal, no error
}

TEST(LinkEnd, a_reader_that_stopped_does_not_make_the_writer_grow) {
    Pair pair;
    LinkEnd end(std::move(pair.near));
    for (int k = 0; k < 5000; ++k) {
        end.send(message(LinkKind::beat, "beat"));
    }
    end.send(message(LinkKind::report, "the news"));  // never dropped
    LinkEnd reader(std::move(pair.far));
    std::vector<std::string> texts;
    for (int k = 0; k < 100; ++k) {
        for (const LinkMessage& got : reader.receive()) {
            texts.emplace_back(got.text);
        }
        EXPECT_TRUE(end.receive().empty());  // sends what is pending
    }
    EXPECT_LT(texts.size(), 5000U);
    EXPECT_EQ(texts.back(), "the news");
}

TEST(Links, nodes_are_ordered_and_strangers_dropped) {
    LinkAddress address;
    const Descriptor listener = listen_for_links(LinkReach::this_host, 3, address);
    LinkAddress wrong = address;
    wrong.token ^= 1;
    std::vector<LinkEnd> spokes;
    std::thread nodes([&] {
        const LinkEnd stranger = connect_link(wrong, 1, 5);
        spokes.push_back(connect_link(address, 2, 5));
        spokes.push_back(connect_link(address, 1, 5));
    });
    std::vector<LinkEnd> ends = accept_links(listener, address, 3, 10);
    nodes.join();
    ASSERT_EQ(ends.size(), 2U);
    ends[0].send(message(LinkKind::beat, "to node 1"));
    std::vector<LinkMessage> got;
    for (int k = 0; k < 200 && got.empty(); ++k) {
        got = spokes[1].receive();
        usleep(1000);
    }
    ASSERT_EQ(got.size(), 1U);
    EXPECT_STREQ(got[0].text, "to node 1");
}

TEST(Links, a_node_that_does_not_come_is_named) {
    LinkAddress address;
    const Descriptor listener = listen_for_links(LinkReach::this_host, 2, address);
    try {
        accept_links(listener, address, 2, 0.2);
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("node 1 of 2"), std::string::npos) << error.what();
    }
}

TEST(Links, addresses_of_the_network_reach_this_host) {
    LinkAddress address;
    const Descriptor listener = listen_for_links(LinkReach::network, 2, address);
    EXPECT_GT(address.port, 0);
    if (address.hosts == 0) {
        GTEST_SKIP() << "no network interface but loopback";
    }
    std::thread node([&] { connect_link(address, 1, 5); });
    EXPECT_EQ(accept_links(listener, address, 2, 10).size(), 1U);
    node.join();
}

class Hub : public testing::Test {
protected:
    NodeMemory memory = NodeMemory::alone(Control::segment_bytes(1));
    Pair pair;
    LinkEnd far{std::move(pair.far)};

    Control make(int node) {
        Control::Place place;
        place.node = node;
        place.nodes = 2;
        place.host = "here";
        return {memory.data(), place};
    }
    std::vector<LinkEnd> near() {
        std::vector<LinkEnd> ends;
        ends.emplace_back(std::move(pair.near));
        return ends;
    }
};

TEST_F(Hub, a_report_becomes_the_verdict_and_goes_out_as_the_order_to_end) {
    Control control = make(0);
    LinkWatch watch(control, near(), 42, 1, 60);
    LinkMessage report = message(LinkKind::report, "rank 9 died");
    report.code = static_cast<int>(ExitCode::data);
    report.culprit = 9;
    far.send(report);
    testing::internal::CaptureStderr();
    watch.turn(steady_seconds());
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "ogrom: rank 9 died\n");
    ASSERT_TRUE(control.failed());
    EXPECT_EQ(control.failure().culprit, 9);
    EXPECT_EQ(control.failure().code, ExitCode::data);
    const std::vector<LinkMessage> order = far.receive();
    ASSERT_EQ(order.size(), 1U);
    EXPECT_EQ(order[0].kind, LinkKind::end);
    EXPECT_STREQ(order[0].text, "rank 9 died");
}

TEST_F(Hub, a_strangers_report_is_ignored) {
    Control control = make(0);
    LinkWatch watch(control, near(), 41, 1, 60);
    far.send(message(LinkKind::report, "lies"));
    watch.turn(steady_seconds());
    EXPECT_FALSE(control.failed());
}

TEST_F(Hub, a_node_without_heartbeats_is_named_by_its_last_one) {
    Control control = make(0);
    LinkWatch watch(control, near(), 42, 1, 60);
    LinkMessage beat = message(LinkKind::beat, "rank 4 (host there, pid 7)\nphase save, step 9, last collective none");
    beat.culprit = 4;
    far.send(beat);
    const double now = steady_seconds();
    watch.turn(now);
    watch.turn(now + 59);
    EXPECT_FALSE(control.failed());
    watch.forgive(now + 59);
    watch.turn(now + 118);
    EXPECT_FALSE(control.failed());
    testing::internal::CaptureStderr();
    watch.turn(now + 120);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "ogrom: rank 4 (host there, pid 7), exit 6: silent in phase save, step 9, last collective none: no "
              "heartbeat of "
              "node 1 for 60 s (host or network down)\n");
    EXPECT_EQ(control.failure().culprit, 4);
}

TEST_F(Hub, a_goodbye_is_no_failure_and_a_closed_link_is) {
    Control control = make(0);
    LinkWatch watch(control, near(), 42, 1, 60);
    far.send(message(LinkKind::bye, ""));
    { const LinkEnd closed = std::move(far); }
    watch.turn(steady_seconds());
    watch.turn(steady_seconds() + 100);
    EXPECT_FALSE(control.failed());
    EXPECT_GT(watch.least_stalled(), 1e9);  // who left keeps nobody from being stalled
}

TEST_F(Hub, the_first_other_node_speaks_when_node_0_is_gone_alone) {
    Control control = make(1);
    LinkWatch watch(control, near(), 42, 1, 60);
    { const LinkEnd closed = std::move(far); }
    testing::internal::CaptureStderr();
    watch.turn(steady_seconds());
    EXPECT_NE(testing::internal::GetCapturedStderr().find("its connection closed"), std::string::npos);
    EXPECT_TRUE(control.failed());
}

TEST_F(Hub, it_is_silent_when_other_ranks_of_node_0_can_speak) {
    Control control = make(1);
    LinkWatch watch(control, near(), 42, 2, 60);
    { const LinkEnd closed = std::move(far); }
    testing::internal::CaptureStderr();
    watch.turn(steady_seconds());
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_TRUE(control.failed());
}

}  // namespace
}  // namespace ogrom
