#include "src/comm/links.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <random>
#include <sys/socket.h>
#include <unistd.h>

namespace ogrom {
namespace {

void set_nonblocking(int descriptor) {
    fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

bool wait_for(int descriptor, short events, double until_s) {
    for (;;) {
        const double left = until_s - steady_seconds();
        if (left <= 0) {
            return false;
        }
        pollfd entry{descriptor, events, 0};
        const int ready = poll(&entry, 1, static_cast<int>(left * 1000) + 1);
        if (ready > 0) {
            return true;
        }
        if (ready < 0 && errno != EINTR) {
            return false;
        }
    }
}

void add_host(LinkAddress& address, const sockaddr* host, socklen_t size) {
    if (address.hosts >= LinkAddress::most) {
        return;
    }
    char* text = address.host[address.hosts];
    if (getnameinfo(host, size, text, sizeof(address.host[0]), nullptr, 0, NI_NUMERICHOST) == 0) {
        ++address.hosts;
    }
}

// Addresses of this host that another node may reach.
void list_hosts(LinkAddress& address) {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) {
        return;
    }
    for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
        if (item->ifa_addr == nullptr || (item->ifa_flags & IFF_UP) == 0 || (item->ifa_flags & IFF_LOOPBACK) != 0) {
            continue;
        }
        if (item->ifa_addr->sa_family == AF_INET) {
            add_host(address, item->ifa_addr, sizeof(sockaddr_in));
        } else if (item->ifa_addr->sa_family == AF_INET6 &&
                   !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6*>(item->ifa_addr)->sin6_addr)) {
            add_host(address, item->ifa_addr, sizeof(sockaddr_in6));
        }
    }
    freeifaddrs(list);
}

// An IPv6 socket that also serves IPv4, or IPv4 alone where the kernel has no IPv6.
Descriptor bind_any(LinkReach reach, int backlog) {
    for (const int family : {reach == LinkReach::network ? AF_INET6 : AF_INET, AF_INET}) {
        Descriptor socket_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (!socket_) {
            continue;
        }
        sockaddr_in6 six{};
        sockaddr_in four{};
        six.sin6_family = AF_INET6;
        six.sin6_addr = in6addr_any;
        four.sin_family = AF_INET;
        four.sin_addr.s_addr = htonl(reach == LinkReach::this_host ? INADDR_LOOPBACK : INADDR_ANY);
        const int both = 0;
        if (family == AF_INET6) {
            setsockopt(socket_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof(both));
        }
        const int bound = family == AF_INET6
                              ? bind(socket_.get(), reinterpret_cast<const sockaddr*>(&six), sizeof(six))
                              : bind(socket_.get(), reinterpret_cast<const sockaddr*>(&four), sizeof(four));
        if (bound == 0 && listen(socket_.get(), backlog) == 0) {
            return socket_;
        }
    }
    fail(ExitCode::peer, fmt::format("control link: cannot listen on a TCP port: {}", std::strerror(errno)));
}

Descriptor try_connect(const char* host, int port, double until_s) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (getaddrinfo(host, fmt::format("{}", port).c_str(), &hints, &found) != 0) {
        return {};
    }
    Descriptor socket_(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int error = ENOTCONN;
    if (socket_) {
        error = connect(socket_.get(), found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
        if (error == EINPROGRESS && wait_for(socket_.get(), POLLOUT, until_s)) {
            socklen_t size = sizeof(error);
            getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        }
    }
    freeaddrinfo(found);
    return error == 0 ? std::move(socket_) : Descriptor();
}

}  // namespace

void DescriptorTraits::destroy(int descriptor) noexcept {
    close(descriptor);
}

void LinkEnd::send(const LinkMessage& message) {
    flush();
    // A reader that stopped reading must not make this end grow: beats are dropped while some are pending.
    if (closed_ || (message.kind == LinkKind::beat && output_.size() > 4 * sizeof(message))) {
        return;
    }
    output_.append(reinterpret_cast<const char*>(&message), sizeof(message));
    flush();
}

void LinkEnd::flush() {
    while (!closed_ && !output_.empty()) {
        const ssize_t now = ::send(socket_.get(), output_.data(), output_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (now <= 0) {
            closed_ = now < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
            return;
        }
        output_.erase(0, static_cast<std::size_t>(now));
    }
}

std::vector<LinkMessage> LinkEnd::receive() {
    flush();
    std::vector<LinkMessage> messages;
    char buffer[sizeof(LinkMessage)];
    while (!closed_) {
        const ssize_t now = recv(socket_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
        if (now > 0) {
            input_.append(buffer, static_cast<std::size_t>(now));
        } else if (now == 0) {
            closed_ = true;
        } else if (errno != EINTR) {
            closed_ = errno != EAGAIN && errno != EWOULDBLOCK;
            break;
        }
        while (input_.size() >= sizeof(LinkMessage)) {
            std::memcpy(&messages.emplace_back(), input_.data(), sizeof(LinkMessage));
            messages.back().text[sizeof(LinkMessage::text) - 1] = 0;
            input_.erase(0, sizeof(LinkMessage));
        }
    }
    return messages;
}

Descriptor listen_for_links(LinkReach reach, int nodes, LinkAddress& address) {
    Descriptor listener = bind_any(reach, nodes + 16);
    sockaddr_storage bound{};
    socklen_t size = sizeof(bound);
    getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size);
    address.port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                                     : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
    std::random_device source;
    address.token = (static_cast<u64>(source()) << 32) | source();
    if (reach == LinkReach::network) {
        list_hosts(address);
    } else {
        std::strcpy(address.host[address.hosts++], "127.0.0.1");
    }
    return listener;
}

std::vector<LinkEnd> accept_links(const Descriptor& listener, const LinkAddress& address, int nodes, double seconds) {
    std::vector<std::unique_ptr<LinkEnd>> found(static_cast<std::size_t>(nodes));
    const double until = steady_seconds() + seconds;
    int missing = nodes - 1;
    while (missing > 0 && wait_for(listener.get(), POLLIN, until)) {
        Descriptor socket_(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!socket_) {
            continue;
        }
        set_nonblocking(socket_.get());
        auto end = std::make_unique<LinkEnd>(std::move(socket_));
        std::vector<LinkMessage> hello;
        const double patience = std::min(until, steady_seconds() + 2);
        while (hello.empty() && !end->closed() && wait_for(end->descriptor(), POLLIN, patience)) {
            hello = end->receive();
        }
        if (hello.empty() || hello[0].token != address.token || hello[0].kind != LinkKind::hello || hello[0].node < 1 ||
            hello[0].node >= nodes || found[static_cast<std::size_t>(hello[0].node)] != nullptr) {
            continue;
        }
        found[static_cast<std::size_t>(hello[0].node)] = std::move(end);
        --missing;
    }
    std::vector<LinkEnd> ends;
    for (int node = 1; node < nodes; ++node) {
        if (found[static_cast<std::size_t>(node)] == nullptr) {
            fail(ExitCode::peer, fmt::format("control link: node {} of {} did not connect to port {} within {} s; TCP "
                                             "between the nodes must be open",
                                             node, nodes, address.port, seconds));
        }
        ends.push_back(std::move(*found[static_cast<std::size_t>(node)]));
    }
    return ends;
}

LinkEnd connect_link(const LinkAddress& address, int node, double seconds) {
    const double until = steady_seconds() + seconds;
    std::string tried;
    while (steady_seconds() < until) {
        tried.clear();
        for (int i = 0; i < address.hosts; ++i) {
            tried += fmt::format(" {}", address.host[i]);
            Descriptor socket_ = try_connect(address.host[i], address.port, std::min(until, steady_seconds() + 2));
            if (socket_) {
                LinkEnd end(std::move(socket_));
                LinkMessage hello;
                hello.token = address.token;
                hello.kind = LinkKind::hello;
                hello.node = node;
                end.send(hello);
                return end;
            }
        }
        usleep(100'000);
    }
    fail(ExitCode::peer, fmt::format("control link: node {} cannot reach node 0 on port {} (tried{}); TCP between the "
                                     "nodes must be open",
                                     node, address.port, tried));
}

}  // namespace ogrom
