#include "src/comm/staged_core.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <list>
#include <utility>

#include "src/comm/staged_messages.h"
#include "src/comm/wait.h"
#include "src/device/queue.h"

namespace ogrom {
namespace {

enum class Stage { bringing, moving, taking };

struct Collective final : StagedCall {
    std::vector<StagedPiece> pieces;
    std::size_t started = 0;
};

struct ActivePiece {
    std::shared_ptr<Collective> call;
    const StagedPiece* steps = nullptr;
    std::span<std::byte> room;
    Stage stage = Stage::bringing;
    StreamMark mark;
    Pending moved;
};

// Parts of an axis' staging: half for collectives, a quarter each for sends and receives.
std::span<std::byte> part_of(std::span<std::byte> all, i64 first_quarter, i64 quarters) {
    const i64 quarter = static_cast<i64>(all.size()) / 4 / StagingRoom::alignment * StagingRoom::alignment;
    return all.subspan(static_cast<std::size_t>(first_quarter * quarter), static_cast<std::size_t>(quarters * quarter));
}

}  // namespace

struct StagedCore::Impl {
    Parts parts;
    StagingMemory memory;
    StagingRoom room;
    std::deque<std::shared_ptr<Collective>> waiting;  // with pieces not yet started, oldest first
    std::list<ActivePiece> active;                    // oldest first
    StagedMessages messages;
    bool advancing = false;

    explicit Impl(Parts given)
        : parts(std::move(given)),
          memory(parts.compute.backend, parts.staging_bytes),
          room(part_of(memory.bytes(), 0, 2)),
          messages({parts.carrier.get(), parts.signals.get(), &parts.engine->control(), parts.communication, parts.axis,
                    parts.labels},
                   part_of(memory.bytes(), 2, 1), part_of(memory.bytes(), 3, 1)) {}

    [[nodiscard]] bool idle() const { return waiting.empty() && active.empty() && messages.idle(); }

    void start_pieces() {
        while (!waiting.empty()) {
            const std::shared_ptr<Collective>& call = waiting.front();
            const StagedPiece& steps = call->pieces[call->started];
            const auto taken = room.take(steps.bytes);
            if (!taken) {
                return;
            }
            ActivePiece& piece = active.emplace_back();
            piece.call = call;
            piece.steps = &steps;
            piece.room = *taken;
            call->issued.hold(parts.communication);
            if (steps.bring) {
                steps.bring(piece.room.data());
                piece.mark.record(parts.communication);
            }
            if (++call->started == call->pieces.size()) {
                waiting.pop_front();
            }
        }
    }

    void move_pieces() {
        for (ActivePiece& piece : active) {
            if (piece.stage == Stage::bringing) {
                if (!piece.mark.passed()) {
                    return;  // MPI gets them in order
                }
                piece.moved = piece.steps->move(piece.room.data());
                piece.stage = Stage::moving;
            }
        }
    }

    void take_pieces() {
        for (ActivePiece& piece : active) {
            if (piece.stage == Stage::moving && piece.moved.test()) {
                if (piece.steps->take) {
                    piece.steps->take(piece.room.data());
                    piece.mark.record(parts.communication);
                }
                piece.stage = Stage::taking;
                count_down(*piece.call, parts.communication, parts.engine->control());
            }
        }
        for (auto piece = active.begin(); piece != active.end();) {
            if (piece->stage == Stage::taking && piece->mark.passed()) {
                room.give(piece->room);
                piece = active.erase(piece);
            } else {
                ++piece;
            }
        }
    }
};

// A Pending of the communicator.
class StagedState final : public Pending::State {
public:
    StagedState(std::shared_ptr<StagedCore> core, std::shared_ptr<StagedCall> call)
        : core_(std::move(core)), call_(std::move(call)), exceptions_(std::uncaught_exceptions()) {}
    StagedState(const StagedState&) = delete;
    StagedState& operator=(const StagedState&) = delete;
    ~StagedState() override {
        // While an exception unwinds the peers may never come: the call stays with the core and the job ends.
        if (call_->held || std::uncaught_exceptions() > exceptions_ || control().failed()) {
            return;
        }
        try {
            wait();
        } catch (const std::exception&) {
            return;  // published already; the next call throws it where it can be caught
        }
    }
    bool test() override {
        if (!call_->complete) {
            control().check();
            core_->impl_->parts.engine->progress();
        }
        if (call_->complete && !call_->held) {
            call_->done.hold(core_->impl_->parts.compute);
            call_->held = true;
        }
        return call_->held;
    }
    void wait() override {
        const double begin = control().notes_waits() ? steady_seconds() : 0;
        wait_until([this] { return test(); }, &control(), [this] { return call_->completed; });
        if (begin > 0) {
            control().note_wait(call_->ticket, core_->impl_->parts.axis, begin);
        }
    }
    void wait_host() override {
        wait();
        const auto copied = [this] {
            core_->impl_->parts.engine->progress();
            return call_->done.passed();
        };
        wait_until(copied, &control(), [this] { return call_->completed; });
    }

private:
    [[nodiscard]] Control& control() const { return core_->impl_->parts.engine->control(); }
    std::shared_ptr<StagedCore> core_;
    std::shared_ptr<StagedCall> call_;
    int exceptions_;
};

StagedCore::StagedCore(Parts parts) : impl_(std::make_unique<Impl>(std::move(parts))) {
    impl_->parts.engine->add(this);
}

StagedCore::~StagedCore() {
    impl_->parts.engine->remove(this);
    if (impl_->parts.engine->control().failed() || !impl_->messages.complete() || !impl_->waiting.empty() ||
        std::any_of(impl_->active.begin(), impl_->active.end(),
                    [](const ActivePiece& piece) { return piece.stage != Stage::taking; })) {
        static_cast<void>(impl_.release());
        return;
    }
    try {
        wait(impl_->parts.communication);
    } catch (const std::exception&) {
        static_cast<void>(impl_.release());  // the device is lost; its memory is not ours to free
    }
}

i64 StagedCore::piece_bytes() const {
    return impl_->room.capacity() / 2;  // two at a time: one is copied while MPI moves the other
}
i64 StagedCore::message_bytes() const {
    return impl_->messages.piece_bytes();
}
MpiCommunicator& StagedCore::carrier() {
    return *impl_->parts.carrier;
}
Stream StagedCore::communication() const {
    return impl_->parts.communication;
}

Pending StagedCore::collective(i64 ticket, std::vector<StagedPiece> pieces) {
    auto call = std::make_shared<Collective>();
    call->ticket = ticket;
    call->left = static_cast<i64>(pieces.size());
    call->pieces = std::move(pieces);
    call->issued.record(impl_->parts.compute);
    impl_->waiting.push_back(call);
    impl_->parts.engine->progress();
    return Pending(std::make_unique<StagedState>(shared_from_this(), std::move(call)));
}

Pending StagedCore::message(const DeviceMessage& message, Direction direction) {
    std::shared_ptr<StagedCall> call = direction == Direction::send
                                           ? impl_->messages.send(message, impl_->parts.compute)
                                           : impl_->messages.receive(message, impl_->parts.compute);
    impl_->parts.engine->progress();
    return Pending(std::make_unique<StagedState>(shared_from_this(), std::move(call)));
}

void StagedCore::advance() {
    if (impl_->advancing) {
        return;  // called again by an operation that it started
    }
    struct Turn {
        bool& flag;
        explicit Turn(bool& held) : flag(held) { flag = true; }
        ~Turn() { flag = false; }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
    };
    const Turn turn(impl_->advancing);
    impl_->start_pieces();
    impl_->move_pieces();
    impl_->take_pieces();
    impl_->messages.advance();
}

}  // namespace ogrom
