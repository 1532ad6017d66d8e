#include "src/comm/compare.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <type_traits>
#include <vector>

#include "src/comm/wait.h"

namespace ogrom {
namespace {

struct Record {
    i64 kind, sequence, count, batches, type, root, op, order, bytes;
    char label[112];  // enough of it to tell two labels apart in a message
};
static_assert(std::has_unique_object_representations_v<Record>, "compared as bytes");

std::string describe(const Record& record, std::string_view axis) {
    std::string text = fmt::format(
        "{}: {} of {} {}", describe_collective(record.sequence, record.label, axis, record.bytes),
        name_of(static_cast<CollectiveKind>(record.kind)), record.count, name_of(static_cast<Dtype>(record.type)));
    if (record.batches != 1) {
        text += fmt::format(" x {}", record.batches);
    }
    if (record.root >= 0) {
        text += fmt::format(" with root {}", record.root);
    }
    const char* const ops[] = {"sum", "max", "min"};
    return text + fmt::format(" ({}{})", ops[record.op],
                              static_cast<ReduceOrder>(record.order) == ReduceOrder::fixed ? ", fixed order" : "");
}

}  // namespace

std::string_view name_of(CollectiveKind kind) {
    switch (kind) {
        case CollectiveKind::all_reduce:
            return "all_reduce";
        case CollectiveKind::reduce:
            return "reduce";
        case CollectiveKind::reduce_scatter:
            return "reduce_scatter";
        case CollectiveKind::reduce_scatter_batched:
            return "reduce_scatter_batched";
        case CollectiveKind::all_gather:
            return "all_gather";
        case CollectiveKind::all_gather_batched:
            return "all_gather_batched";
        case CollectiveKind::broadcast:
            return "broadcast";
        case CollectiveKind::barrier:
            return "barrier";
    }
    return "?";
}

void compare_collective(MPI_Comm comm, Control& control, std::string_view axis, const CollectiveIntent& intent,
                        const std::function<void()>& progress) {
    Record mine{static_cast<i64>(intent.kind),
                intent.sequence,
                intent.count,
                intent.batches,
                static_cast<i64>(intent.type),
                intent.root,
                static_cast<i64>(intent.op),
                static_cast<i64>(intent.order),
                intent.bytes,
                {}};
    std::memcpy(mine.label, intent.label.data(), std::min(intent.label.size(), sizeof(mine.label) - 1));
    int size = 0;
    OGROM_MPI(MPI_Comm_size(comm, &size));
    std::vector<Record> all(static_cast<std::size_t>(size));
    RequestList request;
    OGROM_MPI(
        MPI_Iallgather(&mine, sizeof(Record), MPI_BYTE, all.data(), sizeof(Record), MPI_BYTE, comm, request.add()));
    const auto arrived = [&] {
        progress();
        return request.test();
    };
    wait_until(arrived, &control, [&] { return request.completed(); });
    for (std::size_t r = 1; r < all.size(); ++r) {
        if (std::memcmp(&all[0], &all[r], sizeof(Record)) != 0) {
            fail(ExitCode::peer, fmt::format("collectives differ on {}: rank 0 of it calls {}, rank {} calls {}", axis,
                                             describe(all[0], axis), r, describe(all[r], axis)));
        }
    }
}

}  // namespace ogrom
