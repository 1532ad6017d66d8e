#include "src/comm/link_watch.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace ogrom {
namespace {

constexpr double beat_s = 0.5;

void set_text(LinkMessage& message, const std::string& text) {
    std::memcpy(message.text, text.data(), std::min(text.size(), sizeof(message.text) - 1));
}

}  // namespace

LinkWatch::LinkWatch(Control& control, std::vector<LinkEnd> ends, u64 token, int hub_ranks, double timeout_s)
    : control_(control), token_(token), hub_ranks_(hub_ranks), timeout_s_(timeout_s) {
    const double now = steady_seconds();
    for (std::size_t i = 0; i < ends.size(); ++i) {
        Peer peer{std::move(ends[i])};
        peer.node = control.place().node == 0 ? static_cast<int>(i) + 1 : 0;
        peer.seen_s = now;
        peer.leader = fmt::format("the leader of node {}", peer.node);
        peer.work = "phase start";
        peers_.push_back(std::move(peer));
    }
}

void LinkWatch::add_descriptors(std::vector<pollfd>& entries) const {
    for (const Peer& peer : peers_) {
        if (!peer.left && !peer.end.closed()) {
            entries.push_back({peer.end.descriptor(), POLLIN, 0});
        }
    }
}

void LinkWatch::turn(double now) {
    for (Peer& peer : peers_) {
        if (peer.left) {
            continue;
        }
        for (const LinkMessage& message : peer.end.receive()) {
            handle(peer, message, now);
        }
        if (peer.left || control_.failed()) {
            continue;
        }
        if (peer.end.closed()) {
            lost(peer, FailureKind::died, "its connection closed without a goodbye (killed, or its host went down)");
        } else if (now - peer.seen_s > timeout_s_) {
            lost(peer, FailureKind::silent,
                 fmt::format("no heartbeat of node {} for {} s (host or network down)", peer.node, timeout_s_));
        }
    }
    pass_on();
}

void LinkWatch::handle(Peer& peer, const LinkMessage& message, double now) {
    if (message.token != token_) {
        return;
    }
    peer.seen_s = now;
    const std::string text = message.text;
    switch (message.kind) {
        case LinkKind::beat:
            peer.stalled_s = message.stalled_s;
            peer.leader_rank = message.culprit;
            peer.leader = text.substr(0, text.find('\n'));
            peer.work = text.substr(std::min(text.size(), text.find('\n') + 1));
            return;
        case LinkKind::report:
        case LinkKind::end:
            claim({message.culprit, static_cast<ExitCode>(message.code), text});
            return;
        case LinkKind::bye:
            peer.left = true;
            peer.stalled_s = 1e18;
            return;
        case LinkKind::hello:
            return;
    }
}

void LinkWatch::lost(Peer& peer, FailureKind kind, const std::string& reason) {
    peer.left = true;
    const Failure failure{peer.leader_rank, ExitCode::peer,
                          describe_failure(peer.leader, ExitCode::peer, kind, peer.work, reason)};
    if (peer.node != 0) {
        claim(failure);
        return;
    }
    // Node 0 is cut off: its other ranks print when only the leader died; else the first node after it does.
    const bool others_print = kind == FailureKind::died && hub_ranks_ > 1;
    control_.claim_and_print(failure, others_print ? 0 : 1);
}

void LinkWatch::pass_on() {
    if (passed_on_ || !control_.failed() || peers_.empty()) {
        return;
    }
    passed_on_ = true;
    const Failure failure = control_.failure();
    LinkMessage order = message(control_.place().node == 0 ? LinkKind::end : LinkKind::report);
    order.code = static_cast<int>(failure.code);
    order.culprit = failure.culprit;
    set_text(order, failure.line);
    for (Peer& peer : peers_) {
        peer.end.send(order);
    }
}

void LinkWatch::beat(double now, double stalled_s) {
    if (peers_.empty() || now - last_beat_s_ < beat_s) {
        return;
    }
    last_beat_s_ = now;
    LinkMessage pulse = message(LinkKind::beat);
    pulse.culprit = control_.place().world_rank;
    pulse.stalled_s = stalled_s;
    set_text(pulse, describe_rank(control_.own()) + "\n" + describe_work(control_.own()));
    for (Peer& peer : peers_) {
        if (!peer.left) {
            peer.end.send(pulse);
        }
    }
}

double LinkWatch::least_stalled() const {
    double least = 1e18;
    for (const Peer& peer : peers_) {
        least = std::min(least, peer.stalled_s);
    }
    return least;
}

void LinkWatch::forgive(double now) {
    for (Peer& peer : peers_) {
        peer.seen_s = now;
    }
}

void LinkWatch::say_goodbye() {
    for (Peer& peer : peers_) {
        peer.end.send(message(LinkKind::bye));
    }
}

void LinkWatch::claim(const Failure& failure) {
    control_.claim_and_print(failure, 0);
}

LinkMessage LinkWatch::message(LinkKind kind) const {
    LinkMessage made;
    made.token = token_;
    made.kind = kind;
    made.node = control_.place().node;
    return made;
}

}  // namespace ogrom
