// Ranks of a mesh without MPI: each has its layout, the state it holds under a ZeRO stage, and what it writes. Values
// name their place in the logical tensor, so that any mixture of layouts can be compared element by element.
#pragma once
#include <string>
#include <vector>

#include "src/io/checkpoint.h"
#include "src/io/checkpoint_write.h"

namespace ogrom::test {

struct MeshCase {
    int pp = 1, dp = 1, tp = 1;
    int zero = 0;
    int group = 0;   // ranks of dp that shard; 0 = all
    int chunks = 1;  // virtual stages
    [[nodiscard]] int size() const { return pp * dp * tp; }
    [[nodiscard]] std::string text() const;
};

ModelConfig odd_model(bool tied = true);  // hidden 60, vocabulary 509 in 512 rows, 3 layers

// Element (row, col) of tensor `id`: exact in fp32 for odd_model.
double value_of(const Parameter& tensor, i64 row, i64 col);

template <class T>
class MeshRank {
public:
    MeshRank(const ParameterTable& table, const ModelConfig& model, const MeshCase& mesh, int rank);
    void fill();    // as after a step: padding and copies hold values that must never be saved
    void poison();  // NaN everywhere
    // Elements that differ from what a load must give: value, padding 0, copies as their source; NaN counts.
    [[nodiscard]] i64 wrong() const { return wrong(Groups::all); }
    [[nodiscard]] i64 elements() const;  // held, padding left out, over all groups
    enum class Groups { all, weights };
    [[nodiscard]] i64 wrong(Groups groups) const;
    [[nodiscard]] u64 hash() const;  // of the weights that this rank writes
    [[nodiscard]] std::span<const StateGroup<T>> held() const { return held_; }
    [[nodiscard]] std::vector<StateGroup<const T>> writes() const;

    const ParameterLayout layout;

private:
    template <class Visit>
    void visit(Visit&& visit) const;
    std::vector<FlatRange> own_;
    bool first_replica_ = true;
    std::vector<std::vector<T>> memory_;  // of each held range
    std::vector<StateGroup<T>> held_;
};

// A checkpoint of odd_model at step 5 by all ranks of `mesh`, without a communicator; its folder.
template <class T>
std::string save_mesh(const std::string& directory, const MeshCase& mesh, bool tied = true);

}  // namespace ogrom::test
