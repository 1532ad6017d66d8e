// Whether the hosts of a run can be reached by name, before anything is started on them (field case B43): comes in what
// config/hosts.h read, goes out nothing, or an Error(usage) with every host that does not resolve, resolves to a
// loopback address while others are elsewhere, or is a second name of another.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "src/config/hosts.h"

namespace ogrom {

struct Resolved {
    std::vector<std::string> addresses;  // numeric; empty = it does not resolve
    std::string reason;                  // why not
};
using Resolver = std::function<Resolved(const std::string&)>;  // system_resolver, or a fake in tests

Resolved system_resolver(const std::string& name);

void require_addresses(const std::vector<HostEntry>& hosts, const Resolver& resolver);

}  // namespace ogrom
