// Collectives on host memory over MPI. `any` order uses MPI's non-blocking collectives, `fixed` order our own exchange
// (comm/operation). Calls above chunk_bytes are cut, the same number of calls on every rank.
#pragma once
#include <memory>
#include <string>

#include "src/comm/communicator.h"
#include "src/comm/control.h"
#include "src/comm/mpi_check.h"

namespace ogrom {

enum class CollectiveCheck { off, compare };  // compare: ranks agree on sequence, label and bytes before each call

struct MpiCommunicatorOptions {
    std::shared_ptr<Control> control;
    i64 chunk_bytes = i64{1} << 30;
    CollectiveCheck check = CollectiveCheck::off;
};

// Takes `comm` over and frees it.
std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm comm, const std::string& name,
                                                    const MpiCommunicatorOptions& options);

}  // namespace ogrom
