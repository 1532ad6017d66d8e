// The mesh of ranks: axes pp, dp, cp, ep, tp, tp fastest. rank = (((pp * DP + dp) * CP + cp) * EP + ep) * TP + tp.
// Passed explicitly; there is no ambient parallel state.
#pragma once
#include <memory>
#include <string>

#include "src/comm/session.h"
#include "src/config/run.h"

namespace ogrom {

struct MeshShape {
    int pp = 1, dp = 1, cp = 1, ep = 1, tp = 1;
    [[nodiscard]] int size() const { return pp * dp * cp * ep * tp; }
};
struct MeshPlace {
    int pp = 0, dp = 0, cp = 0, ep = 0, tp = 0;
};
MeshPlace place_of(int rank, const MeshShape& shape);
int rank_of(const MeshPlace& place, const MeshShape& shape);

struct Mesh {
    MeshShape shape;
    MeshPlace place;
    std::unique_ptr<Communicator> dp;  // the ranks that hold the same parameters and different data
};
Mesh make_mesh(Session& session, const ParallelConfig& parallel);

}  // namespace ogrom
