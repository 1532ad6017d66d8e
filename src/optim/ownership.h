// Who owns which element of the flat buffer: contiguous shards over the ranks of a zero group, so that ZeRO 1-3 keep,
// sum and update each element on one rank (Rajbhandari et al. 2020). ZeRO 0 keeps all on every rank, but sums by the
// same cut in the fixed order and splits the norm by it.
// A segment of n elements is cut for rank r of p at floor(n r / p), moved down to a multiple of ops::norm_block from
// the start of the tensor it falls in: sums of squares over whole blocks are then those of the uncut tensor, and a
// shard is within one block of n / p. Where the stage holds a tied token table the table is one segment and the rest
// another, so that the table is cut alike on the first and on the last stage; otherwise all is one segment.
#pragma once
#include <vector>

#include "src/model/parameters.h"

namespace ogrom {

struct OwnedPiece {
    FlatRange range;
    int owner = 0;
};

// Pure; the same on all ranks of the group. Ranges lie in the gradient space: [0, layout.size()) is also the space of
// weights and moments; element size() + i is the head's part of tied table element i and belongs to that one's owner.
class Ownership {
public:
    Ownership(const ParameterLayout& layout, int parts);

    [[nodiscard]] int parts() const { return parts_; }
    // Of weights and moments: at most two, ascending, none empty; a shard holds them one after another.
    [[nodiscard]] const std::vector<FlatRange>& ranges(int part) const { return ranges_[index(part)]; }
    [[nodiscard]] i64 shard_size(int part) const;
    // Place in the shard of a flat element that `part` owns.
    [[nodiscard]] i64 shard_offset(int part, i64 flat) const;
    // The same for gradients: at most three ranges.
    [[nodiscard]] const std::vector<FlatRange>& gradient_ranges(int part) const {
        return gradient_ranges_[index(part)];
    }
    [[nodiscard]] i64 gradient_shard_size(int part) const;
    // `range` cut where the owner changes, ascending, pieces of at most `limit` elements.
    [[nodiscard]] std::vector<OwnedPiece> pieces(FlatRange range, i64 limit) const;
    [[nodiscard]] std::vector<OwnedPiece> pieces(FlatRange range) const;
    [[nodiscard]] int owner(i64 element) const;

private:
    [[nodiscard]] std::size_t index(int part) const;
    void cut(const ParameterLayout& layout, FlatRange segment);
    int parts_;
    std::vector<OwnedPiece> space_;  // the whole gradient space, ascending
    std::vector<std::vector<FlatRange>> ranges_, gradient_ranges_;
};

// The elements of `range` that lie in `ranges` (ascending), ascending.
std::vector<FlatRange> intersect(const std::vector<FlatRange>& ranges, FlatRange range);
// `range` in pieces of at most `elements`, from the end: the first gradients that the backward pass finishes.
std::vector<FlatRange> make_pieces(FlatRange range, i64 elements);
i64 count_of(const std::vector<FlatRange>& ranges);

}  // namespace ogrom
