// Rank 0's view of a save: which rectangle of which tensor stands where in whose part. Checked to cover every logical
// element of every group exactly once before anything is written.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "src/io/checkpoint_layout.h"

namespace ogrom {

struct PlacedPiece {
    TensorPiece piece;  // source: element offset in the writer's dataset
    int writer = 0;
};

struct PlacedGroup {
    std::string name;
    std::vector<std::vector<PlacedPiece>> tensors;  // by tensor id
    std::map<int, i64> extents;                     // elements of each writer's dataset
};

// How a fault of a cover is told: "rows 2 to 4, columns 0 are <held> by no <holder>", "... by <holder> 3 and by
// <holder> 5" (PlacedPiece::writer).
struct CoverWords {
    const char *held, *holder;
};
// The first place of a tensor that pieces within it do not cover exactly once; empty when there is none.
std::string cover_fault(TensorExtent extent, const std::vector<PlacedPiece>& placed, const CoverWords& words);

class Placement {
public:
    // `table` must outlive it.
    explicit Placement(std::span<const Parameter> table) : table_(table) {}

    // Pieces of one writer in the order of its dataset. Error(checkpoint) for one that leaves its tensor.
    void add(int writer, const std::string& group, std::span<const TensorPiece> pieces);
    // Throws Error(checkpoint) that names group, tensor, rows, columns and ranks of what is missing or written twice.
    void require_whole() const;

    [[nodiscard]] std::span<const Parameter> table() const { return table_; }
    [[nodiscard]] const std::vector<PlacedGroup>& groups() const { return groups_; }
    // Per group at most 3 for each writer's range and 1 for each further tensor part that it holds.
    [[nodiscard]] i64 mappings() const;
    [[nodiscard]] i64 elements() const;
    [[nodiscard]] i64 writers() const;  // with at least one element

private:
    PlacedGroup& group(const std::string& name);
    std::span<const Parameter> table_;
    std::vector<PlacedGroup> groups_;
};

}  // namespace ogrom
