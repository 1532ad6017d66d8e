// Comes in: the session (ranks of the job), [parallel] of the run file.
// Goes out: this rank's place on the axes pp, dp, cp, ep, tp and the communicator over dp.
// Next: train/trainer.cpp
#include "src/comm/mesh.h"

#include <fmt/format.h>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

namespace ogrom {

MeshPlace place_of(int rank, const MeshShape& shape) {
    MeshPlace place;
    if (fault_active("mesh_axes_swapped")) {
        place.dp = rank % shape.dp;
        place.tp = rank / shape.dp % shape.tp;
        return place;
    }
    place.tp = rank % shape.tp;
    rank /= shape.tp;
    place.ep = rank % shape.ep;
    rank /= shape.ep;
    place.cp = rank % shape.cp;
    rank /= shape.cp;
    place.dp = rank % shape.dp;
    place.pp = rank / shape.dp;
    return place;
}

int rank_of(const MeshPlace& place, const MeshShape& shape) {
    return (((place.pp * shape.dp + place.dp) * shape.cp + place.cp) * shape.ep + place.ep) * shape.tp + place.tp;
}

Mesh make_mesh(Session& session, const ParallelConfig& parallel) {
    struct Axis {
        const char* name;
        i64 extent;
    };
    const Axis axes[] = {{"pipeline", parallel.pipeline},
                         {"data", parallel.data},
                         {"context", parallel.context},
                         {"expert", parallel.expert},
                         {"tensor", parallel.tensor}};
    i64 ranks = 1;
    std::string equation;
    for (const Axis& axis : axes) {
        if (axis.extent < 1 || axis.extent > session.size() || ranks > session.size()) {
            fail(ExitCode::usage,
                 fmt::format("parallel.{} = {} does not fit {} ranks", axis.name, axis.extent, session.size()));
        }
        ranks *= axis.extent;
        equation += fmt::format("{}{} {}", equation.empty() ? "" : " x ", axis.name, axis.extent);
    }
    if (ranks != session.size()) {
        fail(ExitCode::usage, fmt::format("the mesh {} = {} ranks, but {} were started; start {} or change [parallel]",
                                          equation, ranks, session.size(), ranks));
    }
    Mesh mesh;
    mesh.shape = {static_cast<int>(parallel.pipeline), static_cast<int>(parallel.data),
                  static_cast<int>(parallel.context), static_cast<int>(parallel.expert),
                  static_cast<int>(parallel.tensor)};
    mesh.place = place_of(session.rank(), mesh.shape);
    MeshPlace origin = mesh.place;
    origin.dp = 0;  // ranks that differ in dp alone share a communicator, in dp order
    mesh.dp = session.split(rank_of(origin, mesh.shape), mesh.place.dp, "dp");
    return mesh;
}

}  // namespace ogrom
