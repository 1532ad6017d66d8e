// Makes the axes of a mesh over one transport.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/comm/communicator.h"
#include "src/comm/transport.h"

namespace ogrom {

class MpiCommunicator;
class NcclAxis;

// Between which ranks of an axis messages travel: NCCL needs a channel for each pair and direction, made at the start.
enum class Channels {
    none,
    up,         // from each rank to the next
    up_ring,    // and from the last to the first
    down,       // from each rank to the one before
    down_ring,  // and from the first to the last
};

// All ranks of `world` make the same axes in the same order.
class AxisSet {
public:
    // Transports of device memory need a `world` over MPI: Error(usage) with another one.
    AxisSet(Communicator& world, CollectiveCheck check, const AxisOptions& options);
    ~AxisSet();
    AxisSet(const AxisSet&) = delete;
    AxisSet& operator=(const AxisSet&) = delete;

    // As Communicator::split; more than one rank.
    std::unique_ptr<Communicator> make(int colour, int key, const std::string& name, Channels channels);
    // NCCL: connects all axes made so far, at the same time. Before it they carry nothing.
    void connect();

private:
    Communicator& world_;
    MpiCommunicator* mpi_ = nullptr;
    CollectiveCheck check_;
    AxisOptions options_;
    std::vector<std::shared_ptr<NcclAxis>> unconnected_;
};

}  // namespace ogrom
