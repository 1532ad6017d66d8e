// What the communicators over device memory share: checks, sequence numbers, flight record, traffic, the comparison of
// calls, and the same ranks over host memory. Made over more than one rank.
//
// Who waits for whom. `compute` is the stream of the kernels; transfers run on other streams.
//   at the call         an event is recorded on compute; the transfer's first access waits for it (device waits)
//   Pending::test()     true once complete: nothing on compute was held up for it
//   Pending::wait()     compute waits for the transfer's last access (device waits). NCCL: the host does not wait.
//                       Staged: the host waits until MPI has moved the data, the device for the copies.
//   Pending::wait_host  wait(), then the host waits for the device
//   ~Pending            as wait(); while an exception unwinds, or once the job has failed, it waits for nothing
// So a buffer may be written again by compute after wait(), and by the host or another stream after wait_host().
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/comm/communicator_mpi_class.h"
#include "src/comm/traffic.h"

namespace ogrom {

// A collective as it was called, to be carried out.
struct DeviceCall {
    CollectiveIntent what;  // its own label is not kept: see below
    std::string label;
    void* out = nullptr;       // all_reduce, reduce, broadcast: the data, in place
    const void* in = nullptr;  // the others
    void* scratch = nullptr;   // fixed order
    i64 ticket = -1;           // of the flight record
};

struct DeviceMessage {
    void* data = nullptr;  // of a send: only read
    i64 count = 0;
    Dtype type = Dtype::fp32;
    int peer = 0;
    i64 sequence = 0;  // of this pair and direction, from 1
    std::string label;
    i64 ticket = -1;
};

class DeviceCommunicator : public Communicator {
public:
    // `host`: the same ranks; its traffic is counted as this one's.
    DeviceCommunicator(std::unique_ptr<MpiCommunicator> host, Stream compute);

    [[nodiscard]] int rank() const final { return host_->rank(); }
    [[nodiscard]] int size() const final { return host_->size(); }
    [[nodiscard]] std::string_view name() const final { return host_->name(); }
    Communicator& host() final { return *host_; }
    void progress() final { host_->progress(); }
    [[nodiscard]] i64 bytes_sent() const final { return traffic_.total() + host_->bytes_sent(); }
    [[nodiscard]] TrafficByLabel bytes_by_label() const final;

    Pending all_reduce(void* data, i64 count, Dtype type, ReduceOp op, ReduceOrder order, void* scratch,
                       std::string_view label) final;
    Pending reduce(void* data, i64 count, Dtype type, int root, ReduceOrder order, void* scratch,
                   std::string_view label) final;
    Pending reduce_scatter(void* out, const void* in, i64 count, Dtype type, ReduceOrder order, void* scratch,
                           std::string_view label) final;
    Pending reduce_scatter_batched(void* out, const void* in, i64 count, i64 batches, Dtype type, ReduceOrder order,
                                   void* scratch, std::string_view label) final;
    Pending all_gather(void* out, const void* in, i64 count, Dtype type, std::string_view label) final;
    Pending all_gather_batched(void* out, const void* in, i64 count, i64 batches, Dtype type,
                               std::string_view label) final;
    Pending broadcast(void* data, i64 count, Dtype type, int root, std::string_view label) final;
    Pending barrier(std::string_view label) final;
    Pending send(const void* data, i64 count, Dtype type, int to, std::string_view label) final;
    Pending receive(void* data, i64 count, Dtype type, int from, std::string_view label) final;

protected:
    // Carry out what was checked and recorded; what is not empty (a barrier counts as such).
    virtual Pending start(const DeviceCall& call) = 0;
    virtual Pending start_send(const DeviceMessage& message) = 0;
    virtual Pending start_receive(const DeviceMessage& message) = 0;

    [[nodiscard]] Stream compute() const { return compute_; }
    [[nodiscard]] Control& control() const { return *host_->options().control; }
    [[nodiscard]] std::shared_ptr<CommEngine> engine() const { return host_->options().engine; }
    [[nodiscard]] bool compares() const { return host_->options().check == CollectiveCheck::compare; }

private:
    struct Buffers {
        void* out = nullptr;
        const void* in = nullptr;
        void* scratch = nullptr;
    };
    // `payload` and `sent` count elements, as in MpiCommunicator.
    Pending carry_out(CollectiveIntent what, const Buffers& buffers, i64 payload, i64 sent);
    DeviceMessage issue_message(std::vector<i64>& counters, void* data, i64 count, Dtype type, int peer,
                                std::string_view label, i64 sent);

    std::unique_ptr<MpiCommunicator> host_;
    Stream compute_;
    i64 sequence_ = 0;                   // of collectives
    std::vector<i64> sends_, receives_;  // messages so far, by peer
    TrafficCount traffic_;
};

}  // namespace ogrom
