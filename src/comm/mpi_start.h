// How a process gets into MPI: launch facts checked, thread level requested, errors returned; and which ranks share a
// node. Used by comm/session alone.
#pragma once
#include "kernels/common/extents.h"

#include "src/comm/mpi_check.h"

namespace ogrom {

// Error(usage) where the launcher announced another world than MPI has (B40), or where MPI lacks the thread level.
void start_mpi();
// Ranks that share memory and see each other's process ids.
MPI_Comm split_node(int rank);
// Cores that any of the ranks may use.
i64 count_node_cores(MPI_Comm node, int ranks);
// Test hook: OGROM_TEST_NODE_SPLIT=2 makes two nodes of this one, so that the links between nodes run on one machine.
int pretended_nodes();

}  // namespace ogrom
