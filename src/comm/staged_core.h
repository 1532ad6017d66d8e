// Everything under way on a staged communicator (comm/communicator_staged). It is moved by whoever waits or calls
// progress(), like MPI itself, and never blocks the host on the device.
//
// Collectives: calls are cut into pieces that fit the room; a piece takes room, its contribution is copied to the host,
// MPI moves it, the result is copied back, the room is free. Pieces take room, and are given to MPI, in order of issue;
// all ranks cut alike, so the first piece that is not complete always gets its room and its partners.
// Messages: a receiver tells the sender that it was called; only then the sender takes room, and only when its piece
// lies there it announces the piece and sends it; only then the receiver takes room. So room is never held for a
// partner that has yet to come, and no circle of messages can wait for each other's room. Collectives, sends and
// receives have room of their own.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/comm/device_communicator.h"
#include "src/comm/staging.h"
#include "src/comm/stream_mark.h"

namespace ogrom {

// One piece of a collective; each step is given where its memory in the room begins.
struct StagedPiece {
    i64 bytes = 0;  // of room
    std::function<void(std::byte*)> bring =
        {};                                     // enqueues the copies to the host; empty: this rank contributes nothing
    std::function<Pending(std::byte*)> move;    // the same on host memory
    std::function<void(std::byte*)> take = {};  // enqueues the copies back; empty: this rank receives nothing
};

// What a Pending of a staged communicator refers to.
struct StagedCall {
    i64 ticket = -1;
    StreamMark issued;      // on compute, at the call: copies wait for it
    StreamMark done;        // on communication, after the last copy: compute waits for it
    bool complete = false;  // all copies are enqueued
    bool held = false;      // compute waits for `done`
    i64 left = 0;           // pieces not yet complete
    long completed = 0;     // counts up with each step, for the deadline
};

class StagedCore final : public Mover, public std::enable_shared_from_this<StagedCore> {
public:
    struct Parts {
        std::unique_ptr<MpiCommunicator> carrier;  // collectives, announcements and data
        std::unique_ptr<MpiCommunicator> signals;  // receivers' "called"
        std::shared_ptr<CommEngine> engine;
        Stream compute, communication;
        i64 staging_bytes = 0;
        std::string axis;
        LabelCheck labels = LabelCheck::off;
    };
    explicit StagedCore(Parts parts);
    // Waits for its copies; with calls left open the job is ending, and what they refer to stays.
    ~StagedCore() override;

    // Most bytes of room of one piece.
    [[nodiscard]] i64 piece_bytes() const;
    [[nodiscard]] i64 message_bytes() const;  // of one piece of a message
    [[nodiscard]] MpiCommunicator& carrier();
    [[nodiscard]] Stream communication() const;

    Pending collective(i64 ticket, std::vector<StagedPiece> pieces);
    enum class Direction { send, receive };
    Pending message(const DeviceMessage& message, Direction direction);

    void advance() override;

private:
    friend class StagedState;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ogrom
