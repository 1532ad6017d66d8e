// The mesh of ranks: axes pp, dp, cp, ep, tp, tp fastest. rank = (((pp * DP + dp) * CP + cp) * EP + ep) * TP + tp.
// Passed explicitly; there is no ambient parallel state.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "src/comm/session.h"
#include "src/comm/transport.h"
#include "src/config/run.h"

namespace ogrom {

struct MeshShape {
    int pp = 1, dp = 1, cp = 1, ep = 1, tp = 1;
    [[nodiscard]] int size() const { return pp * dp * cp * ep * tp; }
};
struct MeshPlace {
    int pp = 0, dp = 0, cp = 0, ep = 0, tp = 0;
};
// The axes of a resolved run over `size` ranks. Throws Error(usage) that names what does not fit.
MeshShape fitting_shape(const ParallelConfig& parallel, int size);
MeshPlace place_of(int rank, const MeshShape& shape);
int rank_of(const MeshPlace& place, const MeshShape& shape);

struct MeshOptions {
    CollectiveCheck check = CollectiveCheck::off;  // of every axis (comm.check_collectives)
    AxisOptions axes{};                            // what carries them; `world` stays as it is: host memory
};

// This rank's communicators. Axes of extent 1 need no MPI. Ranks within each are in the order of its axis.
struct Mesh {
    Communicator* world = nullptr;  // what the mesh was made over; outlives it
    MeshShape shape;
    MeshPlace place;
    std::unique_ptr<Communicator> tp;     // "tp": parts of the same layers on the same data
    std::unique_ptr<Communicator> dp;     // "dp": the same parameters, different data
    std::unique_ptr<Communicator> shard;  // "zero": zero_group neighbours of dp that own parts of one copy
    std::unique_ptr<Communicator>
        replica;  // "replica": the ranks of dp that own the same part, one of each shard group
    // One channel per direction between the stages of one pipeline; rank = stage.
    std::unique_ptr<Communicator> pp_forward;   // "pp forward"
    std::unique_ptr<Communicator> pp_backward;  // "pp backward"
    // "tie": rank 0 = first stage, rank 1 = last; null on the stages between and without a pipeline.
    std::unique_ptr<Communicator> tie;
};

// Collective over `world`, whose size is the product of the axes. parallel.zero_group divides data; 0 = all of it.
// Throws Error(usage) that names what does not fit.
Mesh make_mesh(Communicator& world, const ParallelConfig& parallel, const MeshOptions& options = {});
Mesh make_mesh(Session& session, const ParallelConfig& parallel, const MeshOptions& options = {});  // all ranks

// Page-locked memory that make_mesh takes on each rank for the staged transport: options.axes.staging_bytes for each
// axis of more than one rank; 0 for the other transports. At least that many axes exist on every rank (the tie between
// first and last stage counts everywhere).
i64 staging_bytes(const ParallelConfig& parallel, const MeshOptions& options);

// What this rank has sent over all axes and the world since the start, in all and by label.
i64 bytes_sent(const Mesh& mesh);
std::map<std::string, i64, std::less<>> bytes_by_label(const Mesh& mesh);

}  // namespace ogrom
