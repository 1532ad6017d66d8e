#include "src/comm/device_communicator.h"

#include <fmt/format.h>
#include <utility>

#include "src/comm/transfer.h"

namespace ogrom {

using Kind = CollectiveKind;

DeviceCommunicator::DeviceCommunicator(std::unique_ptr<MpiCommunicator> host, Stream compute)
    : host_(std::move(host)), compute_(compute) {
    sends_.resize(static_cast<std::size_t>(host_->size()));
    receives_.resize(sends_.size());
}

TrafficByLabel DeviceCommunicator::bytes_by_label() const {
    TrafficByLabel sum = traffic_.by_label();
    for (const auto& [label, bytes] : host_->bytes_by_label()) {
        sum[label] += bytes;
    }
    return sum;
}

Pending DeviceCommunicator::all_reduce(void* data, i64 count, Dtype type, ReduceOp op, ReduceOrder order, void* scratch,
                                       std::string_view label) {
    return carry_out({.kind = Kind::all_reduce, .count = count, .type = type, .op = op, .order = order, .label = label},
                     {.out = data, .scratch = scratch}, count, sent::all_reduce(count, rank(), size()));
}

Pending DeviceCommunicator::reduce(void* data, i64 count, Dtype type, int root, ReduceOrder order, void* scratch,
                                   std::string_view label) {
    check_root(root, size(), label);
    return carry_out({.kind = Kind::reduce, .count = count, .type = type, .root = root, .order = order, .label = label},
                     {.out = data, .scratch = scratch}, count, sent::reduce(count, rank(), root));
}

Pending DeviceCommunicator::reduce_scatter(void* out, const void* in, i64 count, Dtype type, ReduceOrder order,
                                           void* scratch, std::string_view label) {
    return carry_out({.kind = Kind::reduce_scatter, .count = count, .type = type, .order = order, .label = label},
                     {out, in, scratch}, count * size(), sent::to_all_others(count, size()));
}

Pending DeviceCommunicator::reduce_scatter_batched(void* out, const void* in, i64 count, i64 batches, Dtype type,
                                                   ReduceOrder order, void* scratch, std::string_view label) {
    check_batches(batches, label);
    return carry_out({.kind = Kind::reduce_scatter_batched,
                      .count = count,
                      .batches = batches,
                      .type = type,
                      .order = order,
                      .label = label},
                     {out, in, scratch}, count * batches * size(), sent::to_all_others(count * batches, size()));
}

Pending DeviceCommunicator::all_gather(void* out, const void* in, i64 count, Dtype type, std::string_view label) {
    return carry_out({.kind = Kind::all_gather, .count = count, .type = type, .label = label}, {.out = out, .in = in},
                     count * size(), sent::to_all_others(count, size()));
}

Pending DeviceCommunicator::all_gather_batched(void* out, const void* in, i64 count, i64 batches, Dtype type,
                                               std::string_view label) {
    check_batches(batches, label);
    return carry_out(
        {.kind = Kind::all_gather_batched, .count = count, .batches = batches, .type = type, .label = label},
        {.out = out, .in = in}, count * batches * size(), sent::to_all_others(count * batches, size()));
}

Pending DeviceCommunicator::broadcast(void* data, i64 count, Dtype type, int root, std::string_view label) {
    check_root(root, size(), label);
    return carry_out({.kind = Kind::broadcast, .count = count, .type = type, .root = root, .label = label},
                     {.out = data}, count, sent::broadcast(count, rank(), root, size()));
}

Pending DeviceCommunicator::barrier(std::string_view label) {
    return carry_out({.kind = Kind::barrier, .label = label}, {}, 0, 0);
}

Pending DeviceCommunicator::carry_out(CollectiveIntent what, const Buffers& buffers, i64 payload, i64 sent) {
    check_transfer(what.count, what.type, what.label);
    control().check();
    engine()->progress();
    what.sequence = ++sequence_;
    what.bytes = payload * size_of(what.type);
    DeviceCall call{what, std::string(what.label), buffers.out, buffers.in, buffers.scratch, -1};
    call.what.label = {};
    call.ticket = control().collective_issued(what.sequence, call.label, name(), what.bytes);
    host_->compare(what);
    traffic_.add(call.label, sent * size_of(what.type));
    if (payload == 0 && what.kind != Kind::barrier) {
        control().collective_done(call.ticket);
        return {};
    }
    const bool adds_here = what.kind != Kind::reduce || what.root == rank();
    if (what.order == ReduceOrder::fixed && adds_here && buffers.scratch == nullptr) {
        fail(ExitCode::peer, fmt::format("collective '{}': the fixed order needs scratch memory", call.label));
    }
    return start(call);
}

Pending DeviceCommunicator::send(const void* data, i64 count, Dtype type, int to, std::string_view label) {
    // Only the type allows it: a send never writes.
    return start_send(issue_message(sends_, const_cast<void*>(data), count, type, to, label, count));
}

Pending DeviceCommunicator::receive(void* data, i64 count, Dtype type, int from, std::string_view label) {
    return start_receive(issue_message(receives_, data, count, type, from, label, 0));
}

DeviceMessage DeviceCommunicator::issue_message(std::vector<i64>& counters, void* data, i64 count, Dtype type, int peer,
                                                std::string_view label, i64 sent) {
    check_peer(peer, rank(), size(), label);
    check_transfer(count, type, label);
    control().check();
    engine()->progress();
    DeviceMessage message{data, count, type, peer, ++counters[static_cast<std::size_t>(peer)], std::string(label), -1};
    traffic_.add(label, sent * size_of(type));
    message.ticket = control().collective_issued(message.sequence, label, name(), count * size_of(type));
    return message;
}

}  // namespace ogrom
