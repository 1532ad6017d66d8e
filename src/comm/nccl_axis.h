// What outlives an NCCL communicator object while its operations are under way: NCCL's communicators, their streams and
// the operations. Moved like everything else (comm/engine): it notes what the device has done and asks for errors.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "src/comm/axis_set.h"
#include "src/comm/device_communicator.h"
#include "src/comm/nccl_library.h"
#include "src/comm/stream_mark.h"

namespace ogrom {

// One operation under way.
struct NcclCall {
    std::string text;  // "all_reduce #12 'gradients.bucket.3'"
    i64 ticket = -1;
    StreamMark done;
    bool complete = false;  // the device is done with it
};

// An NCCL communicator and the stream that its operations run on.
struct NcclLane {
    nccl::Comm comm = nullptr;
    Stream stream;
    nccl::Id id{};
    int size = 0, rank = 0;
    int peer = -1;                                // of a channel: the rank of the axis at the other end
    std::deque<std::shared_ptr<NcclCall>> calls;  // oldest first
};

class NcclAxis final : public Mover, public std::enable_shared_from_this<NcclAxis> {
public:
    // Exchanges the ids over `host`, which outlives the axis' operations; connects nothing.
    NcclAxis(Communicator& host, std::shared_ptr<CommEngine> engine, Stream compute, Channels channels);
    ~NcclAxis() override;

    // Each inside one group of NCCL for all axes, so that no rank's first operation waits for another's second.
    void start_connecting();
    void carry_something();  // touches every lane once
    // After that group: waits for nothing.
    void follow_first();
    [[nodiscard]] bool carried() const;

    [[nodiscard]] int rank() const { return all_.rank; }
    [[nodiscard]] int size() const { return all_.size; }
    [[nodiscard]] CommEngine& engine() const { return *engine_; }
    [[nodiscard]] Stream compute() const { return compute_; }
    [[nodiscard]] NcclLane& collectives() { return all_; }
    NcclLane* channel_to(int rank);  // null: there is none
    NcclLane* channel_from(int rank);

    // Room of the fixed order's sums of 16-bit types, on the device.
    static constexpr i64 sum_elements = i64{1} << 18;
    [[nodiscard]] float* sums() { return static_cast<float*>(workspace_); }

    // `enqueue` puts the operation on the lane's stream, after what compute has now.
    template <class Enqueue>
    Pending run(NcclLane& lane, const std::string& text, i64 ticket, const Enqueue& enqueue) {
        auto call = std::make_shared<NcclCall>();
        call->text = text;
        call->ticket = ticket;
        StreamMark issued;
        issued.record(compute_);
        issued.hold(lane.stream);
        enqueue_watched(enqueue);
        call->done.record(lane.stream);
        lane.calls.push_back(call);
        return pending(std::move(call));
    }
    // Throws Error(peer) that names rank, axis and operation unless the result is nccl::done.
    void check(nccl::Result result, nccl::Comm comm, const std::string& text) const;

    void advance() override;

private:
    // NCCL may hold the host up until the partners come (a first connection): the watchdog sees it as a wait.
    template <class Enqueue>
    void enqueue_watched(const Enqueue& enqueue) {
        Control& control = engine_->control();
        control.waiting_since(steady_seconds());
        enqueue();
        control.waiting_since(0);
    }
    Pending pending(std::shared_ptr<NcclCall> call);
    [[nodiscard]] std::vector<NcclLane*> lanes();
    [[nodiscard]] std::vector<const NcclLane*> lanes() const;
    void exchange_ids(Communicator& host, Channels channels);
    void ask_for_errors();

    std::shared_ptr<CommEngine> engine_;
    std::string name_;
    Stream compute_;
    NcclLane all_, out_, in_;  // out_, in_: channels, where their size is 2
    bool begins_ring_ = false;
    void* workspace_ = nullptr;
    double asked_s_ = 0;
    mutable bool broken_ = false;
};

}  // namespace ogrom
