#include "src/comm/nccl_axis.h"

#include <exception>
#include <fmt/format.h>
#include <utility>

#include "kernels/cuda/runtime.h"

#include "src/comm/wait.h"
#include "src/device/queue.h"

namespace ogrom {
namespace {

constexpr double error_interval_s = 0.05;

class NcclState final : public Pending::State {
public:
    NcclState(std::shared_ptr<NcclAxis> axis, std::shared_ptr<NcclCall> call)
        : axis_(std::move(axis)), call_(std::move(call)), exceptions_(std::uncaught_exceptions()) {}
    NcclState(const NcclState&) = delete;
    NcclState& operator=(const NcclState&) = delete;
    ~NcclState() override {
        if (ordered_ || call_->complete || std::uncaught_exceptions() > exceptions_ ||
            axis_->engine().control().failed()) {
            return;
        }
        try {
            wait();
        } catch (const std::exception&) {
            return;  // published already; the next call throws it where it can be caught
        }
    }
    bool test() override {
        if (!ordered_ && !call_->complete) {
            axis_->engine().control().check();
            axis_->engine().progress();
        }
        return ordered_ || call_->complete;
    }
    void wait() override {
        axis_->engine().control().check();
        if (!ordered_) {
            call_->done.hold(axis_->compute());
            ordered_ = true;
        }
    }
    void wait_host() override {
        wait();
        const auto complete = [this] {
            axis_->engine().progress();
            return call_->complete;
        };
        wait_until(complete, &axis_->engine().control(), [] { return 0L; });
    }

private:
    std::shared_ptr<NcclAxis> axis_;
    std::shared_ptr<NcclCall> call_;
    bool ordered_ = false;  // compute waits for it
    int exceptions_;
};

}  // namespace

NcclAxis::NcclAxis(Communicator& host, std::shared_ptr<CommEngine> engine, Stream compute, Channels channels)
    : engine_(std::move(engine)), name_(host.name()), compute_(compute) {
    all_.size = host.size();
    all_.rank = host.rank();
    exchange_ids(host, channels);
    for (NcclLane* lane : lanes()) {
        lane->stream = cuda::make_stream(cuda::QueuePriority::high);
    }
    workspace_ = cuda::allocate_device(sum_elements * static_cast<i64>(sizeof(float)));
    engine_->add(this);
}

NcclAxis::~NcclAxis() {
    engine_->remove(this);
    const bool failed = broken_ || engine_->control().failed() || std::uncaught_exceptions() > 0;
    for (NcclLane* lane : lanes()) {
        if (lane->comm != nullptr) {
            // Of a job that ends in order: every rank comes here, and what is under way completes first.
            static_cast<void>(failed ? nccl::abort(lane->comm) : nccl::destroy(lane->comm));
        }
        if (!failed) {
            cuda::destroy_stream(lane->stream);
        }
    }
    if (!failed) {
        cuda::free_device(workspace_);
    }
}

std::vector<NcclLane*> NcclAxis::lanes() {
    // NCCL takes a communicator down together with its other ranks. So the receiving end comes first, but not around a
    // ring: its first rank begins with its sending end.
    std::vector<NcclLane*> all = {&all_};
    for (NcclLane* channel : {begins_ring_ ? &out_ : &in_, begins_ring_ ? &in_ : &out_}) {
        if (channel->size > 0) {
            all.push_back(channel);
        }
    }
    return all;
}

std::vector<const NcclLane*> NcclAxis::lanes() const {
    const std::vector<NcclLane*> all = const_cast<NcclAxis*>(this)->lanes();
    return {all.begin(), all.end()};
}

void NcclAxis::exchange_ids(Communicator& host, Channels channels) {
    const std::string label = "NCCL id";
    constexpr i64 words = std::tuple_size_v<nccl::Id>;
    if (all_.rank == 0) {
        check(nccl::make_id(all_.id), nullptr, "making an id");
    }
    host.broadcast(all_.id.data(), words, Dtype::u64, 0, label).wait();
    if (channels == Channels::none) {
        return;
    }
    const bool ring = channels == Channels::up_ring || channels == Channels::down_ring;
    const int step = channels == Channels::up || channels == Channels::up_ring ? 1 : -1;
    begins_ring_ = ring && all_.rank == (step > 0 ? 0 : all_.size - 1);
    const auto neighbour = [&](int away) {
        const int rank = all_.rank + away;
        return rank >= 0 && rank < all_.size ? rank : ring ? (rank + all_.size) % all_.size : -1;
    };
    std::vector<Pending> messages;
    if (out_.peer = neighbour(step); out_.peer >= 0) {
        out_.size = 2;
        out_.rank = 0;  // the sender
        check(nccl::make_id(out_.id), nullptr, "making an id");
        messages.push_back(host.send(out_.id.data(), words, Dtype::u64, out_.peer, label));
    }
    if (in_.peer = neighbour(-step); in_.peer >= 0) {
        in_.size = 2;
        in_.rank = 1;
        messages.push_back(host.receive(in_.id.data(), words, Dtype::u64, in_.peer, label));
    }
    for (Pending& message : messages) {
        message.wait();
    }
}

void NcclAxis::start_connecting() {
    for (NcclLane* lane : lanes()) {
        check(nccl::init(lane->comm, lane->size, lane->id, lane->rank), nullptr, "connecting");
    }
}

void NcclAxis::carry_something() {
    const std::string text = "the first operation";
    const auto* const words = static_cast<float*>(workspace_);
    check(nccl::all_reduce(all_.comm, all_.stream, workspace_, 1, Dtype::fp32, ReduceOp::sum), all_.comm, text);
    if (out_.size > 0) {
        check(nccl::send(out_.comm, out_.stream, words + 1, 1, Dtype::fp32, 1), out_.comm, text);
    }
    if (in_.size > 0) {
        check(nccl::receive(in_.comm, in_.stream, sums() + 2, 1, Dtype::fp32, 0), in_.comm, text);
    }
}

void NcclAxis::follow_first() {
    for (NcclLane* lane : lanes()) {
        static_cast<void>(run(*lane, "the first operation", -1, [] {}));
    }
}

bool NcclAxis::carried() const {
    for (const NcclLane* lane : lanes()) {
        if (!lane->calls.empty()) {
            return false;
        }
    }
    return true;
}

NcclLane* NcclAxis::channel_to(int rank) {
    return out_.size > 0 && out_.peer == rank ? &out_ : nullptr;
}
NcclLane* NcclAxis::channel_from(int rank) {
    return in_.size > 0 && in_.peer == rank ? &in_ : nullptr;
}

Pending NcclAxis::pending(std::shared_ptr<NcclCall> call) {
    return Pending(std::make_unique<NcclState>(shared_from_this(), std::move(call)));
}

void NcclAxis::check(nccl::Result result, nccl::Comm comm, const std::string& text) const {
    if (result != nccl::done) {
        broken_ = true;
        fail(ExitCode::peer, fmt::format("NCCL failed on {}, rank {} of it, in {}: {}", name_, all_.rank, text,
                                         nccl::describe(result, comm)));
    }
}

void NcclAxis::advance() {
    bool under_way = false;
    for (NcclLane* lane : lanes()) {
        while (!lane->calls.empty() && lane->calls.front()->done.passed()) {
            lane->calls.front()->complete = true;
            engine_->control().collective_done(lane->calls.front()->ticket);
            lane->calls.pop_front();
        }
        under_way = under_way || !lane->calls.empty();
    }
    if (const double now = steady_seconds(); under_way && now - asked_s_ > error_interval_s) {
        asked_s_ = now;
        ask_for_errors();
    }
}

void NcclAxis::ask_for_errors() {
    for (NcclLane* lane : lanes()) {
        if (!lane->calls.empty()) {
            check(nccl::asynchronous_error(lane->comm), lane->comm, lane->calls.front()->text);
        }
    }
}

}  // namespace ogrom
