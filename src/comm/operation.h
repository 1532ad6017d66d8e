// A collective or message under way over MPI: a list of requests, or several phases of them. Advanced by tests only,
// never by a blocking MPI call; every outstanding operation of a communicator is advanced by progress().
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "src/comm/mpi_check.h"
#include "src/comm/transfer.h"

namespace ogrom {

MPI_Datatype mpi_type(Dtype type);  // bf16, fp16: as 16 bits, to be moved
bool mpi_adds(Dtype type);          // MPI can reduce it
MPI_Op mpi_op(ReduceOp op);

// A part of `batches` rows of `count` elements that goes into one MPI call: either whole rows or a part of one row, so
// that it is contiguous where the rows follow each other.
struct Piece {
    i64 batch = 0, batches = 1;  // rows [batch, batch + batches)
    i64 first = 0, count = 0;    // elements [first, first + count) of each
};
template <class Call>
void in_pieces(i64 count, i64 batches, i64 limit, Call call) {
    limit = std::max<i64>(1, limit);
    const i64 rows = count > 0 ? std::max<i64>(1, limit / count) : 1;
    for (i64 batch = 0; batch < batches && count > 0; batch += rows) {
        for (i64 first = 0; first < count; first += limit) {
            call(Piece{batch, std::min(rows, batches - batch), first, std::min(limit, count - first)});
        }
    }
}

// `piece.batches` rows of `piece.count` elements, `stride` elements apart; committed.
MPI_Datatype make_rows(const Piece& piece, i64 stride, Dtype type);

// Requests of one phase.
class RequestList {
public:
    MPI_Request* add();  // a new request to be filled by an MPI call at once
    bool test();         // true once none is active
    [[nodiscard]] long completed() const { return completed_; }

private:
    std::vector<MPI_Request> requests_;
    std::vector<int> indices_;
    std::vector<MPI_Status> statuses_;
    long completed_ = 0;
    bool idle_ = true;
};

class Operation {
public:
    Operation() = default;
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;
    virtual ~Operation() = default;
    virtual bool advance() = 0;  // true once complete
    [[nodiscard]] virtual long completed() const = 0;
    i64 ticket = -1;  // of the flight record
    bool done = false;
};

// One phase: MPI's own non-blocking collectives.
class RequestOperation final : public Operation {
public:
    bool advance() override { return requests.test(); }
    [[nodiscard]] long completed() const override { return requests.completed(); }
    RequestList requests;
    std::vector<MPI_Datatype> types;  // freed with the operation
    ~RequestOperation() override;
};

struct FixedReduce {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0, size = 1, tag = 0;  // tag and tag + 1 belong to this operation alone
    i64 chunk_bytes = 0;
    Dtype type = Dtype::fp32;
    ReduceOp op = ReduceOp::sum;
    void* scratch = nullptr;                                     // (size - 1) * part elements; null: room of its own
    [[nodiscard]] char* slot(int of_rank, i64 elements) const {  // where of_rank's `elements` wait for their sum
        return static_cast<char*>(scratch) + (of_rank < rank ? of_rank : of_rank - 1) * elements * size_of(type);
    }
};

// data[count] in place: contributions to their owner, sum in rank order, result to all.
std::unique_ptr<Operation> fixed_all_reduce(const FixedReduce& fixed, void* data, i64 count);
// out[count] = sum in rank order of in[size * count] at this rank's part.
std::unique_ptr<Operation> fixed_reduce_scatter(const FixedReduce& fixed, void* out, const void* in, i64 count);
// Without scratch the two below hold at most 8 MiB of contributions at a time, in room of their own.
// data[count] of all ranks to `root`, sum in rank order into its data.
std::unique_ptr<Operation> direct_reduce(const FixedReduce& fixed, void* data, i64 count, int root);
// out[batches * count]: rows of all ranks to their owner, sum in rank order there.
std::unique_ptr<Operation> direct_reduce_scatter_batched(const FixedReduce& fixed, void* out, const void* in, i64 count,
                                                         i64 batches);

}  // namespace ogrom
