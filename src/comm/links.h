// One TCP link per node between the watchdogs of the node leaders and the leader of node 0 (the hub): heartbeats and
// failure reports of fixed size. No MPI: a link speaks while MPI is blocked.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernels/common/extents.h"

#include "src/base/handle.h"
#include "src/comm/control.h"

namespace ogrom {

struct DescriptorTraits {
    using type = int;
    static constexpr int empty = -1;
    static void destroy(int descriptor) noexcept;
};
using Descriptor = Handle<DescriptorTraits>;

enum class LinkKind : int { hello, beat, report, end, bye };

struct LinkMessage {
    u64 token = 0;  // drawn by rank 0 for this job; a stranger's connection is dropped
    LinkKind kind = LinkKind::beat;
    int node = 0;
    int code = 0, culprit = -1;
    double stalled_s = 0;  // beat: for how long every rank of the node has waited without progress
    char text[992] = {};   // beat: what the leader does; report, end: the message
};
static_assert(sizeof(LinkMessage) == 1024);

// How the leaders reach the hub; travels by MPI at start-up.
struct LinkAddress {
    static constexpr int most = 8;
    u64 token = 0;
    int port = 0, hosts = 0;
    char host[most][48] = {};  // numeric addresses
};

// One end of a link: never blocks, keeps a partly received message.
class LinkEnd {
public:
    explicit LinkEnd(Descriptor socket) : socket_(std::move(socket)) {}
    void send(const LinkMessage& message);
    // Messages that have arrived (and sends what is still pending); sets closed() at the end of the stream or on an
    // error.
    std::vector<LinkMessage> receive();
    [[nodiscard]] bool closed() const { return closed_; }
    [[nodiscard]] int descriptor() const { return socket_.get(); }

private:
    void flush();

    Descriptor socket_;
    std::string input_, output_;
    bool closed_ = false;
};

// Hub side: listens on this host (loopback only when all nodes are pretended on it).
enum class LinkReach { this_host, network };
Descriptor listen_for_links(LinkReach reach, int nodes, LinkAddress& address);
// Accepts one end per other node, in the order of nodes 1, 2, ...; throws Error(peer) naming a node that did not come.
std::vector<LinkEnd> accept_links(const Descriptor& listener, const LinkAddress& address, int nodes, double seconds);
// Leader side. Throws Error(peer) with the addresses tried.
LinkEnd connect_link(const LinkAddress& address, int node, double seconds);

}  // namespace ogrom
