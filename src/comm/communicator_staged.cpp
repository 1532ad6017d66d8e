#include "src/comm/communicator_staged.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "kernels/common/fault.h"

#include "src/comm/staged_core.h"
#include "src/comm/transfer.h"
#include "src/device/buffer.h"

namespace ogrom {
namespace {

using Kind = CollectiveKind;

// Cuts a call into pieces and says for each what goes in, what MPI does and what comes out. In the room of a piece lie,
// each from an aligned address: what goes in, what comes out (where it is not in place), the scratch of sums.
class PieceMaker {
public:
    PieceMaker(StagedCore& core, const DeviceCall& call, int rank, int size)
        : core_(core), carrier_(core.carrier()), stream_(core.communication()), call_(call), rank_(rank), size_(size) {
        bytes_ = size_of(call.what.type);
        // Sums of 16-bit types are made in rank order anyway: their room is here rather than taken by each call.
        sums_ =
            call.what.order == ReduceOrder::fixed || !mpi_adds(call.what.type) ? ReduceOrder::fixed : ReduceOrder::any;
    }

    std::vector<StagedPiece> pieces() {
        if (call_.what.kind == Kind::barrier) {
            return {barrier()};
        }
        const i64 slack = 3 * StagingRoom::alignment + size_ * bytes_;  // alignment; the last owner's share
        const i64 limit = (core_.piece_bytes() - slack) / (times() * bytes_);
        std::vector<StagedPiece> made;
        in_pieces(call_.what.count, call_.what.batches, limit,
                  [&](const Piece& piece) { made.push_back(this->piece(piece)); });
        return made;
    }

private:
    [[nodiscard]] bool ordered() const { return sums_ == ReduceOrder::fixed; }
    // Room of one element of `count x batches`, in elements.
    [[nodiscard]] i64 times() const {
        switch (call_.what.kind) {
            case Kind::all_reduce:
                return ordered() ? 2 : 1;
            case Kind::reduce:
                return ordered() ? size_ : 1;
            case Kind::reduce_scatter:
            case Kind::reduce_scatter_batched:
                return ordered() ? 2 * size_ + 1 : size_ + 1;
            case Kind::all_gather:
                return size_;
            case Kind::all_gather_batched:
                return size_ + 1;
            case Kind::broadcast:
            case Kind::barrier:
                break;
        }
        return 1;
    }
    [[nodiscard]] StagedPiece piece(const Piece& piece) {
        switch (call_.what.kind) {
            case Kind::all_reduce:
                return all_reduce(piece);
            case Kind::reduce:
                return reduce(piece);
            case Kind::reduce_scatter:
            case Kind::reduce_scatter_batched:
                return reduce_scatter(piece);
            case Kind::all_gather:
            case Kind::all_gather_batched:
                return all_gather(piece);
            case Kind::broadcast:
                return broadcast(piece);
            case Kind::barrier:
                break;
        }
        return barrier();
    }

    [[nodiscard]] i64 aligned(i64 elements) const { return round_up(elements * bytes_, StagingRoom::alignment); }
    [[nodiscard]] char* out(i64 element) const { return static_cast<char*>(call_.out) + element * bytes_; }
    [[nodiscard]] const char* in(i64 element) const { return static_cast<const char*>(call_.in) + element * bytes_; }
    // `rows` of `count` elements between device memory, `stride` elements apart, and the room, where they are dense.
    void bring(std::byte* room, const char* from, i64 rows, i64 count, i64 stride) const {
        if (count == stride) {
            return copy_bytes(stream_, room, from, rows * count * bytes_);
        }
        for (i64 row = 0; row < rows; ++row) {
            copy_bytes(stream_, room + row * count * bytes_, from + row * stride * bytes_, count * bytes_);
        }
    }
    void take(char* to, const std::byte* room, i64 rows, i64 count, i64 stride) const {
        if (count == stride) {
            return copy_bytes(stream_, to, room, rows * count * bytes_);
        }
        for (i64 row = 0; row < rows; ++row) {
            copy_bytes(stream_, to + row * stride * bytes_, room + row * count * bytes_, count * bytes_);
        }
    }

    StagedPiece barrier() const {
        return {.bytes = 0,
                .bring = [](std::byte*) {},  // follows what compute did before
                .move = [&carrier = carrier_, label = call_.label](std::byte*) { return carrier.barrier(label); }};
    }

    StagedPiece all_reduce(const Piece& piece) const {
        const i64 data = aligned(piece.count), sums = ordered() ? fixed_order_scratch(piece.count, size_) : 0;
        return {
            .bytes = data + aligned(sums),
            .bring = [*this, piece](std::byte* room) { bring(room, out(piece.first), 1, piece.count, piece.count); },
            .move =
                [*this, piece, data](std::byte* room) {
                    return carrier_.all_reduce(room, piece.count, call_.what.type, call_.what.op, sums_, room + data,
                                               call_.label);
                },
            .take = [*this, piece](std::byte* room) { take(out(piece.first), room, 1, piece.count, piece.count); }};
    }

    StagedPiece reduce(const Piece& piece) const {
        const i64 data = aligned(piece.count), sums = ordered() ? reduce_scratch(piece.count, size_) : 0;
        StagedPiece made{
            .bytes = data + aligned(sums),
            .bring = [*this, piece](std::byte* room) { bring(room, out(piece.first), 1, piece.count, piece.count); },
            .move =
                [*this, piece, data](std::byte* room) {
                    return carrier_.reduce(room, piece.count, call_.what.type, call_.what.root, sums_, room + data,
                                           call_.label);
                }};
        if (rank_ == call_.what.root) {
            made.take = [*this, piece](std::byte* room) { take(out(piece.first), room, 1, piece.count, piece.count); };
        }
        return made;
    }

    StagedPiece broadcast(const Piece& piece) const {
        StagedPiece made{.bytes = aligned(piece.count), .move = [*this, piece](std::byte* room) {
                             return carrier_.broadcast(room, piece.count, call_.what.type, call_.what.root,
                                                       call_.label);
                         }};
        if (rank_ == call_.what.root) {
            made.bring = [*this, piece](std::byte* room) {
                bring(room, out(piece.first), 1, piece.count, piece.count);
            };
        } else {
            made.take = [*this, piece](std::byte* room) { take(out(piece.first), room, 1, piece.count, piece.count); };
        }
        return made;
    }

    // Rows [batch, batch + batches) of every rank's part, elements [first, first + count) of each row; a part of a row
    // comes alone (in_pieces), so the rows of all ranks are either dense or lie `call.count` apart.
    StagedPiece reduce_scatter(const Piece& piece) const {
        const i64 count = call_.what.count, own = piece.batches * piece.count;
        const i64 in_bytes = aligned(own * size_), out_bytes = aligned(own);
        const i64 sums = ordered() ? own * size_ : 0;
        return {.bytes = in_bytes + out_bytes + aligned(sums),
                .bring =
                    [*this, piece, count](std::byte* room) {
                        bring(room, in(piece.batch * size_ * count + piece.first), piece.batches * size_, piece.count,
                              count);
                    },
                .move =
                    [*this, piece, in_bytes, out_bytes](std::byte* room) {
                        std::byte* const result = room + in_bytes;
                        return carrier_.reduce_scatter_batched(result, room, piece.count, piece.batches,
                                                               call_.what.type, sums_, result + out_bytes, call_.label);
                    },
                .take =
                    [*this, piece, in_bytes, count](std::byte* room) {
                        take(out(piece.batch * count + piece.first), room + in_bytes, piece.batches, piece.count,
                             count);
                    }};
    }

    StagedPiece all_gather(const Piece& piece) const {
        const i64 count = call_.what.count, own = piece.batches * piece.count;
        const bool batched = call_.what.kind == Kind::all_gather_batched;
        // Not batched: the own part goes to its place at once, and stays there on the device where it came from there.
        const i64 in_bytes = batched ? aligned(own) : 0;
        const bool in_place = !batched && call_.in == out(rank_ * count);
        const i64 own_place = batched ? 0 : rank_ * own * bytes_;
        return {
            .bytes = in_bytes + aligned(own * size_),
            .bring =
                [*this, piece, count, own_place](std::byte* room) {
                    bring(room + own_place, in(piece.batch * count + piece.first), piece.batches, piece.count, count);
                },
            .move =
                [*this, piece, batched, in_bytes, own_place](std::byte* room) {
                    return batched
                               ? carrier_.all_gather_batched(room + in_bytes, room, piece.count, piece.batches,
                                                             call_.what.type, call_.label)
                               : carrier_.all_gather(room, room + own_place, piece.count, call_.what.type, call_.label);
                },
            .take =
                [*this, piece, in_bytes, in_place, count](std::byte* room) {
                    const std::byte* const from = room + in_bytes;
                    if (!in_place) {
                        return take(out(piece.batch * size_ * count + piece.first), from, piece.batches * size_,
                                    piece.count, count);
                    }
                    const i64 others[2][2] = {{0, rank_}, {rank_ + 1, size_}};
                    for (const auto& [begin, end] : others) {
                        take(out(begin * count + piece.first), from + begin * piece.count * bytes_, end - begin,
                             piece.count, count);
                    }
                }};
    }

    StagedCore& core_;
    MpiCommunicator& carrier_;
    Stream stream_;
    DeviceCall call_;
    int rank_, size_;
    i64 bytes_ = 0;
    ReduceOrder sums_ = ReduceOrder::any;
};

class StagedCommunicator final : public DeviceCommunicator {
public:
    StagedCommunicator(std::unique_ptr<MpiCommunicator> host, Stream compute, std::shared_ptr<StagedCore> core)
        : DeviceCommunicator(std::move(host), compute), core_(std::move(core)) {}

private:
    Pending start(const DeviceCall& call) override {
        std::vector<StagedPiece> pieces = PieceMaker(*core_, call, rank(), size()).pieces();
        if (fault_active("staged_last_piece_kept") && pieces.size() > 1) {
            pieces.back().take = {};
        }
        return core_->collective(call.ticket, std::move(pieces));
    }
    Pending start_send(const DeviceMessage& message) override {
        return core_->message(message, StagedCore::Direction::send);
    }
    Pending start_receive(const DeviceMessage& message) override {
        return core_->message(message, StagedCore::Direction::receive);
    }
    std::shared_ptr<StagedCore> core_;
};

}  // namespace

i64 least_staging(int size) {
    constexpr i64 widest = 8;
    const i64 piece = 3 * StagingRoom::alignment + size * widest + (2 * size + 1) * widest;
    return 4 * round_up(piece, StagingRoom::alignment);  // half of the staging holds two pieces
}

std::unique_ptr<Communicator> make_staged_communicator(MpiCommunicator& world, int colour, int key,
                                                       const std::string& name, CollectiveCheck check,
                                                       const AxisOptions& axes) {
    MpiCommunicatorOptions options = world.options();
    options.check = check == CollectiveCheck::compare ? check : options.check;
    MpiCommunicatorOptions carrying = options;
    carrying.check = CollectiveCheck::off;  // the whole call is compared, not its pieces
    carrying.recording = Recording::off;
    carrying.chunk_bytes = MpiCommunicatorOptions{}.chunk_bytes;  // pieces are cut already
    auto host = world.split_as(colour, key, name, options);
    auto carrier = world.split_as(colour, key, name, carrying), signals = world.split_as(colour, key, name, carrying);
    if (host == nullptr) {
        return nullptr;
    }
    OGROM_ASSERT(host->size() > 1);
    if (axes.staging_bytes < least_staging(host->size())) {
        fail(ExitCode::memory, fmt::format("axis {}: {} bytes of staging memory; at least {} for {} ranks", name,
                                           axes.staging_bytes, least_staging(host->size()), host->size()));
    }
    auto core = std::make_shared<StagedCore>(
        StagedCore::Parts{.carrier = std::move(carrier),
                          .signals = std::move(signals),
                          .engine = options.engine,
                          .compute = axes.compute,
                          .communication = axes.communication,
                          .staging_bytes = axes.staging_bytes,
                          .axis = name,
                          .labels = options.check == CollectiveCheck::compare ? LabelCheck::compare : LabelCheck::off});
    return std::make_unique<StagedCommunicator>(std::move(host), axes.compute, std::move(core));
}

}  // namespace ogrom
