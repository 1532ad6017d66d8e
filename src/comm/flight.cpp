#include "src/comm/flight.h"

#include <algorithm>
#include <fmt/format.h>

namespace ogrom {

std::string describe_collective(i64 sequence, std::string_view label, std::string_view axis, i64 bytes) {
    if (sequence <= 0) {
        return "none";
    }
    const double size = static_cast<double>(bytes);
    std::string amount = fmt::format("{} B", bytes);
    if (bytes >= 1'000'000'000) {
        amount = fmt::format("{:.1f} GB", size / 1e9);
    } else if (bytes >= 1'000'000) {
        amount = fmt::format("{:.1f} MB", size / 1e6);
    } else if (bytes >= 1'000) {
        amount = fmt::format("{:.1f} kB", size / 1e3);
    }
    return fmt::format("#{} '{}' ({}, {})", sequence, label, axis, amount);
}

i64 FlightRecord::issue(i64 sequence, std::string_view label, std::string_view axis, i64 bytes, double now_s) {
    FlightEntry& entry = ring_[static_cast<std::size_t>(next_ % capacity)];
    entry.sequence = sequence;
    entry.label.assign(label);
    entry.axis.assign(axis);
    entry.bytes = bytes;
    entry.state = FlightState::issued;
    entry.issued_s = now_s;
    entry.done_s = 0;
    return next_++;
}

const FlightEntry* FlightRecord::of_ticket(i64 ticket) const {
    const bool kept = ticket >= 0 && ticket < next_ && next_ - ticket <= capacity;
    return kept ? &ring_[static_cast<std::size_t>(ticket % capacity)] : nullptr;
}

const FlightEntry* FlightRecord::done(i64 ticket, double now_s) {
    if (of_ticket(ticket) == nullptr) {
        return nullptr;
    }
    FlightEntry& entry = ring_[static_cast<std::size_t>(ticket % capacity)];
    entry.state = FlightState::done;
    entry.done_s = now_s;
    return &entry;
}

const FlightEntry* FlightRecord::entry(i64 back) const {
    if (back < 0 || back >= std::min(next_, capacity)) {
        return nullptr;
    }
    return &ring_[static_cast<std::size_t>((next_ - 1 - back) % capacity)];
}

std::string FlightRecord::outstanding() const {
    std::string list;
    for (i64 back = 0; const FlightEntry* item = entry(back); ++back) {
        if (item->state == FlightState::issued) {
            list += list.empty() ? "" : ", ";
            list += describe_collective(item->sequence, item->label, item->axis, item->bytes);
        }
    }
    return list;
}

}  // namespace ogrom
