// Comes in: one axis and memory on it. Goes out: seconds and bus rates of the five calls that training makes.
// Next: comm/slow.cpp
#include <algorithm>
#include <functional>

#include "src/base/timer.h"
#include "src/comm/probe.h"

namespace ogrom {
namespace {

constexpr i64 first_bytes = i64{1} << 20, growth = 4;
constexpr i64 most_repetitions = 20;

double median_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t n = values.size();
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// One call of `bytes` bytes (a multiple of 4 x ranks); returns when this rank's memory holds the result.
void carry(Communicator& axis, ProbedCollective what, const ProbeMemory& memory, i64 bytes) {
    const int size = axis.size(), rank = axis.rank();
    const i64 count = bytes / 4, part = count / size;
    switch (what) {
        case ProbedCollective::all_reduce:
            axis.all_reduce(memory.a, count, Dtype::fp32, ReduceOp::sum, ReduceOrder::any, nullptr, "check")
                .wait_host();
            return;
        case ProbedCollective::all_gather:
            axis.all_gather(memory.a, memory.b, part, Dtype::fp32, "check").wait_host();
            return;
        case ProbedCollective::reduce_scatter:
            axis.reduce_scatter(memory.b, memory.a, part, Dtype::fp32, ReduceOrder::any, nullptr, "check").wait_host();
            return;
        case ProbedCollective::broadcast:
            axis.broadcast(memory.a, count, Dtype::fp32, 0, "check").wait_host();
            return;
        case ProbedCollective::send: {
            Pending received = axis.receive(memory.b, count, Dtype::fp32, (rank + size - 1) % size, "check");
            Pending sent = axis.send(memory.a, count, Dtype::fp32, (rank + 1) % size, "check");
            received.wait_host();
            sent.wait_host();
            return;
        }
    }
}

// Seconds of one call on every rank of the axis, begun together.
std::vector<double> time_call(Communicator& axis, ProbedCollective what, const ProbeMemory& memory, i64 bytes) {
    axis.host().barrier("check").wait();
    const Timer timer;
    carry(axis, what, memory, bytes);
    const double own = timer.seconds();
    std::vector<double> all(static_cast<std::size_t>(axis.size()));
    axis.host().all_gather(all.data(), &own, 1, Dtype::fp64, "check").wait();
    return all;
}

double slowest(const std::vector<double>& seconds) {
    return *std::max_element(seconds.begin(), seconds.end());
}

CollectiveRate measure(Communicator& axis, ProbedCollective what, const ProbeMemory& memory, double seconds) {
    CollectiveRate rate;
    rate.what = what;
    const i64 unit = i64{4} * axis.size();
    const auto whole = [&](i64 bytes) { return std::max(unit, bytes / unit * unit); };
    i64 bytes = whole(std::min(first_bytes, memory.bytes));
    time_call(axis, what, memory, bytes);  // connects
    // All ranks see the same times, so all choose alike.
    double once = slowest(time_call(axis, what, memory, bytes));
    while (bytes * growth <= memory.bytes && once * growth <= seconds / 6) {
        bytes = whole(bytes * growth);
        once = slowest(time_call(axis, what, memory, bytes));
    }
    rate.bytes = bytes;
    rate.repetitions = std::clamp(static_cast<i64>(seconds / 2 / std::max(once, 1e-9)), i64{1}, most_repetitions);
    std::vector<double> slowest_s;
    std::vector<std::vector<double>> own(static_cast<std::size_t>(axis.size()));
    for (i64 repetition = 0; repetition < rate.repetitions; ++repetition) {
        const std::vector<double> all = time_call(axis, what, memory, bytes);
        slowest_s.push_back(slowest(all));
        for (std::size_t rank = 0; rank < all.size(); ++rank) {
            own[rank].push_back(all[rank]);
        }
    }
    rate.seconds = median_of(slowest_s);
    rate.bus_bytes_per_s = static_cast<double>(bytes) / rate.seconds * bus_factor(what, axis.size());
    for (const std::vector<double>& times : own) {
        rate.own_s.push_back(median_of(times));
    }
    return rate;
}

}  // namespace

std::string_view name_of(ProbedCollective what) {
    switch (what) {
        case ProbedCollective::all_reduce:
            return "all_reduce";
        case ProbedCollective::all_gather:
            return "all_gather";
        case ProbedCollective::reduce_scatter:
            return "reduce_scatter";
        case ProbedCollective::broadcast:
            return "broadcast";
        case ProbedCollective::send:
            return "send";
    }
    return "?";
}

double bus_factor(ProbedCollective what, int ranks) {
    const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    switch (what) {
        case ProbedCollective::all_reduce:
            return 2 * others;
        case ProbedCollective::all_gather:
        case ProbedCollective::reduce_scatter:
            return others;
        default:
            return 1;
    }
}

std::vector<CollectiveRate> measure_collectives(Communicator& axis, const ProbeMemory& memory, double seconds) {
    std::vector<CollectiveRate> rates;
    for (const ProbedCollective what :
         {ProbedCollective::all_reduce, ProbedCollective::all_gather, ProbedCollective::reduce_scatter,
          ProbedCollective::broadcast, ProbedCollective::send}) {
        rates.push_back(measure(axis, what, memory, seconds / 5));
    }
    return rates;
}

}  // namespace ogrom
