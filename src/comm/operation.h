// A collective under way over MPI: a list of requests, or several phases of them. Advanced by tests only, never by a
// blocking MPI call; every outstanding operation of a communicator is advanced by progress().
#pragma once
#include <vector>

#include "src/comm/mpi_check.h"
#include "src/comm/transfer.h"

namespace ogrom {

MPI_Datatype mpi_type(Dtype type);
MPI_Op mpi_op(ReduceOp op);

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
    void* scratch = nullptr;  // (size - 1) * part elements
};

// data[count] in place: contributions to their owner, sum in rank order, result to all.
std::unique_ptr<Operation> fixed_all_reduce(const FixedReduce& fixed, void* data, i64 count);
// out[count] = sum in rank order of in[size * count] at this rank's part.
std::unique_ptr<Operation> fixed_reduce_scatter(const FixedReduce& fixed, void* out, const void* in, i64 count);

}  // namespace ogrom
