// Debug mode OGROM_CHECK_COLLECTIVES=1: before each collective the ranks of the communicator exchange what they are
// about to do, and the first difference is reported by rank and label instead of as a hang or a wrong number.
#pragma once
#include <string>
#include <string_view>

#include "src/comm/control.h"
#include "src/comm/mpi_check.h"

namespace ogrom {

struct CollectiveIntent {
    i64 sequence = 0, bytes = 0;
    std::string label;
};

// Throws Error(peer) on every rank when sequence, label or bytes differ.
void compare_collective(MPI_Comm comm, Control& control, std::string_view axis, const CollectiveIntent& intent);

}  // namespace ogrom
