#include "src/optim/ownership.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

#include "kernels/common/error.h"
#include "kernels/ops/norm.h"

namespace ogrom {
namespace {

// The nearest place at or below `element` where a shard may begin.
i64 snapped(const ParameterLayout& layout, i64 element) {
    const std::span<const LocalTensor> tensors = layout.tensors();
    const auto after = std::upper_bound(tensors.begin(), tensors.end(), element,
                                        [](i64 at, const LocalTensor& tensor) { return at < tensor.offset; });
    if (after == tensors.begin()) {
        return 0;
    }
    const i64 start = std::prev(after)->offset;
    return start + (element - start) / ops::norm_block * ops::norm_block;
}

void append(std::vector<FlatRange>& ranges, FlatRange range) {
    if (!ranges.empty() && ranges.back().last == range.first) {
        ranges.back().last = range.last;
    } else {
        ranges.push_back(range);
    }
}

}  // namespace

Ownership::Ownership(const ParameterLayout& layout, int parts)
    : parts_(parts), ranges_(static_cast<std::size_t>(parts)), gradient_ranges_(static_cast<std::size_t>(parts)) {
    const FlatRange table = layout.tied_table();
    const i64 size = layout.size();
    if (table.count() > 0) {
        OGROM_ASSERT(table.first == 0 || table.last == size);  // the rest is one range then
        cut(layout, {0, table.first == 0 ? table.last : table.first});
        cut(layout, {table.first == 0 ? table.last : table.first, size});
    } else {
        cut(layout, {0, size});
    }
    for (const OwnedPiece& piece : space_) {
        append(ranges_[index(piece.owner)], piece.range);
    }
    gradient_ranges_ = ranges_;
    if (layout.gradient_size() > size) {
        const i64 shift = size - table.first;
        for (const OwnedPiece& piece : pieces(table)) {
            const FlatRange range{piece.range.first + shift, piece.range.last + shift};
            space_.push_back({range, piece.owner});
            append(gradient_ranges_[index(piece.owner)], range);
        }
    }
}

void Ownership::cut(const ParameterLayout& layout, FlatRange segment) {
    const auto border = [&](int part) {
        if (part == parts_) {
            return segment.last;
        }
        // n r / p without the product, which may leave 64 bits
        const i64 n = segment.count();
        const i64 ideal = segment.first + n / parts_ * part + n % parts_ * part / parts_;
        return std::max(segment.first, snapped(layout, ideal));
    };
    for (int part = 0; part < parts_; ++part) {
        const FlatRange range{border(part), border(part + 1)};
        if (range.count() > 0) {
            space_.push_back({range, part});
        }
    }
}

std::size_t Ownership::index(int part) const {
    OGROM_ASSERT(part >= 0 && part < parts_);
    return static_cast<std::size_t>(part);
}

i64 Ownership::shard_size(int part) const {
    return count_of(ranges(part));
}

i64 Ownership::gradient_shard_size(int part) const {
    return count_of(gradient_ranges(part));
}

i64 Ownership::shard_offset(int part, i64 flat) const {
    i64 before = 0;
    for (const FlatRange& range : ranges(part)) {
        if (flat >= range.first && flat < range.last) {
            return before + flat - range.first;
        }
        before += range.count();
    }
    fail(ExitCode::peer, fmt::format("element {} is not of shard {}", flat, part));
}

std::vector<OwnedPiece> Ownership::pieces(FlatRange range, i64 limit) const {
    OGROM_ASSERT(limit > 0);
    std::vector<OwnedPiece> result;
    auto owned = std::upper_bound(space_.begin(), space_.end(), range.first,
                                  [](i64 at, const OwnedPiece& piece) { return at < piece.range.last; });
    for (i64 at = range.first; at < range.last; ++owned) {
        OGROM_ASSERT(owned != space_.end());
        const i64 last = std::min(range.last, owned->range.last);
        while (at < last) {
            const i64 next = last - at > limit ? at + limit : last;
            result.push_back({{at, next}, owned->owner});
            at = next;
        }
    }
    return result;
}

std::vector<OwnedPiece> Ownership::pieces(FlatRange range) const {
    return pieces(range, std::numeric_limits<i64>::max());
}

int Ownership::owner(i64 element) const {
    return pieces({element, element + 1}).front().owner;
}

std::vector<FlatRange> intersect(const std::vector<FlatRange>& ranges, FlatRange range) {
    std::vector<FlatRange> result;
    for (const FlatRange& held : ranges) {
        const FlatRange part{std::max(held.first, range.first), std::min(held.last, range.last)};
        if (part.count() > 0) {
            result.push_back(part);
        }
    }
    return result;
}

std::vector<FlatRange> make_pieces(FlatRange range, i64 elements) {
    OGROM_ASSERT(elements > 0);
    std::vector<FlatRange> pieces;
    for (i64 last = range.last; last > range.first; last -= std::min(elements, last - range.first)) {
        pieces.push_back({last - std::min(elements, last - range.first), last});
    }
    return pieces;
}

i64 count_of(const std::vector<FlatRange>& ranges) {
    i64 n = 0;
    for (const FlatRange& range : ranges) {
        n += range.count();
    }
    return n;
}

}  // namespace ogrom
