// Names that lead nowhere, to this machine, or to one machine twice (field case B43); the name server is a table here.
#include "src/comm/host_addresses.h"

#include <gtest/gtest.h>
#include <map>

#include "src/base/error.h"

namespace ogrom {
namespace {

const std::map<std::string, std::vector<std::string>> table = {
    {"n1", {"10.0.0.1"}},    {"n2", {"10.0.0.2", "fd00::2"}}, {"alias", {"fd00::2"}},
    {"self", {"127.0.1.1"}}, {"localhost", {"::1"}},          {"mixed", {"10.0.0.9", "127.0.0.1"}},
};

std::string refusal(const std::string& hostfile) {
    try {
        require_addresses(parse_hostfile(hostfile, "hosts"), [](const std::string& name) {
            const auto found = table.find(name);
            return found == table.end() ? Resolved{{}, "not in the table"} : Resolved{found->second, ""};
        });
        return "";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
}

void expect(const std::string& hostfile, const std::string& part) {
    const std::string said = refusal(hostfile);
    EXPECT_NE(said.find(part), std::string::npos) << hostfile << "\n" << said;
}

TEST(HostAddresses, B43_hosts_with_their_own_addresses_pass) {
    EXPECT_EQ(refusal("n1 slots=1\nn2 slots=1"), "");
    EXPECT_EQ(refusal("localhost slots=1"), "");  // a run of this machine alone
}

TEST(HostAddresses, B43_unresolvable_loopback_and_twofold_hosts_are_refused) {
    expect("n1 slots=1\nnowhere slots=1", "hosts:2: host \"nowhere\": does not resolve (not in the table)");
    expect("self slots=1", "resolves to 127.0.1.1");
    expect("n1 slots=1\nself slots=1", "resolves to 127.0.1.1");
    expect("n1 slots=1\nlocalhost slots=1", "hosts:2: host \"localhost\": resolves to ::1");
    expect("n1 slots=1\nmixed slots=1", "resolves to 127.0.0.1");
    expect("n2 slots=1\nalias slots=1", "has the address fd00::2 of n2 (hosts:1)");
    expect("nowhere slots=1\nself slots=1", "2 faults in the hosts");
}

TEST(HostAddresses, the_system_knows_numbers_without_a_server) {
    EXPECT_EQ(system_resolver("127.0.0.1").addresses, std::vector<std::string>{"127.0.0.1"});
    const Resolved none = system_resolver("no.such.host.invalid");
    EXPECT_TRUE(none.addresses.empty());
    EXPECT_FALSE(none.reason.empty());
}

}  // namespace
}  // namespace ogrom
