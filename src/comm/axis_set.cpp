#include "src/comm/axis_set.h"

#include <fmt/format.h>

#include "kernels/common/error.h"

#include "src/comm/communicator_mpi_class.h"
#include "src/comm/communicator_nccl.h"
#include "src/comm/communicator_staged.h"

namespace ogrom {

AxisSet::AxisSet(Communicator& world, CollectiveCheck check, const AxisOptions& options)
    : world_(world), mpi_(dynamic_cast<MpiCommunicator*>(&world)), check_(check), options_(options) {}

AxisSet::~AxisSet() = default;

std::unique_ptr<Communicator> AxisSet::make(int colour, int key, const std::string& name, Channels channels) {
    if (options_.transport == AxisTransport::host) {
        return world_.split(colour, key, name, check_);
    }
    if (mpi_ == nullptr) {
        fail(ExitCode::usage, fmt::format("axis {}: {} needs ranks over MPI, which {} is not", name,
                                          name_of(options_.transport), world_.name()));
    }
    if (options_.transport == AxisTransport::staged) {
        return make_staged_communicator(*mpi_, colour, key, name, check_, options_);
    }
    auto [communicator, axis] = make_nccl_communicator(*mpi_, colour, key, name, check_, channels, options_);
    if (axis != nullptr) {
        unconnected_.push_back(std::move(axis));
    }
    return std::move(communicator);
}

void AxisSet::connect() {
    if (!unconnected_.empty()) {
        connect_nccl(*mpi_, unconnected_);
        unconnected_.clear();
    }
}

}  // namespace ogrom
