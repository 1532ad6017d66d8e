// Comes in: the ranks of the job or a part of them, [parallel] of the run file.
// Goes out: this rank's place on the axes pp, dp, cp, ep, tp and its communicators.
// Next: train/trainer.cpp
#include "src/comm/mesh.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <vector>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

#include "src/comm/axis_set.h"

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

MeshShape fitting_shape(const ParallelConfig& parallel, int size) {
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
        if (axis.extent < 1 || axis.extent > size || ranks > size) {
            fail(ExitCode::usage, fmt::format("parallel.{} = {} does not fit {} ranks", axis.name, axis.extent, size));
        }
        ranks *= axis.extent;
        equation += fmt::format("{}{} {}", equation.empty() ? "" : " x ", axis.name, axis.extent);
    }
    if (ranks != size) {
        fail(ExitCode::usage, fmt::format("the mesh {} = {} ranks, but {} were started; start {} or change [parallel]",
                                          equation, ranks, size, ranks));
    }
    return {static_cast<int>(parallel.pipeline), static_cast<int>(parallel.data), static_cast<int>(parallel.context),
            static_cast<int>(parallel.expert), static_cast<int>(parallel.tensor)};
}

namespace {

int fitting_zero_group(const ParallelConfig& parallel) {
    const i64 group = parallel.zero_group == 0 ? parallel.data : parallel.zero_group;
    if (group >= 1 && parallel.data % group == 0) {
        return static_cast<int>(group);
    }
    i64 nearest = 1;
    for (i64 divisor = 1; divisor <= parallel.data; ++divisor) {
        if (parallel.data % divisor == 0 && std::abs(divisor - group) < std::abs(nearest - group)) {
            nearest = divisor;
        }
    }
    fail(ExitCode::usage, fmt::format("parallel.zero_group = {} does not divide parallel.data = {}; nearest: {}", group,
                                      parallel.data, nearest));
}

// All ranks of `world` make the same axes in the same order.
class AxisMaker {
public:
    AxisMaker(Communicator& world, const MeshShape& shape, const MeshPlace& place, const MeshOptions& options)
        : axes_(world, options.check, options.axes), shape_(shape), place_(place), compute_(options.axes.compute) {}
    // Ranks with the same `origin`, the place of the axis' first rank, meet in the order of `key`.
    [[nodiscard]] std::unique_ptr<Communicator> make(const char* name, const MeshPlace& origin, int key, int extent,
                                                     Channels channels = Channels::none) {
        if (extent == 1) {
            return make_single_communicator(name, compute_);
        }
        return axes_.make(rank_of(origin, shape_), key, name, channels);
    }
    [[nodiscard]] std::unique_ptr<Communicator> pipeline(const char* name, Channels channels) {
        MeshPlace origin = place_;
        origin.pp = 0;
        return make(name, origin, place_.pp, shape_.pp, channels);
    }
    [[nodiscard]] std::unique_ptr<Communicator> ends() {
        if (shape_.pp == 1) {
            return nullptr;
        }
        MeshPlace origin = place_;
        origin.pp = 0;
        const bool end = place_.pp == 0 || place_.pp == shape_.pp - 1;
        return axes_.make(end ? rank_of(origin, shape_) : -1, place_.pp, "tie", Channels::none);
    }
    void connect() { axes_.connect(); }

private:
    AxisSet axes_;
    MeshShape shape_;
    MeshPlace place_;
    Stream compute_;
};

}  // namespace

Mesh make_mesh(Communicator& world, const ParallelConfig& parallel, const MeshOptions& options) {
    Mesh mesh;
    mesh.world = &world;
    mesh.shape = fitting_shape(parallel, world.size());
    mesh.place = place_of(world.rank(), mesh.shape);
    const int zero_group = fitting_zero_group(parallel), replicas = mesh.shape.dp / zero_group;
    const MeshPlace& place = mesh.place;
    AxisMaker axis(world, mesh.shape, place, options);
    const bool ring = parallel.virtual_stages > 1;  // the last stage's output goes on to the first stage's next chunk
    // Neighbours shard, so that the gathers of a step stay on few nodes.
    const bool strided = fault_active("shards_across_replicas");
    const int copy = strided ? place.dp % replicas : place.dp / zero_group;
    const int part = strided ? place.dp / replicas : place.dp % zero_group;
    MeshPlace tp = place, dp = place, shard = place, replica = place;
    tp.tp = 0;
    dp.dp = 0;
    shard.dp = strided ? copy : copy * zero_group;
    replica.dp = strided ? part * replicas : part;
    mesh.tp = axis.make("tp", tp, place.tp, mesh.shape.tp);
    mesh.dp = axis.make("dp", dp, place.dp, mesh.shape.dp);
    mesh.shard = axis.make("zero", shard, part, zero_group);
    mesh.replica = axis.make("replica", replica, copy, replicas);
    mesh.pp_forward = axis.pipeline("pp forward", ring ? Channels::up_ring : Channels::up);
    mesh.pp_backward = axis.pipeline("pp backward", ring ? Channels::down_ring : Channels::down);
    mesh.tie = axis.ends();
    axis.connect();
    return mesh;
}

Mesh make_mesh(Session& session, const ParallelConfig& parallel, const MeshOptions& options) {
    return make_mesh(session.world(), parallel, options);
}

i64 staging_bytes(const ParallelConfig& parallel, const MeshOptions& options) {
    if (options.axes.transport != AxisTransport::staged) {
        return 0;
    }
    const i64 group = parallel.zero_group == 0 ? parallel.data : parallel.zero_group;
    i64 axes = 0;
    for (const i64 extent : {parallel.tensor, parallel.data, group, parallel.data / std::max<i64>(1, group)}) {
        axes += extent > 1 ? 1 : 0;
    }
    axes += parallel.pipeline > 1 ? 3 : 0;  // both directions and the tie
    return axes * options.axes.staging_bytes;
}

namespace {

std::vector<const Communicator*> communicators_of(const Mesh& mesh) {
    std::vector<const Communicator*> all = {mesh.world};
    for (const auto* axis :
         {&mesh.tp, &mesh.dp, &mesh.shard, &mesh.replica, &mesh.pp_forward, &mesh.pp_backward, &mesh.tie}) {
        if (*axis) {
            all.push_back(axis->get());
        }
    }
    return all;
}

}  // namespace

std::map<std::string, i64, std::less<>> bytes_by_label(const Mesh& mesh) {
    std::map<std::string, i64, std::less<>> sum;
    for (const Communicator* communicator : communicators_of(mesh)) {
        for (const auto& [label, bytes] : communicator->bytes_by_label()) {
            sum[label] += bytes;
        }
    }
    return sum;
}

i64 bytes_sent(const Mesh& mesh) {
    i64 sum = 0;
    for (const Communicator* communicator : communicators_of(mesh)) {
        sum += communicator->bytes_sent();
    }
    return sum;
}

}  // namespace ogrom
