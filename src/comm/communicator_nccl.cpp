#include "src/comm/communicator_nccl.h"

#include <fmt/format.h>
#include <utility>

#include "src/comm/nccl_axis.h"
#include "src/comm/nccl_fixed.h"
#include "src/comm/wait.h"

namespace ogrom {
namespace {

using Kind = CollectiveKind;

class NcclCommunicatorClass final : public DeviceCommunicator {
public:
    NcclCommunicatorClass(std::unique_ptr<MpiCommunicator> host, std::shared_ptr<NcclAxis> axis)
        : DeviceCommunicator(std::move(host), axis->compute()), axis_(std::move(axis)) {}

private:
    Pending start(const DeviceCall& call) override {
        const std::string text = fmt::format("{} #{} '{}'", name_of(call.what.kind), call.what.sequence, call.label);
        return axis_->run(axis_->collectives(), text, call.ticket, [&] { enqueue(call, text); });
    }

    void enqueue(const DeviceCall& call, const std::string& text) {
        NcclLane& lane = axis_->collectives();
        const auto& what = call.what;
        const auto check = [&](nccl::Result result) { axis_->check(result, lane.comm, text); };
        const bool rounds = what.type == Dtype::fp32 || what.type == Dtype::fp64 || has_16_bits(what.type);
        const bool ordered = what.order == ReduceOrder::fixed && what.op == ReduceOp::sum && rounds;
        switch (what.kind) {
            case Kind::all_reduce:
                return ordered
                           ? fixed_all_reduce(*axis_, call, text)
                           : check(nccl::all_reduce(lane.comm, lane.stream, call.out, what.count, what.type, what.op));
            case Kind::reduce:
                return ordered
                           ? fixed_reduce(*axis_, call, text)
                           : check(nccl::reduce(lane.comm, lane.stream, call.out, what.count, what.type, what.root));
            case Kind::reduce_scatter:
            case Kind::reduce_scatter_batched:
                return ordered ? fixed_reduce_scatter(*axis_, call, text) : in_batches(call, check);
            case Kind::all_gather:
            case Kind::all_gather_batched:
                return in_batches(call, check);
            case Kind::broadcast:
                return check(nccl::broadcast(lane.comm, lane.stream, call.out, what.count, what.type, what.root));
            case Kind::barrier:
                return check(nccl::all_reduce(lane.comm, lane.stream, axis_->sums(), 1, Dtype::fp32, ReduceOp::max));
        }
    }

    // Each batch is one operation of NCCL, all of them in one group.
    template <class Check>
    void in_batches(const DeviceCall& call, const Check& check) {
        NcclLane& lane = axis_->collectives();
        const auto& what = call.what;
        const bool gathers = what.kind == Kind::all_gather || what.kind == Kind::all_gather_batched;
        const i64 part = what.count * size_of(what.type);
        check(nccl::group_start());
        for (i64 b = 0; b < what.batches; ++b) {
            char* const out = static_cast<char*>(call.out) + b * part * (gathers ? size() : 1);
            const char* const in = static_cast<const char*>(call.in) + b * part * (gathers ? 1 : size());
            check(gathers ? nccl::all_gather(lane.comm, lane.stream, out, in, what.count, what.type)
                          : nccl::reduce_scatter(lane.comm, lane.stream, out, in, what.count, what.type));
        }
        check(nccl::group_end());
    }

    NcclLane& channel(NcclLane* found, const DeviceMessage& message) const {
        if (found == nullptr) {
            fail(ExitCode::peer,
                 fmt::format("message '{}': NCCL communicator {} has no channel between ranks {} and {}; channels "
                             "join the stages of a pipeline only",
                             message.label, name(), rank(), message.peer));
        }
        return *found;
    }
    Pending start_send(const DeviceMessage& message) override {
        NcclLane& lane = channel(axis_->channel_to(message.peer), message);
        return transfer(lane, "send", message, [&] {
            return nccl::send(lane.comm, lane.stream, message.data, message.count, message.type, 1);
        });
    }
    Pending start_receive(const DeviceMessage& message) override {
        NcclLane& lane = channel(axis_->channel_from(message.peer), message);
        return transfer(lane, "receive", message, [&] {
            return nccl::receive(lane.comm, lane.stream, message.data, message.count, message.type, 0);
        });
    }
    template <class Operation>
    Pending transfer(NcclLane& lane, std::string_view kind, const DeviceMessage& message, const Operation& operation) {
        if (message.count == 0) {
            control().collective_done(message.ticket);
            return {};
        }
        const std::string text =
            fmt::format("{} #{} '{}' (peer {})", kind, message.sequence, message.label, message.peer);
        return axis_->run(lane, text, message.ticket, [&] { axis_->check(operation(), lane.comm, text); });
    }

    std::shared_ptr<NcclAxis> axis_;
};

}  // namespace

NcclCommunicator make_nccl_communicator(MpiCommunicator& world, int colour, int key, const std::string& name,
                                        CollectiveCheck check, Channels channels, const AxisOptions& options) {
    if (options.compute.backend != Backend::cuda) {
        fail(ExitCode::usage, fmt::format("axis {}: NCCL carries the memory of a GPU only", name));
    }
    if (!nccl::facts().missing.empty()) {
        fail(ExitCode::usage, fmt::format("axis {}: NCCL cannot be used: {}", name, nccl::facts().missing));
    }
    MpiCommunicatorOptions with = world.options();
    with.check = check == CollectiveCheck::compare ? check : with.check;
    auto host = world.split_as(colour, key, name, with);
    if (host == nullptr) {
        return {};
    }
    auto axis = std::make_shared<NcclAxis>(*host, with.engine, options.compute, channels);
    return {std::make_unique<NcclCommunicatorClass>(std::move(host), axis), axis};
}

void connect_nccl(MpiCommunicator& world, std::span<const std::shared_ptr<NcclAxis>> axes) {
    Control& control = *world.options().control;
    // A blocking call: the watchdog sees a rank that waits here for one that never comes.
    control.waiting_since(steady_seconds());
    const auto together = [&](void (NcclAxis::*step)()) {
        const NcclAxis& any = *axes.front();
        any.check(nccl::group_start(), nullptr, "connecting");
        for (const auto& axis : axes) {
            ((*axis).*step)();
        }
        any.check(nccl::group_end(), nullptr, "connecting");
        control.moved();
    };
    together(&NcclAxis::start_connecting);
    together(&NcclAxis::carry_something);
    control.waiting_since(0);
    for (const auto& axis : axes) {
        axis->follow_first();
    }
    const auto carried = [&] {
        world.options().engine->progress();
        for (const auto& axis : axes) {
            if (!axis->carried()) {
                return false;
            }
        }
        return true;
    };
    wait_until(carried, &control, [] { return 0L; });
}

}  // namespace ogrom
