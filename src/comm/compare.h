// Debug mode (CollectiveCheck::compare): before each collective the ranks of the communicator exchange what they are
// about to do, and the first difference is reported by rank and label instead of as a hang or a wrong number. Messages
// carry the same facts in front of them, always (comm/message); the mode adds their labels to what is compared.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "src/comm/control.h"
#include "src/comm/mpi_check.h"
#include "src/comm/operation.h"

namespace ogrom {

enum class CollectiveKind {
    all_reduce,
    reduce,
    reduce_scatter,
    reduce_scatter_batched,
    all_gather,
    all_gather_batched,
    broadcast,
    barrier
};
std::string_view name_of(CollectiveKind kind);

struct CollectiveIntent {
    CollectiveKind kind = CollectiveKind::barrier;
    i64 sequence = 0;  // of the collectives of this communicator, from 1
    i64 count = 0, batches = 1;
    Dtype type = Dtype::i32;
    int root = -1;  // -1 = none
    ReduceOp op = ReduceOp::sum;
    ReduceOrder order = ReduceOrder::any;
    i64 bytes = 0;  // payload
    std::string_view label;
};

// Throws Error(peer) on every rank when any of it differs. `progress` moves what is under way elsewhere meanwhile.
void compare_collective(MPI_Comm comm, Control& control, std::string_view axis, const CollectiveIntent& intent,
                        const std::function<void()>& progress);

}  // namespace ogrom
