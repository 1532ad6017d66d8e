// The machines of a run. Comes in: a hostfile in Open MPI's form, or a node list as SLURM writes it. Goes out: one
// entry per host, or an Error(usage) that quotes each bad line (field case B43). Nothing is looked up on the network
// here: comm/host_addresses.cpp.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

struct HostEntry {
    std::string user;   // "" = the user who starts the run
    std::string name;   // host name or address, as written
    i64 slots = 0;      // ranks that fit; 0 = not said
    i64 max_slots = 0;  // 0 = not said
    std::string where;  // "hosts:3", "--nodelist"

    [[nodiscard]] std::string text() const;  // "ada@node1 slots=8 max_slots=8"
};

inline constexpr i64 largest_hostfile = i64{16} << 20;  // bytes
inline constexpr i64 most_hosts = 100'000;
inline constexpr i64 most_slots = 65'536;

// `path` is the name for messages. Blank lines, comments (# and //) and CRLF are read over.
std::vector<HostEntry> parse_hostfile(std::string_view text, const std::string& path);

// "node[01-03,07],gpu[1-2]-ib[00-01]": names in the order of the list; a number keeps its leading zeros.
std::vector<HostEntry> parse_nodelist(std::string_view text, const std::string& where);

// "8", or one number per host as SLURM_TASKS_PER_NODE has it: "4(x2),3". For the hosts that say no slots of their own.
void set_slots(std::vector<HostEntry>& hosts, std::string_view slots, const std::string& where);

// Every host has slots.
void require_slots(const std::vector<HostEntry>& hosts);

}  // namespace ogrom
