// The messages of a staged communicator; the order in which room is taken is explained in comm/staged_core.
#pragma once
#include <array>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "src/comm/device_communicator.h"
#include "src/comm/staging.h"
#include "src/comm/stream_mark.h"

namespace ogrom {

struct StagedCall;

// A piece of `call` is complete here; with the last one `done` is recorded on `communication`.
void count_down(StagedCall& call, Stream communication, Control& control);

class StagedMessages {
public:
    struct Carriers {
        MpiCommunicator* carrier = nullptr;
        MpiCommunicator* signals = nullptr;
        Control* control = nullptr;
        Stream communication;
        std::string axis;
        LabelCheck labels = LabelCheck::off;
    };
    StagedMessages(Carriers carriers, std::span<std::byte> sends, std::span<std::byte> receives);
    ~StagedMessages();
    StagedMessages(const StagedMessages&) = delete;
    StagedMessages& operator=(const StagedMessages&) = delete;

    [[nodiscard]] i64 piece_bytes() const { return send_room_.capacity() / 2; }
    std::shared_ptr<StagedCall> send(const DeviceMessage& message, Stream compute);
    std::shared_ptr<StagedCall> receive(const DeviceMessage& message, Stream compute);
    void advance();
    [[nodiscard]] bool idle() const;      // nothing under way, no room taken
    [[nodiscard]] bool complete() const;  // nothing under way but copies

private:
    static constexpr i64 header_words = sizeof(MessageHeader) / 8;
    struct Message;
    struct Piece;
    struct Peer {
        std::deque<std::shared_ptr<Message>> sends, receives;  // with pieces not yet started, oldest first
        std::list<Piece> leaving, arriving;                    // started, oldest first
    };
    std::shared_ptr<Message> add(const DeviceMessage& message, Stream compute);
    void start_sends(Peer& peer);
    void move_sends(Peer& peer);
    void start_receives(Peer& peer);
    void move_receives(Peer& peer);
    Piece& start_piece(std::list<Piece>& pieces, const std::shared_ptr<Message>& message, std::span<std::byte> room);

    Carriers carriers_;
    StagingRoom send_room_, receive_room_;
    std::vector<Peer> peers_;
    u64 token_ = 1;  // sent as "called"
};

}  // namespace ogrom
