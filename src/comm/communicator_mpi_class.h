// The communicator over MPI, for the files that implement it; everyone else uses comm/communicator_mpi.h.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "src/comm/communicator_mpi.h"
#include "src/comm/compare.h"
#include "src/comm/engine.h"
#include "src/comm/message.h"
#include "src/comm/traffic.h"

namespace ogrom {

class MpiCommunicator final : public Communicator {
public:
    MpiCommunicator(MPI_Comm comm, std::string name, const MpiCommunicatorOptions& options);

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }
    [[nodiscard]] std::string_view name() const override { return name_; }
    void progress() override;
    [[nodiscard]] i64 bytes_sent() const override { return traffic_.total(); }
    [[nodiscard]] TrafficByLabel bytes_by_label() const override { return traffic_.by_label(); }

    // communicator_mpi.cpp
    Pending all_reduce(void* data, i64 count, Dtype type, ReduceOp op, ReduceOrder order, void* scratch,
                       std::string_view label) override;
    Pending reduce(void* data, i64 count, Dtype type, int root, ReduceOrder order, void* scratch,
                   std::string_view label) override;
    Pending broadcast(void* data, i64 count, Dtype type, int root, std::string_view label) override;
    Pending barrier(std::string_view label) override;
    Pending send(const void* data, i64 count, Dtype type, int to, std::string_view label) override;
    Pending receive(void* data, i64 count, Dtype type, int from, std::string_view label) override;
    std::unique_ptr<Communicator> split(int colour, int key, const std::string& name, CollectiveCheck check) override;

    // The same as split, but of this class, also for one rank: what a communicator on device memory is made of.
    std::unique_ptr<MpiCommunicator> split_as(int colour, int key, const std::string& name,
                                              const MpiCommunicatorOptions& options);
    [[nodiscard]] const MpiCommunicatorOptions& options() const { return options_; }
    // Under CollectiveCheck::compare: throws Error(peer) on every rank where any of it differs.
    void compare(const CollectiveIntent& intent);

    // communicator_mpi_parts.cpp: each rank has its own part
    Pending reduce_scatter(void* out, const void* in, i64 count, Dtype type, ReduceOrder order, void* scratch,
                           std::string_view label) override;
    Pending all_gather(void* out, const void* in, i64 count, Dtype type, std::string_view label) override;
    Pending all_gather_batched(void* out, const void* in, i64 count, i64 batches, Dtype type,
                               std::string_view label) override;
    Pending reduce_scatter_batched(void* out, const void* in, i64 count, i64 batches, Dtype type, ReduceOrder order,
                                   void* scratch, std::string_view label) override;

private:
    static void* at(void* data, i64 element, Dtype type) { return static_cast<char*>(data) + element * size_of(type); }
    static const void* at(const void* data, i64 element, Dtype type) {
        return static_cast<const char*>(data) + element * size_of(type);
    }
    static int length(i64 limit, i64 left) { return static_cast<int>(std::min(limit, left)); }
    // Most elements of one call in which `parts` ranks move as many each.
    [[nodiscard]] i64 chunk_elements(Dtype type, int parts) const {
        return std::max<i64>(1, options_.chunk_bytes / size_of(type) / parts);
    }

    // Sequence, flight record, traffic and (when asked) the comparison with the other ranks. `payload` and `sent` count
    // elements. Returns the ticket of the flight record.
    i64 begin(CollectiveIntent intent, i64 payload, i64 sent);
    i64 issue(i64 sequence, std::string_view label, i64 bytes);  // the flight record's ticket
    Pending finish_now(i64 ticket);
    Pending start(i64 ticket, std::unique_ptr<Operation> operation) {
        return core_->start(ticket, std::move(operation));
    }
    [[nodiscard]] FixedReduce exchange(Dtype type, ReduceOp op) const;  // without scratch
    [[nodiscard]] FixedReduce fixed(Dtype type, ReduceOp op, void* scratch, std::string_view label) const;
    // Without scratch of the caller: what is not MPI's own operation has room of its own.
    [[nodiscard]] FixedReduce reduction(Dtype type, ReduceOp op, ReduceOrder order, void* scratch,
                                        std::string_view label) const;
    // The next message to or from `peer`: `sent` is what it counts for in the traffic, in elements.
    MessagePlace next_message(std::vector<i64>& counters, int peer, i64 count, Dtype type, std::string_view label);
    i64 begin_message(const MessagePlace& message, i64 sent);
    // One reduction per owner and chunk: where a part is too long for one call, or not contiguous over ranks.
    void reduce_to_owners(RequestOperation& operation, void* out, const void* in, i64 count, Dtype type);

    std::shared_ptr<Core> core_;
    std::string name_;
    MpiCommunicatorOptions options_;
    int rank_ = 0, size_ = 1;
    i64 tags_ = 0;                       // collectives use tags [0, 2 tags), messages [2 tags, 4 tags)
    i64 sequence_ = 0;                   // of collectives
    std::vector<i64> sends_, receives_;  // messages so far, by peer
    TrafficCount traffic_;
};

}  // namespace ogrom
