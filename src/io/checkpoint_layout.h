// Pure arithmetic of a checkpoint: the flat logical index space (tensors one after another in table order, padding and
// tied copies left out), its even split over writers, and how a flat range lies in a row-major tensor.
#pragma once
#include <string>
#include <vector>

#include "src/model/parameters.h"

namespace ogrom {

struct LogicalTensor {
    std::string name;
    i64 id = 0;
    std::vector<i64> shape;  // logical
    i64 first = 0;           // logical flat index of its first element
    i64 count = 0;
    i64 local = 0;   // element offset in the rank's flat buffer; its logical elements are the first `count` there
    i64 stored = 0;  // elements of its storage: count and padding
};
std::vector<LogicalTensor> logical_tensors(const ParameterLayout& layout);
i64 logical_count(const std::vector<LogicalTensor>& tensors);

struct FlatRange {
    i64 first = 0, last = 0;
    [[nodiscard]] i64 count() const { return last - first; }
};
// Range of writer w of n: [total w / n, total (w + 1) / n); ranges differ by at most one element and may be empty.
FlatRange writer_range(i64 total, int writer, int writers);

// The part of a tensor that falls into a range.
struct Overlap {
    i64 tensor = 0;           // index in the list
    i64 first = 0, last = 0;  // elements of the tensor
    i64 source = 0;           // element offset from the start of the range
};
std::vector<Overlap> overlaps(const std::vector<LogicalTensor>& tensors, FlatRange range);

// Elements [first, last) of a row-major [rows, cols] tensor as at most three blocks: the rest of a row, whole rows, the
// beginning of a row.
struct TensorBlock {
    i64 row = 0, col = 0, rows = 0, cols = 0;
    i64 source = 0;  // element offset from `first`
};
std::vector<TensorBlock> row_blocks(i64 cols, i64 first, i64 last);

}  // namespace ogrom
