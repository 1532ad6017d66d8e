#include "src/comm/traffic.h"

#include <algorithm>

#include "src/comm/transfer.h"

namespace ogrom {

i64 sent::all_reduce(i64 count, int rank, int size) {
    if (size == 1) {
        return 0;
    }
    const i64 own = owned_part(std::max<i64>(count, 0), rank, size).count();
    return count - own + (size - 1) * own;
}

void TrafficCount::add(std::string_view label, i64 bytes) {
    if (const auto found = bytes_.find(label); found != bytes_.end()) {
        found->second += bytes;
    } else {
        bytes_.emplace(label, bytes);
    }
}

i64 TrafficCount::total() const {
    i64 sum = 0;
    for (const auto& [label, bytes] : bytes_) {
        sum += bytes;
    }
    return sum;
}

}  // namespace ogrom
