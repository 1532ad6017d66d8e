#include "src/comm/staged_messages.h"

#include <algorithm>
#include <utility>

#include "kernels/common/fault.h"

#include "src/comm/staged_core.h"
#include "src/device/buffer.h"

namespace ogrom {

void count_down(StagedCall& call, Stream communication, Control& control) {
    ++call.completed;
    if (--call.left == 0) {
        call.done.record(communication);
        call.complete = true;
        control.collective_done(call.ticket);
    }
}

struct StagedMessages::Message final : StagedCall {
    DeviceMessage what;
    MessageHeader header{}, found{};
    i64 piece_count = 0;  // elements
    i64 pieces = 0, started = 0;
    u64 token = 0;
    Pending called;     // sender: that the receiver was called; receiver: that the sender was told
    Pending announced;  // receiver: the header of the next piece
    bool listening = false;
};

struct StagedMessages::Piece {
    std::shared_ptr<Message> message;
    std::span<std::byte> room;
    i64 first = 0, count = 0;
    StreamMark mark;
    bool moving = false, moved = false;
    Pending header, data;
    [[nodiscard]] char* memory() const {
        return static_cast<char*>(message->what.data) + first * size_of(message->what.type);
    }
    [[nodiscard]] i64 bytes() const { return count * size_of(message->what.type); }
};

StagedMessages::StagedMessages(Carriers carriers, std::span<std::byte> sends, std::span<std::byte> receives)
    : carriers_(std::move(carriers)),
      send_room_(sends),
      receive_room_(receives),
      peers_(static_cast<std::size_t>(carriers_.carrier->size())) {}

StagedMessages::~StagedMessages() = default;

std::shared_ptr<StagedMessages::Message> StagedMessages::add(const DeviceMessage& message, Stream compute) {
    auto call = std::make_shared<Message>();
    call->ticket = message.ticket;
    call->what = message;
    call->header = message_header(message.sequence, message.count, message.type, message.label);
    call->piece_count = std::max<i64>(1, piece_bytes() / size_of(message.type));
    call->pieces = std::max<i64>(1, ceil_div(message.count, call->piece_count));  // an empty one is told as well
    call->left = call->pieces;
    call->issued.record(compute);
    return call;
}

std::shared_ptr<StagedCall> StagedMessages::send(const DeviceMessage& message, Stream compute) {
    auto call = add(message, compute);
    call->called = carriers_.signals->receive(&call->token, 1, Dtype::u64, message.peer, message.label);
    peers_[static_cast<std::size_t>(message.peer)].sends.push_back(call);
    return call;
}

std::shared_ptr<StagedCall> StagedMessages::receive(const DeviceMessage& message, Stream compute) {
    auto call = add(message, compute);
    call->called = carriers_.signals->send(&token_, 1, Dtype::u64, message.peer, message.label);
    peers_[static_cast<std::size_t>(message.peer)].receives.push_back(call);
    return call;
}

void StagedMessages::advance() {
    for (Peer& peer : peers_) {
        start_sends(peer);
        move_sends(peer);
        start_receives(peer);
        move_receives(peer);
    }
}

StagedMessages::Piece& StagedMessages::start_piece(std::list<Piece>& pieces, const std::shared_ptr<Message>& message,
                                                   std::span<std::byte> room) {
    Piece& piece = pieces.emplace_back();
    piece.message = message;
    piece.room = room;
    piece.first = message->started * message->piece_count;
    piece.count = std::min(message->piece_count, message->what.count - piece.first);
    message->issued.hold(carriers_.communication);
    ++message->started;
    return piece;
}

namespace {
i64 room_bytes(i64 started, i64 piece_count, const DeviceMessage& what) {
    return std::min(piece_count, what.count - started * piece_count) * size_of(what.type);
}
}  // namespace

void StagedMessages::start_sends(Peer& peer) {
    while (!peer.sends.empty()) {
        const std::shared_ptr<Message> message = peer.sends.front();
        if (!message->called.test()) {
            return;
        }
        const auto room = send_room_.take(room_bytes(message->started, message->piece_count, message->what));
        if (!room) {
            return;
        }
        Piece& piece = start_piece(peer.leaving, message, *room);
        copy_bytes(carriers_.communication, piece.room.data(), piece.memory(), piece.bytes());
        piece.mark.record(carriers_.communication);
        if (message->started == message->pieces) {
            peer.sends.pop_front();
        }
    }
}

void StagedMessages::move_sends(Peer& peer) {
    for (Piece& piece : peer.leaving) {
        if (!piece.moving) {
            if (!piece.mark.passed()) {
                break;  // header and data of one piece after those of the one before
            }
            const DeviceMessage& what = piece.message->what;
            piece.header =
                carriers_.carrier->send(&piece.message->header, header_words, Dtype::u64, what.peer, what.label);
            piece.data = carriers_.carrier->send(piece.room.data(), piece.count, what.type, what.peer, what.label);
            piece.moving = true;
        }
    }
    for (auto piece = peer.leaving.begin(); piece != peer.leaving.end();) {
        if (piece->moving && piece->header.test() && piece->data.test()) {
            send_room_.give(piece->room);
            count_down(*piece->message, carriers_.communication, *carriers_.control);
            piece = peer.leaving.erase(piece);
        } else {
            ++piece;
        }
    }
}

void StagedMessages::start_receives(Peer& peer) {
    while (!peer.receives.empty()) {
        const std::shared_ptr<Message> message = peer.receives.front();
        const DeviceMessage& what = message->what;
        if (!message->listening) {
            message->announced =
                carriers_.carrier->receive(&message->found, header_words, Dtype::u64, what.peer, what.label);
            message->listening = true;
        }
        if (!message->announced.test()) {
            return;
        }
        check_header(message->found, message->header, carriers_.axis, carriers_.carrier->rank(), what.peer,
                     carriers_.labels);
        const auto room = receive_room_.take(room_bytes(message->started, message->piece_count, what));
        if (!room) {
            return;
        }
        Piece& piece = start_piece(peer.arriving, message, *room);
        piece.data = carriers_.carrier->receive(piece.room.data(), piece.count, what.type, what.peer, what.label);
        message->listening = false;
        if (message->started == message->pieces) {
            peer.receives.pop_front();
        }
    }
}

void StagedMessages::move_receives(Peer& peer) {
    for (auto piece = peer.arriving.begin(); piece != peer.arriving.end();) {
        if (!piece->moved && piece->data.test() && piece->message->called.test()) {
            if (!fault_active("staged_last_piece_kept") || piece->first == 0) {
                copy_bytes(carriers_.communication, piece->memory(), piece->room.data(), piece->bytes());
            }
            piece->mark.record(carriers_.communication);
            piece->moved = true;
            count_down(*piece->message, carriers_.communication, *carriers_.control);
        }
        if (piece->moved && piece->mark.passed()) {
            receive_room_.give(piece->room);
            piece = peer.arriving.erase(piece);
        } else {
            ++piece;
        }
    }
}

bool StagedMessages::idle() const {
    return complete() && std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.arriving.empty(); });
}

bool StagedMessages::complete() const {
    return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
        return peer.sends.empty() && peer.receives.empty() && peer.leaving.empty() &&
               std::all_of(peer.arriving.begin(), peer.arriving.end(), [](const Piece& piece) { return piece.moved; });
    });
}

}  // namespace ogrom
