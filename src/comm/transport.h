// What carries the data of a mesh axis.
#pragma once
#include <string_view>

#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom {

enum class AxisTransport {
    host,    // MPI on host memory (comm/communicator_mpi)
    staged,  // device memory through page-locked host memory and MPI (comm/communicator_staged)
    nccl     // device memory through NCCL (comm/communicator_nccl)
};

constexpr std::string_view name_of(AxisTransport transport) {
    switch (transport) {
        case AxisTransport::host:
            return "MPI";
        case AxisTransport::staged:
            return "MPI through page-locked memory";
        case AxisTransport::nccl:
            return "NCCL";
    }
    return "?";
}

// Of every axis of a mesh.
struct AxisOptions {
    AxisTransport transport = AxisTransport::host;
    Stream compute{};                   // of the kernels: what "complete" refers to
    Stream communication{};             // staged: of its copies; NCCL makes one for each axis
    i64 staging_bytes = i64{32} << 20;  // staged: page-locked memory of one axis of more than one rank
};

}  // namespace ogrom
