#include "kernels/common/fault.h"

#include "src/comm/communicator_mpi_class.h"
#include "src/comm/transfer.h"

namespace ogrom {

Pending MpiCommunicator::reduce_scatter(void* out, const void* in, i64 count, Dtype type, ReduceOrder order,
                                        void* scratch, std::string_view label) {
    const i64 ticket =
        begin({.kind = CollectiveKind::reduce_scatter, .count = count, .type = type, .order = order, .label = label},
              count * size_, sent::to_all_others(count, size_));
    if (size_ == 1 || count == 0) {
        copy_own(out, in, count * size_of(type));
        return finish_now(ticket);
    }
    if (order == ReduceOrder::fixed || !mpi_adds(type)) {
        return start(ticket,
                     fixed_reduce_scatter(reduction(type, ReduceOp::sum, order, scratch, label), out, in, count));
    }
    auto operation = std::make_unique<RequestOperation>();
    if (count * size_ <= chunk_elements(type, 1) && !fault_active("reduce_scatter_wrong_owner")) {
        OGROM_MPI(MPI_Ireduce_scatter_block(in, out, static_cast<int>(count), mpi_type(type), MPI_SUM, core_->comm(),
                                            operation->requests.add()));
        return start(ticket, std::move(operation));
    }
    reduce_to_owners(*operation, out, in, count, type);
    return start(ticket, std::move(operation));
}

Pending MpiCommunicator::all_gather(void* out, const void* in, i64 count, Dtype type, std::string_view label) {
    const i64 ticket = begin({.kind = CollectiveKind::all_gather, .count = count, .type = type, .label = label},
                             count * size_, sent::to_all_others(count, size_));
    if (size_ == 1 || count == 0) {
        copy_own(out, in, count * size_of(type));
        return finish_now(ticket);
    }
    auto operation = std::make_unique<RequestOperation>();
    const bool in_place = in == at(out, rank_ * count, type);
    const i64 limit = chunk_elements(type, size_);
    for (i64 first = 0; first < count; first += limit) {
        // One column of every rank's part: rank r's piece lands at r * count + first.
        const int now = length(limit, count - first);
        MPI_Datatype piece = MPI_DATATYPE_NULL, column = MPI_DATATYPE_NULL;
        OGROM_MPI(MPI_Type_contiguous(now, mpi_type(type), &piece));
        OGROM_MPI(MPI_Type_create_resized(piece, 0, static_cast<MPI_Aint>(count * size_of(type)), &column));
        OGROM_MPI(MPI_Type_commit(&column));
        OGROM_MPI(MPI_Type_free(&piece));
        operation->types.push_back(column);
        OGROM_MPI(MPI_Iallgather(in_place ? MPI_IN_PLACE : at(in, first, type), now, mpi_type(type),
                                 at(out, first, type), 1, column, core_->comm(), operation->requests.add()));
    }
    return start(ticket, std::move(operation));
}

Pending MpiCommunicator::all_gather_batched(void* out, const void* in, i64 count, i64 batches, Dtype type,
                                            std::string_view label) {
    check_batches(batches, label);
    const i64 ticket = begin(
        {.kind = CollectiveKind::all_gather_batched, .count = count, .batches = batches, .type = type, .label = label},
        count * batches * size_, sent::to_all_others(count * batches, size_));
    if (size_ == 1 || count * batches == 0) {
        copy_own(out, in, count * batches * size_of(type));
        return finish_now(ticket);
    }
    auto operation = std::make_unique<RequestOperation>();
    const bool swapped = fault_active("batches_not_interleaved");
    const i64 stride = swapped ? count : size_ * count;
    const i64 part = swapped ? batches * count : count;
    in_pieces(count, batches, chunk_elements(type, size_), [&](const Piece& piece) {
        // Rows of one rank lie size * count apart; the next rank's begin `count` after them.
        MPI_Datatype rows = make_rows(piece, stride, type), placed = MPI_DATATYPE_NULL;
        OGROM_MPI(MPI_Type_create_resized(rows, 0, static_cast<MPI_Aint>(part * size_of(type)), &placed));
        OGROM_MPI(MPI_Type_commit(&placed));
        OGROM_MPI(MPI_Type_free(&rows));
        operation->types.push_back(placed);
        OGROM_MPI(MPI_Iallgather(at(in, piece.batch * count + piece.first, type),
                                 static_cast<int>(piece.batches * piece.count), mpi_type(type),
                                 at(out, piece.batch * stride + piece.first, type), 1, placed, core_->comm(),
                                 operation->requests.add()));
    });
    return start(ticket, std::move(operation));
}

Pending MpiCommunicator::reduce_scatter_batched(void* out, const void* in, i64 count, i64 batches, Dtype type,
                                                ReduceOrder order, void* scratch, std::string_view label) {
    check_batches(batches, label);
    const i64 ticket = begin({.kind = CollectiveKind::reduce_scatter_batched,
                              .count = count,
                              .batches = batches,
                              .type = type,
                              .order = order,
                              .label = label},
                             count * batches * size_, sent::to_all_others(count * batches, size_));
    if (size_ == 1 || count * batches == 0) {
        copy_own(out, in, count * batches * size_of(type));
        return finish_now(ticket);
    }
    return start(ticket, direct_reduce_scatter_batched(reduction(type, ReduceOp::sum, order, scratch, label), out, in,
                                                       count, batches));
}

void MpiCommunicator::reduce_to_owners(RequestOperation& operation, void* out, const void* in, i64 count, Dtype type) {
    const i64 limit = chunk_elements(type, 1);
    for (int owner = 0; owner < size_; ++owner) {
        const int part = fault_active("reduce_scatter_wrong_owner") ? (owner + 1) % size_ : owner;
        for (i64 first = 0; first < count; first += limit) {
            OGROM_MPI(MPI_Ireduce(at(in, part * count + first, type), owner == rank_ ? at(out, first, type) : nullptr,
                                  length(limit, count - first), mpi_type(type), MPI_SUM, owner, core_->comm(),
                                  operation.requests.add()));
        }
    }
}

}  // namespace ogrom
