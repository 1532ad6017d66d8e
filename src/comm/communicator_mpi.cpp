#include "src/comm/communicator_mpi.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <fmt/format.h>

#include "kernels/common/fault.h"

#include "src/comm/compare.h"
#include "src/comm/operation.h"
#include "src/comm/transfer.h"
#include "src/comm/wait.h"

namespace ogrom {
namespace {

// What outlives the communicator object while collectives are under way.
struct Core {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm compare_comm = MPI_COMM_NULL;
    std::shared_ptr<Control> control;
    std::vector<std::shared_ptr<Operation>> outstanding;

    Core() = default;
    Core(const Core&) = delete;
    Core& operator=(const Core&) = delete;
    ~Core() {
        int finalized = 0;
        MPI_Finalized(&finalized);
        // With collectives left open the job is ending: freeing would wait for the others.
        if (finalized != 0 || !outstanding.empty() || control->failed()) {
            return;
        }
        MPI_Comm_free(&comm);
        if (compare_comm != MPI_COMM_NULL) {
            MPI_Comm_free(&compare_comm);
        }
    }
    void progress() {
        for (const std::shared_ptr<Operation>& operation : outstanding) {
            if (!operation->done && operation->advance()) {
                operation->done = true;
                control->collective_done(operation->ticket);
            }
        }
        std::erase_if(outstanding, [](const std::shared_ptr<Operation>& operation) { return operation->done; });
    }
};

class MpiState final : public Pending::State {
public:
    MpiState(std::shared_ptr<Core> core, std::shared_ptr<Operation> operation)
        : core_(std::move(core)), operation_(std::move(operation)), exceptions_(std::uncaught_exceptions()) {}
    MpiState(const MpiState&) = delete;
    MpiState& operator=(const MpiState&) = delete;
    ~MpiState() override {
        // While an exception unwinds the peers may never come: the operation stays with the core and the job ends.
        if (operation_->done || std::uncaught_exceptions() > exceptions_ || core_->control->failed()) {
            return;
        }
        try {
            wait();
        } catch (const std::exception&) {
            // The failure is published already; the next collective throws it where it can be caught.
            return;
        }
    }
    bool test() override {
        if (!operation_->done) {
            core_->control->check();
            core_->progress();
        }
        return operation_->done;
    }
    void wait() override {
        wait_until([this] { return test(); }, core_->control.get(), [this] { return operation_->completed(); });
    }

private:
    std::shared_ptr<Core> core_;
    std::shared_ptr<Operation> operation_;
    int exceptions_;
};

class MpiCommunicator final : public Communicator {
public:
    MpiCommunicator(MPI_Comm comm, std::string name, const MpiCommunicatorOptions& options)
        : core_(std::make_shared<Core>()), name_(std::move(name)), chunk_bytes_(options.chunk_bytes) {
        core_->comm = comm;
        core_->control = options.control;
        return_errors(comm);
        OGROM_MPI(MPI_Comm_rank(comm, &rank_));
        OGROM_MPI(MPI_Comm_size(comm, &size_));
        int found = 0;
        const int* bound = nullptr;
        OGROM_MPI(MPI_Comm_get_attr(comm, MPI_TAG_UB, static_cast<void*>(&bound), &found));
        tags_ = found != 0 ? std::max(*bound / 2, 1) : 16383;
        if (options.check == CollectiveCheck::compare && size_ > 1) {
            OGROM_MPI(MPI_Comm_dup(comm, &core_->compare_comm));
            return_errors(core_->compare_comm);
        }
    }

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }
    [[nodiscard]] std::string_view name() const override { return name_; }
    void progress() override {
        core_->control->check();
        core_->control->moved();
        core_->progress();
    }
    [[nodiscard]] i64 bytes_sent() const override {
        i64 total = 0;
        for (const auto& [label, bytes] : sent_) {
            total += bytes;
        }
        return total;
    }
    [[nodiscard]] std::map<std::string, i64, std::less<>> bytes_by_label() const override { return sent_; }

    Pending all_reduce(void* data, i64 count, Dtype type, ReduceOp op, ReduceOrder order, void* scratch,
                       std::string_view label) override {
        const i64 own = size_ > 1 ? owned_part(std::max<i64>(count, 0), rank_, size_).count() : 0;
        const i64 ticket = begin(count, type, count, size_ > 1 ? count - own + (size_ - 1) * own : 0, label);
        if (size_ == 1 || count == 0) {
            return finish_now(ticket);
        }
        if (order == ReduceOrder::fixed) {
            return start(ticket, fixed_all_reduce(fixed(type, op, scratch, label), data, count));
        }
        auto operation = std::make_unique<RequestOperation>();
        const i64 limit = chunk_elements(type, 1);
        for (i64 first = 0; first < count; first += limit) {
            if (fault_active("allreduce_tail_lost") && first + limit >= count) {
                break;
            }
            OGROM_MPI(MPI_Iallreduce(MPI_IN_PLACE, at(data, first, type), length(limit, count - first), mpi_type(type),
                                     mpi_op(op), core_->comm, operation->requests.add()));
        }
        return start(ticket, std::move(operation));
    }

    Pending reduce_scatter(void* out, const void* in, i64 count, Dtype type, ReduceOrder order, void* scratch,
                           std::string_view label) override {
        const i64 ticket = begin(count, type, count * size_, (size_ - 1) * count, label);
        if (size_ == 1 || count == 0) {
            copy_own(out, in, count * size_of(type));
            return finish_now(ticket);
        }
        if (order == ReduceOrder::fixed) {
            return start(ticket, fixed_reduce_scatter(fixed(type, ReduceOp::sum, scratch, label), out, in, count));
        }
        auto operation = std::make_unique<RequestOperation>();
        if (count * size_ <= chunk_elements(type, 1) && !fault_active("reduce_scatter_wrong_owner")) {
            OGROM_MPI(MPI_Ireduce_scatter_block(in, out, static_cast<int>(count), mpi_type(type), MPI_SUM, core_->comm,
                                                operation->requests.add()));
            return start(ticket, std::move(operation));
        }
        reduce_to_owners(*operation, out, in, count, type);
        return start(ticket, std::move(operation));
    }

    Pending all_gather(void* out, const void* in, i64 count, Dtype type, std::string_view label) override {
        const i64 ticket = begin(count, type, count * size_, (size_ - 1) * count, label);
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
                                     at(out, first, type), 1, column, core_->comm, operation->requests.add()));
        }
        return start(ticket, std::move(operation));
    }

    Pending broadcast(void* data, i64 count, Dtype type, int root, std::string_view label) override {
        check_root(root, size_, label);
        const i64 ticket = begin(count, type, count, rank_ == root ? (size_ - 1) * count : 0, label);
        if (size_ == 1 || count == 0) {
            return finish_now(ticket);
        }
        auto operation = std::make_unique<RequestOperation>();
        const i64 limit = chunk_elements(type, 1);
        for (i64 first = 0; first < count; first += limit) {
            OGROM_MPI(MPI_Ibcast(at(data, first, type), length(limit, count - first), mpi_type(type), root, core_->comm,
                                 operation->requests.add()));
        }
        return start(ticket, std::move(operation));
    }

    Pending barrier(std::string_view label) override {
        const i64 ticket = begin(0, Dtype::i32, 0, 0, label);
        if (size_ == 1) {
            return finish_now(ticket);
        }
        auto operation = std::make_unique<RequestOperation>();
        OGROM_MPI(MPI_Ibarrier(core_->comm, operation->requests.add()));
        return start(ticket, std::move(operation));
    }

private:
    static void* at(void* data, i64 element, Dtype type) { return static_cast<char*>(data) + element * size_of(type); }
    static const void* at(const void* data, i64 element, Dtype type) {
        return static_cast<const char*>(data) + element * size_of(type);
    }
    static int length(i64 limit, i64 left) { return static_cast<int>(std::min(limit, left)); }
    // Most elements of one call in which `parts` ranks move as many each.
    [[nodiscard]] i64 chunk_elements(Dtype type, int parts) const {
        return std::max<i64>(1, chunk_bytes_ / size_of(type) / parts);
    }

    // Sequence, flight record, traffic and (when asked) the comparison with the other ranks.
    i64 begin(i64 count, Dtype type, i64 payload, i64 sent, std::string_view label) {
        check_transfer(count, type, label);
        core_->control->check();
        core_->progress();
        const i64 bytes = payload * size_of(type);
        const i64 ticket = core_->control->collective_issued(++sequence_, label, name_, bytes);
        if (core_->compare_comm != MPI_COMM_NULL) {
            compare_collective(core_->compare_comm, *core_->control, name_, {sequence_, bytes, std::string(label)});
        }
        if (const auto found = sent_.find(label); found != sent_.end()) {
            found->second += sent * size_of(type);
        } else {
            sent_.emplace(label, sent * size_of(type));
        }
        return ticket;
    }
    Pending finish_now(i64 ticket) {
        core_->control->collective_done(ticket);
        return {};
    }
    Pending start(i64 ticket, std::unique_ptr<Operation> operation) {
        std::shared_ptr<Operation> shared = std::move(operation);
        shared->ticket = ticket;
        core_->outstanding.push_back(shared);
        core_->progress();
        return Pending(std::make_unique<MpiState>(core_, std::move(shared)));
    }
    [[nodiscard]] FixedReduce fixed(Dtype type, ReduceOp op, void* scratch, std::string_view label) const {
        if (scratch == nullptr) {
            fail(ExitCode::peer, fmt::format("collective '{}': the fixed order needs scratch memory", label));
        }
        const int tag = static_cast<int>(sequence_ % tags_) * 2;
        return {core_->comm, rank_, size_, tag, chunk_bytes_, type, op, scratch};
    }
    // Above one call's limit a part is not contiguous over ranks: one reduction per owner and chunk.
    void reduce_to_owners(RequestOperation& operation, void* out, const void* in, i64 count, Dtype type) {
        const i64 limit = chunk_elements(type, 1);
        for (int owner = 0; owner < size_; ++owner) {
            const int part = fault_active("reduce_scatter_wrong_owner") ? (owner + 1) % size_ : owner;
            for (i64 first = 0; first < count; first += limit) {
                OGROM_MPI(MPI_Ireduce(at(in, part * count + first, type),
                                      owner == rank_ ? at(out, first, type) : nullptr, length(limit, count - first),
                                      mpi_type(type), MPI_SUM, owner, core_->comm, operation.requests.add()));
            }
        }
    }

    std::shared_ptr<Core> core_;
    std::string name_;
    i64 chunk_bytes_;
    int rank_ = 0, size_ = 1;
    i64 tags_ = 0;
    i64 sequence_ = 0;
    std::map<std::string, i64, std::less<>> sent_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm comm, const std::string& name,
                                                    const MpiCommunicatorOptions& options) {
    return std::make_unique<MpiCommunicator>(comm, name, options);
}

}  // namespace ogrom
