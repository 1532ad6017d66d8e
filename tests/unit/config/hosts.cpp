// Hostfiles and node lists in the edge forms of field case B43.
#include "src/config/hosts.h"

#include <gtest/gtest.h>

#include "src/base/error.h"

namespace ogrom {
namespace {

std::string text_of(const std::vector<HostEntry>& hosts) {
    std::string text;
    for (const HostEntry& host : hosts) {
        text += (text.empty() ? "" : ", ") + host.text();
    }
    return text;
}

std::string file(const std::string& text) {
    return text_of(parse_hostfile(text, "hosts"));
}

std::string list(const std::string& text) {
    return text_of(parse_nodelist(text, "--nodelist"));
}

template <class Function>
std::string refusal(const Function& function) {
    try {
        return "accepted: " + function();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
        return error.what();
    }
}

#define EXPECT_REFUSED(call, part)                                              \
    do {                                                                        \
        const std::string said = refusal([] { return call; });                  \
        EXPECT_NE(said.find(part), std::string::npos) << #call << "\n" << said; \
        EXPECT_NE(said.find("accepted"), 0U) << said;                           \
    } while (false)

TEST(Hostfile, B43_every_right_form_is_read) {
    EXPECT_EQ(file("node1 slots=8\nnode2\tslots=4 max_slots=8\n"), "node1 slots=8, node2 slots=4 max_slots=8");
    EXPECT_EQ(file("\n  \n# all\nnode1 slots=8 # two sockets\nnode2 // old\n"), "node1 slots=8, node2");
    EXPECT_EQ(file("node1 slots=8\r\n\r\nnode2 slots=8\r\n"), "node1 slots=8, node2 slots=8");
    EXPECT_EQ(file("ada@node1.example.org slots = 2"), "ada@node1.example.org slots=2");
    EXPECT_EQ(file("10.0.0.4 slots=1\nfd00::4 slots= 1\n"), "10.0.0.4 slots=1, fd00::4 slots=1");
    EXPECT_EQ(file("a_b-c slots=1 max-slots=1"), "a_b-c slots=1 max_slots=1");
}

TEST(Hostfile, B43_a_bad_line_is_quoted_with_its_number) {
    EXPECT_REFUSED(file("node0 slots=8\n\nnode1 lots=8\n"), "hosts:3: \"node1 lots=8\": unknown name \"lots\"");
    EXPECT_REFUSED(file("node1 lots=8"), "nearest: slots");
    EXPECT_REFUSED(file("node1 8"), "\"8\" is neither a comment nor name=number");
    EXPECT_REFUSED(file("node1:8"), "would be right: node1 slots=8");
    EXPECT_REFUSED(file("node1 slots=0"), "no number of ranks");
    EXPECT_REFUSED(file("node1 slots=-1"), "no number of ranks");
    EXPECT_REFUSED(file("node1 slots=99999999999999999999"), "no number of ranks");
    EXPECT_REFUSED(file("node1 slots=8x"), "no number of ranks");
    EXPECT_REFUSED(file("node1 slots="), "no number of ranks");
    EXPECT_REFUSED(file("node1 slots=2 slots=2"), "slots stands twice");
    EXPECT_REFUSED(file("node1 slots=4 max_slots=2"), "max_slots = 2 is below slots = 4");
    EXPECT_REFUSED(file("=4"), "is no host name");
}

TEST(Hostfile, B43_every_bad_line_is_told_at_once) {
    EXPECT_REFUSED(file("a lots=1\nb slots=1\nc d"), "2 faults in the hostfile");
    EXPECT_REFUSED(file("a lots=1\nb slots=1\nc d"), "hosts:1:");
    EXPECT_REFUSED(file("a lots=1\nb slots=1\nc d"), "hosts:3:");
}

TEST(Hostfile, B43_no_host_and_the_same_host_twice_are_refused) {
    EXPECT_REFUSED(file(""), "names no host");
    EXPECT_REFUSED(file("# node1 slots=8\n\n"), "names no host");
    EXPECT_REFUSED(file("node1 slots=4\nnode1 slots=4"), "hosts:2: \"node1 slots=4\": host node1 stands at hosts:1");
    EXPECT_REFUSED(file("node1 slots=4\nada@NODE1. slots=4"), "stands at hosts:1 already");
    EXPECT_REFUSED(file("fd00::1 slots=4\nfd00:0::1 slots=4"), "stands at hosts:1 already");
}

TEST(Hostfile, names_that_a_command_line_would_read_otherwise_are_refused) {
    EXPECT_REFUSED(file("-oProxyCommand=x slots=1"), "is no host name");
    EXPECT_REFUSED(file("$(reboot) slots=1"), "is no host name");
    EXPECT_REFUSED(file("node1;reboot slots=1"), "is no host name");
    EXPECT_REFUSED(file("-l@node1 slots=1"), "is no user name");
    EXPECT_REFUSED(file("@node1 slots=1"), "is no user name");
    EXPECT_REFUSED(file("a..b slots=1"), "is no host name");
    EXPECT_REFUSED(file("10.0.0.256 slots=1"), "is no IPv4 address");
    EXPECT_REFUSED(file("fd00::g slots=1"), "neither a host name nor an IPv6 address");
    EXPECT_REFUSED(file(std::string(64, 'a') + " slots=1"), "is no host name");
    EXPECT_REFUSED(file(std::string("no\0de slots=1", 13)), "is no host name");
}

TEST(Nodelist, B43_brackets_multiply_and_numbers_keep_their_zeros) {
    EXPECT_EQ(list("node[01-03,07],gpu[1-2]-ib[00-01]"),
              "node01, node02, node03, node07, gpu1-ib00, gpu1-ib01, gpu2-ib00, gpu2-ib01");
    EXPECT_EQ(list("n1"), "n1");
    EXPECT_EQ(list("n[8-11]"), "n8, n9, n10, n11");
    EXPECT_EQ(list("n[098-101].x"), "n098.x, n099.x, n100.x, n101.x");
    EXPECT_EQ(list("a,b,c-[2]"), "a, b, c-2");
    EXPECT_EQ(parse_nodelist("n[1-1000]", "x").size(), 1000U);
}

TEST(Nodelist, B43_a_list_that_cannot_be_meant_is_refused) {
    EXPECT_REFUSED(list(""), "names no node");
    EXPECT_REFUSED(list("n[1-3"), "'[' without ']'");
    EXPECT_REFUSED(list("n1-3]"), "fits no other bracket");
    EXPECT_REFUSED(list("n[[1]]"), "fits no other bracket");
    EXPECT_REFUSED(list("n[3-1]"), "runs downwards");
    EXPECT_REFUSED(list("n[01-3]"), "differ in leading zeros");
    EXPECT_REFUSED(list("n[1-03]"), "differ in leading zeros");
    EXPECT_REFUSED(list("n[08-100]"), "differ in leading zeros");
    EXPECT_REFUSED(list("n[]"), "[] is no number");
    EXPECT_REFUSED(list("n[1,]"), "[] is no number");
    EXPECT_REFUSED(list("n[a-c]"), "is no number");
    EXPECT_REFUSED(list("n[1-2-3]"), "is no number");
    EXPECT_REFUSED(list("n1,,n2"), "an empty name");
    EXPECT_REFUSED(list("n[1-3],n2"), "node n2 stands twice");
    EXPECT_REFUSED(list("n 1"), "is no host name");
    EXPECT_REFUSED(list("n[1-999999999]"), "more than 100000 names");
    EXPECT_REFUSED(list("n[1-1000][1-1000]"), "more than 100000 names");
    EXPECT_REFUSED(list("n[1-99999999999999999999]"), "is no number");
}

std::string with_slots(std::vector<HostEntry> hosts, const std::string& slots) {
    set_slots(hosts, slots, "--slots");
    return text_of(hosts);
}

TEST(Slots, one_number_or_one_per_host) {
    EXPECT_EQ(with_slots(parse_nodelist("n[1-3]", "x"), "8"), "n1 slots=8, n2 slots=8, n3 slots=8");
    EXPECT_EQ(with_slots(parse_nodelist("n[1-3]", "x"), "4(x2),3"), "n1 slots=4, n2 slots=4, n3 slots=3");
    EXPECT_EQ(with_slots(parse_hostfile("n1 slots=2\nn2", "x"), "8"), "n1 slots=2, n2 slots=8");
    EXPECT_REFUSED(with_slots(parse_nodelist("n[1-3]", "x"), "4(x2)"), "numbers for 2 hosts, but there are 3");
    EXPECT_REFUSED(with_slots(parse_nodelist("n[1-3]", "x"), "4,4"), "numbers for 2 hosts, but there are 3");
    for (const char* wrong : {"", "0", "-1", "x", "4(x)", "4(x2", "4(x0)", "4(x99999999)", "4,,4", "4(2)", "(x2)"}) {
        const std::string said = refusal([&] { return with_slots(parse_nodelist("n[1-3]", "x"), wrong); });
        EXPECT_NE(said.find("no number of ranks per host"), std::string::npos) << wrong << "\n" << said;
    }
    EXPECT_REFUSED(with_slots(parse_hostfile("n1 max_slots=2", "x"), "4"), "max_slots = 2 is below --slots 4");
}

TEST(Slots, a_host_without_is_refused_before_mpirun_counts_cores) {
    const std::string said = refusal([] {
        require_slots(parse_hostfile("n1 slots=2\nn2", "hosts"));
        return std::string();
    });
    EXPECT_NE(said.find("hosts:2: n2: no number of ranks"), std::string::npos) << said;
}

}  // namespace
}  // namespace ogrom
