#include "src/comm/host_addresses.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>

#include "src/base/text.h"
#include "src/config/entry.h"

namespace ogrom {
namespace {

bool is_loopback(const std::string& address) {
    return address.starts_with("127.") || address == "::1" || address.starts_with("::ffff:127.");
}

// "" or what is wrong with the host's addresses.
std::string wrong_addresses(const HostEntry& host, const Resolved& found, bool alone) {
    if (found.addresses.empty()) {
        return fmt::format("does not resolve ({}); would be right: a name that /etc/hosts or the name server knows",
                           found.reason);
    }
    for (const std::string& address : found.addresses) {
        if (address == "127.0.1.1") {
            return fmt::format(
                "resolves to 127.0.1.1, an address that every machine calls its own: other hosts could not reach it; "
                "would be right: the host's own address before {} in /etc/hosts, no line 127.0.1.1",
                host.name);
        }
        if (is_loopback(address) && !alone) {
            return fmt::format(
                "resolves to {}, which is this machine for every host; would be right: the host's "
                "address on the network that all hosts share",
                address);
        }
    }
    return {};
}

}  // namespace

Resolved system_resolver(const std::string& name) {
    addrinfo wanted = {};
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int code = getaddrinfo(name.c_str(), nullptr, &wanted, &list);
    if (code != 0) {
        return {{}, gai_strerror(code)};
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
    Resolved found;
    for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
        std::array<char, NI_MAXHOST> text{};
        if (getnameinfo(at->ai_addr, at->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0) {
            found.addresses.emplace_back(text.data());
        }
    }
    found.reason = found.addresses.empty() ? "no address" : "";
    return found;
}

void require_addresses(const std::vector<HostEntry>& hosts, const Resolver& resolver) {
    Faults faults;
    std::map<std::string, const HostEntry*> owners;  // of each address
    for (const HostEntry& host : hosts) {
        const Resolved found = resolver(host.name);
        if (const std::string wrong = wrong_addresses(host, found, hosts.size() == 1); !wrong.empty()) {
            faults.add(host.where, "host " + quote(host.name), wrong);
            continue;
        }
        for (const std::string& address : found.addresses) {
            const auto [at, is_new] = owners.emplace(address, &host);
            if (!is_new && at->second != &host) {
                faults.add(host.where, "host " + quote(host.name),
                           fmt::format("has the address {} of {} ({}): one machine under two names; would be right: "
                                       "one line with all its slots",
                                       address, at->second->name, at->second->where));
                break;
            }
        }
    }
    faults.throw_if_any("the hosts");
}

}  // namespace ogrom
