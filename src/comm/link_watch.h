// The watchdog's use of the links between nodes: heartbeats both ways, a failure report towards node 0, the order to
// end away from it. Also decides which process prints the one message.
#pragma once
#include <poll.h>
#include <string>
#include <vector>

#include "src/comm/links.h"

namespace ogrom {

class LinkWatch {
public:
    LinkWatch(Control& control, std::vector<LinkEnd> ends, u64 token, int hub_ranks, double timeout_s);
    void add_descriptors(std::vector<pollfd>& entries) const;
    // Receives; passes a failure of this node on, once.
    void turn(double now);
    // Sends the heartbeat every half second.
    void beat(double now, double stalled_s);
    [[nodiscard]] double least_stalled() const;  // over the other nodes, by their last heartbeat
    void forgive(double now);                    // this process was stopped: silence counts from now
    void say_goodbye();
    // Claims the failure on this node; the winner prints when it is on node 0.
    void claim(const Failure& failure);

private:
    struct Peer {
        explicit Peer(LinkEnd held) : end(std::move(held)) {}
        LinkEnd end;
        int node = 0;
        double seen_s = 0, stalled_s = 0;
        bool left = false;     // said goodbye, or was told lost
        int leader_rank = -1;  // world rank, from its heartbeats
        std::string leader, work;
    };
    void handle(Peer& peer, const LinkMessage& message, double now);
    void lost(Peer& peer, FailureKind kind, const std::string& reason);
    void pass_on();
    [[nodiscard]] LinkMessage message(LinkKind kind) const;

    Control& control_;
    std::vector<Peer> peers_;
    u64 token_;
    int hub_ranks_;
    double timeout_s_;
    double last_beat_s_ = 0;
    bool passed_on_ = false;
};

}  // namespace ogrom
