#include "src/comm/compare.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <vector>

#include "src/comm/operation.h"
#include "src/comm/wait.h"

namespace ogrom {
namespace {

struct Record {
    i64 sequence, bytes;
    char label[112];  // enough of it to tell two labels apart in a message
};

}  // namespace

void compare_collective(MPI_Comm comm, Control& control, std::string_view axis, const CollectiveIntent& intent) {
    Record mine{intent.sequence, intent.bytes, {}};
    std::memcpy(mine.label, intent.label.data(), std::min(intent.label.size(), sizeof(mine.label) - 1));
    int size = 0;
    OGROM_MPI(MPI_Comm_size(comm, &size));
    std::vector<Record> all(static_cast<std::size_t>(size));
    RequestList request;
    OGROM_MPI(
        MPI_Iallgather(&mine, sizeof(Record), MPI_BYTE, all.data(), sizeof(Record), MPI_BYTE, comm, request.add()));
    wait_until([&] { return request.test(); }, &control, [&] { return request.completed(); });
    for (std::size_t r = 1; r < all.size(); ++r) {
        if (std::memcmp(&all[0], &all[r], sizeof(Record)) != 0) {
            fail(ExitCode::peer, fmt::format("collectives differ on {}: rank 0 of it calls {}, rank {} calls {}", axis,
                                             describe_collective(all[0].sequence, all[0].label, axis, all[0].bytes), r,
                                             describe_collective(all[r].sequence, all[r].label, axis, all[r].bytes)));
        }
    }
}

}  // namespace ogrom
