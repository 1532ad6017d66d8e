// Memory shared by the ranks of one node, without a name once all have attached: nothing is left behind by kill -9.
#pragma once
#include <utility>

#include "kernels/common/extents.h"

#include "src/comm/mpi_check.h"

namespace ogrom {

class NodeMemory {
public:
    NodeMemory() = default;
    // Collective over `node`, at start-up: `bytes` zero bytes. Throws Error(peer) on every rank when one cannot attach.
    NodeMemory(MPI_Comm node, i64 bytes);
    NodeMemory(NodeMemory&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    NodeMemory(const NodeMemory&) = delete;
    NodeMemory& operator=(const NodeMemory&) = delete;
    NodeMemory& operator=(NodeMemory&&) = delete;
    ~NodeMemory();
    // The same for a process alone.
    static NodeMemory alone(i64 bytes);
    [[nodiscard]] void* data() const { return data_; }

private:
    void* data_ = nullptr;
    i64 bytes_ = 0;
};

}  // namespace ogrom
