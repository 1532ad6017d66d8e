// A communicator over a slower link, for the overlap benchmarks and field case B08: each operation with data completes
// only some time after its data has moved. The delay lies under the interface and takes no core: it counts from the
// moment at which the inner operation was seen complete, and delays of one communicator are served one after the other,
// as on a link. Seen = by test(), wait() or progress(); so the caller of progress() sets how exactly.
#pragma once
#include <memory>
#include <string>

#include "src/comm/communicator.h"

namespace ogrom {

struct DelaySpec {
    double seconds = 0;           // of each operation
    double seconds_per_byte = 0;  // of its payload: count e; size count e where every rank has a part (e = element)
    std::string only = {};        // operations of this label alone; empty: all
};

// Not delayed: barriers, empty operations, a communicator of one rank (nothing moves), and what split() makes.
std::unique_ptr<Communicator> make_delayed_communicator(std::unique_ptr<Communicator> inner, const DelaySpec& delay);

}  // namespace ogrom
