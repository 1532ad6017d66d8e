// What every communicator counts the same way: elements that one rank sends in a call (the formulas of
// comm/communicator.h), and bytes by label.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "kernels/common/extents.h"

namespace ogrom {

namespace sent {
i64 all_reduce(i64 count, int rank, int size);
constexpr i64 reduce(i64 count, int rank, int root) {
    return rank == root ? 0 : count;
}
constexpr i64 to_all_others(i64 elements, int size) {  // (p - 1) x what one other rank gets
    return (size - 1) * elements;
}
constexpr i64 broadcast(i64 count, int rank, int root, int size) {
    return rank == root ? to_all_others(count, size) : 0;
}
}  // namespace sent

using TrafficByLabel = std::map<std::string, i64, std::less<>>;

class TrafficCount {
public:
    void add(std::string_view label, i64 bytes);
    [[nodiscard]] i64 total() const;
    [[nodiscard]] const TrafficByLabel& by_label() const { return bytes_; }

private:
    TrafficByLabel bytes_;
};

}  // namespace ogrom
