// Pure arithmetic of a checkpoint: which rectangles of which logical tensors a flat range of a rank's layout is.
#pragma once
#include <span>
#include <vector>

#include "src/model/parameters.h"

namespace ogrom {

// Extents of a logical tensor as rows and columns; one dimension is [n, 1].
struct TensorExtent {
    i64 rows = 0, cols = 1;
    [[nodiscard]] i64 count() const { return rows * cols; }
};
TensorExtent extent_of(const Parameter& tensor);

// A rectangle of a logical tensor and where its elements are, row-major without gaps.
struct TensorPiece {
    i64 tensor = 0;                            // id: place in the table
    i64 row = 0, col = 0, rows = 0, cols = 0;  // of the logical tensor
    i64 source = 0;                            // element offset from the start of the range (or of a part's dataset)
    [[nodiscard]] i64 count() const { return rows * cols; }
    bool operator==(const TensorPiece&) const = default;
};

enum class Copies {
    once,  // what is saved: tied copies never, tensors that tensor ranks replicate on tensor rank 0 alone
    all    // what is loaded: everything the range holds; a tied copy is a piece of the tensor that it copies
};

// The range of this rank's flat buffer, in its order, padding left out. At most three pieces for each tensor that it
// touches: the rest of a row, whole rows, the beginning of a row (of the columns that this rank holds, where tensor
// ranks split columns).
std::vector<TensorPiece> pieces(const ParameterLayout& layout, FlatRange range, Copies copies = Copies::once);

// Id of the tensor under whose name the values of `row` are stored: its own, or that of the tensor it is a copy of.
i64 stored_tensor(std::span<const Parameter> table, const Parameter& row);

// Range of writer w of n: [total w / n, total (w + 1) / n); ranges differ by at most one element and may be empty.
FlatRange writer_range(i64 total, int writer, int writers);

// Elements [first, last) of a row-major tensor of `cols` columns as at most three rectangles; `source` from `first`.
std::vector<TensorPiece> row_blocks(i64 cols, i64 first, i64 last);

// What of `range` no range of `taken` covers, ascending.
std::vector<FlatRange> remainder(FlatRange range, std::vector<FlatRange> taken);

}  // namespace ogrom
