// Collectives and messages on host memory over MPI. `any` order uses what is fastest, `fixed` order always our own
// exchange (comm/operation), and so do all sums of bf16 and fp16, which MPI does not know: in float by the owner, in
// rank order, rounded once. Calls above chunk_bytes are cut, the same number of calls on every rank.
#pragma once
#include <memory>
#include <string>

#include "src/comm/communicator.h"
#include "src/comm/control.h"
#include "src/comm/mpi_check.h"

namespace ogrom {

class CommEngine;

// Whether calls stand in the flight record; off: those of a communicator inside another one, which records its own.
enum class Recording { on, off };

struct MpiCommunicatorOptions {
    std::shared_ptr<Control> control;
    std::shared_ptr<CommEngine> engine;  // shared by all communicators of a session; null = one of its own
    i64 chunk_bytes = i64{1} << 30;
    CollectiveCheck check = CollectiveCheck::off;
    Recording recording = Recording::on;
};

// Takes `comm` over and frees it.
std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm comm, const std::string& name,
                                                    const MpiCommunicatorOptions& options);

}  // namespace ogrom
