#include "src/io/checkpoint_placement.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <set>

#include "src/base/error.h"

namespace ogrom {

namespace {

constexpr std::size_t listed_faults = 20;

std::string range_text(i64 first, i64 last) {
    return last - first == 1 ? fmt::format("{}", first) : fmt::format("{} to {}", first, last - 1);
}

// `rows` are covered by the same pieces throughout: their columns must stand side by side in [0, cols).
std::string strip_fault(std::vector<const PlacedPiece*>& active, FlatRange rows, i64 cols, const CoverWords& words) {
    std::sort(active.begin(), active.end(),
              [](const PlacedPiece* a, const PlacedPiece* b) { return a->piece.col < b->piece.col; });
    const auto place = [&](i64 from, i64 to) {
        return fmt::format("rows {}, columns {} are {} by", range_text(rows.first, rows.last), range_text(from, to),
                           words.held);
    };
    const auto nobody = [&](i64 from, i64 to) { return fmt::format("{} no {}", place(from, to), words.holder); };
    i64 at = 0;
    int before = -1;
    for (const PlacedPiece* placed : active) {
        const i64 from = placed->piece.col, to = from + placed->piece.cols;
        if (from > at) {
            return nobody(at, from);
        }
        if (from < at) {
            return fmt::format("{} {} {} and by {} {}", place(from, std::min(at, to)), words.holder, before,
                               words.holder, placed->writer);
        }
        at = to;
        before = placed->writer;
    }
    return at < cols ? nobody(at, cols) : std::string();
}

}  // namespace

std::string cover_fault(TensorExtent extent, const std::vector<PlacedPiece>& placed, const CoverWords& words) {
    std::vector<const PlacedPiece*> by_row, active;
    std::set<i64> cuts = {0, extent.rows};
    for (const PlacedPiece& one : placed) {
        by_row.push_back(&one);
        cuts.insert(one.piece.row);
        cuts.insert(one.piece.row + one.piece.rows);
    }
    std::sort(by_row.begin(), by_row.end(),
              [](const PlacedPiece* a, const PlacedPiece* b) { return a->piece.row < b->piece.row; });
    std::size_t next = 0;
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
        std::erase_if(active, [&](const PlacedPiece* one) { return one->piece.row + one->piece.rows <= *cut; });
        for (; next < by_row.size() && by_row[next]->piece.row <= *cut; ++next) {
            active.push_back(by_row[next]);
        }
        if (const std::string fault = strip_fault(active, {*cut, *std::next(cut)}, extent.cols, words);
            !fault.empty()) {
            return fault;
        }
    }
    return {};
}

PlacedGroup& Placement::group(const std::string& name) {
    const auto found =
        std::find_if(groups_.begin(), groups_.end(), [&](const PlacedGroup& known) { return known.name == name; });
    if (found != groups_.end()) {
        return *found;
    }
    groups_.push_back({name, std::vector<std::vector<PlacedPiece>>(table_.size()), {}});
    return groups_.back();
}

void Placement::add(int writer, const std::string& name, std::span<const TensorPiece> pieces) {
    PlacedGroup& into = group(name);
    for (TensorPiece piece : pieces) {
        require(piece.tensor >= 0 && piece.tensor < static_cast<i64>(table_.size()), ExitCode::checkpoint,
                fmt::format("rank {}: /{}: there is no tensor {}", writer, name, piece.tensor));
        const Parameter& row = table_[static_cast<std::size_t>(piece.tensor)];
        const TensorExtent whole = extent_of(row);
        const bool inside = piece.rows > 0 && piece.cols > 0 && piece.row >= 0 && piece.col >= 0 &&
                            piece.rows <= whole.rows - piece.row && piece.cols <= whole.cols - piece.col;
        if (!inside) {
            fail(ExitCode::checkpoint,
                 fmt::format("rank {}: /{}/{}: rows {} from {} and columns {} from {} leave the tensor of {} x {}",
                             writer, name, row.name, piece.rows, piece.row, piece.cols, piece.col, whole.rows,
                             whole.cols));
        }
        piece.source = into.extents[writer];
        into.extents[writer] += piece.count();
        into.tensors[static_cast<std::size_t>(piece.tensor)].push_back({piece, writer});
    }
}

void Placement::require_whole() const {
    std::vector<std::string> faults;
    for (const PlacedGroup& placed : groups_) {
        for (std::size_t id = 0; id < table_.size(); ++id) {
            const Parameter& row = table_[id];
            std::string fault;
            if (row.tie.empty()) {
                fault = cover_fault(extent_of(row), placed.tensors[id], {"written", "rank"});
            } else if (!placed.tensors[id].empty()) {
                fault = fmt::format("is a copy of {} and is written by rank {}", row.tie,
                                    placed.tensors[id].front().writer);
            }
            if (!fault.empty()) {
                faults.push_back(fmt::format("/{}/{}: {}", placed.name, row.name, fault));
            }
        }
    }
    if (faults.empty()) {
        return;
    }
    std::string message = fmt::format(
        "the ranks do not write every element exactly once ({} tensors); nothing was saved:", faults.size());
    for (std::size_t i = 0; i < faults.size() && i < listed_faults; ++i) {
        message += "\n  " + faults[i];
    }
    fail(ExitCode::checkpoint, message);
}

i64 Placement::mappings() const {
    i64 count = 0;
    for (const PlacedGroup& placed : groups_) {
        for (const auto& tensor : placed.tensors) {
            count += static_cast<i64>(tensor.size());
        }
    }
    return count;
}

i64 Placement::elements() const {
    i64 count = 0;
    for (const PlacedGroup& placed : groups_) {
        for (const auto& [writer, extent] : placed.extents) {
            count += extent;
        }
    }
    return count;
}

i64 Placement::writers() const {
    std::set<int> all;
    for (const PlacedGroup& placed : groups_) {
        for (const auto& [writer, extent] : placed.extents) {
            all.insert(writer);
        }
    }
    return static_cast<i64>(all.size());
}

}  // namespace ogrom
