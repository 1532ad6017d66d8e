#include "src/comm/operation.h"

#include <algorithm>

#include "kernels/common/fault.h"

namespace ogrom {

MPI_Datatype mpi_type(Dtype type) {
    switch (type) {
        case Dtype::fp32:
            return MPI_FLOAT;
        case Dtype::fp64:
            return MPI_DOUBLE;
        case Dtype::i32:
            return MPI_INT32_T;
        case Dtype::i64:
            return MPI_INT64_T;
        case Dtype::u64:
            return MPI_UINT64_T;
        case Dtype::bf16:
        case Dtype::fp16:
            return MPI_UINT16_T;
        case Dtype::fp8_e4m3:
        case Dtype::fp8_e5m2:
        case Dtype::u16:
            break;
    }
    check_transfer(0, type, "MPI");
    return MPI_DATATYPE_NULL;
}

bool mpi_adds(Dtype type) {
    return !has_16_bits(type);
}

MPI_Op mpi_op(ReduceOp op) {
    switch (op) {
        case ReduceOp::sum:
            return MPI_SUM;
        case ReduceOp::max:
            return MPI_MAX;
        case ReduceOp::min:
            return MPI_MIN;
    }
    return MPI_OP_NULL;
}

MPI_Datatype make_rows(const Piece& piece, i64 stride, Dtype type) {
    MPI_Datatype rows = MPI_DATATYPE_NULL;
    OGROM_MPI(MPI_Type_create_hvector(static_cast<int>(piece.batches), static_cast<int>(piece.count),
                                      static_cast<MPI_Aint>(stride * size_of(type)), mpi_type(type), &rows));
    OGROM_MPI(MPI_Type_commit(&rows));
    return rows;
}

MPI_Request* RequestList::add() {
    idle_ = false;
    return &requests_.emplace_back(MPI_REQUEST_NULL);
}

bool RequestList::test() {
    if (idle_) {
        return true;
    }
    indices_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int some = 0;
    const int result =
        MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &some, indices_.data(), statuses_.data());
    if (result == MPI_ERR_IN_STATUS) {
        for (int i = 0; i < some; ++i) {
            check_mpi(statuses_[static_cast<std::size_t>(i)].MPI_ERROR, "MPI_Testsome (one request)");
        }
    }
    check_mpi(result, "MPI_Testsome");
    if (some == MPI_UNDEFINED) {
        requests_.clear();
        idle_ = true;
        return true;
    }
    completed_ += some;
    return false;
}

RequestOperation::~RequestOperation() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    for (MPI_Datatype& type : types) {
        if (finalized == 0) {
            MPI_Type_free(&type);
        }
    }
}

namespace {

// Both fixed-order reductions: receive the others' contributions to the own part and send them theirs; then combine;
// all_reduce goes on to send its part to all and receive theirs. Messages of one pair keep their order, so chunks of
// one message share the tag.
class FixedOperation final : public Operation {
public:
    // `in` holds size parts; owner r's part starts at element part(r).first.
    FixedOperation(const FixedReduce& fixed, void* out, const void* in, i64 count, bool gather)
        : fixed_(fixed),
          out_(static_cast<char*>(out)),
          in_(static_cast<const char*>(in)),
          count_(count),
          gather_(gather) {
        own_ = owned_part(count_, fixed_.rank, fixed_.size);
        bytes_ = size_of(fixed_.type);
        if (fixed_.scratch == nullptr) {
            room_.resize(static_cast<std::size_t>((fixed_.size - 1) * own_.count() * bytes_));
            fixed_.scratch = room_.data();
        }
        exchange();
    }

    bool advance() override {
        if (!requests_.test()) {
            return false;
        }
        if (!combined_) {
            combined_ = true;
            combine();
            if (gather_) {
                share();
                return requests_.test();
            }
        }
        return true;
    }
    [[nodiscard]] long completed() const override { return requests_.completed(); }

private:
    // Contribution of `rank` to the own part.
    [[nodiscard]] const void* contribution(int rank) const {
        if (rank == fixed_.rank) {
            return in_ + own_.first * bytes_;
        }
        return slot(rank);
    }
    [[nodiscard]] char* slot(int rank) const { return fixed_.slot(rank, own_.count()); }

    template <class Call>
    void in_chunks(i64 elements, Call call) {
        const i64 limit = std::max<i64>(1, fixed_.chunk_bytes / bytes_);
        for (i64 first = 0; first < elements; first += limit) {
            call(first * bytes_, static_cast<int>(std::min(limit, elements - first)));
        }
    }
    void send(const void* from, i64 elements, int to, int tag) {
        in_chunks(elements, [&](i64 offset, int now) {
            OGROM_MPI(MPI_Isend(static_cast<const char*>(from) + offset, now, mpi_type(fixed_.type), to, tag,
                                fixed_.comm, requests_.add()));
        });
    }
    void receive(void* into, i64 elements, int from, int tag) {
        in_chunks(elements, [&](i64 offset, int now) {
            OGROM_MPI(MPI_Irecv(static_cast<char*>(into) + offset, now, mpi_type(fixed_.type), from, tag, fixed_.comm,
                                requests_.add()));
        });
    }

    // Partners in the order rank + 1, rank + 2, ...: no rank is everyone's first target.
    void exchange() {
        for (int step = 1; step < fixed_.size; ++step) {
            const int from = (fixed_.rank - step + fixed_.size) % fixed_.size;
            receive(slot(from), own_.count(), from, fixed_.tag);
        }
        for (int step = 1; step < fixed_.size; ++step) {
            const int to = (fixed_.rank + step) % fixed_.size;
            const OwnedPart part = owned_part(count_, to, fixed_.size);
            send(in_ + part.first * bytes_, part.count(), to, fixed_.tag);
        }
    }
    void combine() {
        char* result = gather_ ? out_ + own_.first * bytes_ : out_;
        combine_in_rank_order(
            result, [this](int rank) { return contribution(rank); }, fixed_.size, own_.count(), fixed_.type, fixed_.op);
    }
    // Receives overwrite this rank's own contributions, which have all left by now.
    void share() {
        for (int step = 1; step < fixed_.size; ++step) {
            const int from = (fixed_.rank - step + fixed_.size) % fixed_.size;
            const OwnedPart part = owned_part(count_, from, fixed_.size);
            receive(out_ + part.first * bytes_, part.count(), from, fixed_.tag + 1);
        }
        for (int step = 1; step < fixed_.size; ++step) {
            send(out_ + own_.first * bytes_, own_.count(), (fixed_.rank + step) % fixed_.size, fixed_.tag + 1);
        }
    }

    FixedReduce fixed_;
    char* out_;
    const char* in_;
    i64 count_;
    bool gather_;
    OwnedPart own_;
    i64 bytes_ = 0;
    std::vector<char> room_;  // for the contributions, where no scratch was given
    RequestList requests_;
    bool combined_ = false;
};

}  // namespace

std::unique_ptr<Operation> fixed_all_reduce(const FixedReduce& fixed, void* data, i64 count) {
    return std::make_unique<FixedOperation>(fixed, data, data, count, true);
}

std::unique_ptr<Operation> fixed_reduce_scatter(const FixedReduce& fixed, void* out, const void* in, i64 count) {
    return std::make_unique<FixedOperation>(fixed, out, in, count * fixed.size, false);
}

}  // namespace ogrom
