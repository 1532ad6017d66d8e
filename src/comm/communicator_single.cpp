// A communicator of one rank: every collective is complete on return and nothing is sent.
#include <string>
#include <utility>

#include "src/comm/communicator.h"
#include "src/comm/transfer.h"
#include "src/device/buffer.h"

namespace ogrom {
namespace {

class SingleCommunicator final : public Communicator {
public:
    SingleCommunicator(std::string name, Stream compute) : name_(std::move(name)), compute_(compute) {}
    [[nodiscard]] int rank() const override { return 0; }
    [[nodiscard]] int size() const override { return 1; }
    [[nodiscard]] std::string_view name() const override { return name_; }

    Pending all_reduce(void*, i64 count, Dtype type, ReduceOp, ReduceOrder, void*, std::string_view label) override {
        check_transfer(count, type, label);
        return {};
    }
    Pending reduce_scatter(void* out, const void* in, i64 count_per_rank, Dtype type, ReduceOrder, void*,
                           std::string_view label) override {
        return copy(out, in, count_per_rank, type, label);
    }
    Pending all_gather(void* out, const void* in, i64 count_per_rank, Dtype type, std::string_view label) override {
        return copy(out, in, count_per_rank, type, label);
    }
    Pending broadcast(void*, i64 count, Dtype type, int root, std::string_view label) override {
        check_transfer(count, type, label);
        check_root(root, 1, label);
        return {};
    }
    Pending barrier(std::string_view) override { return {}; }
    Pending reduce(void*, i64 count, Dtype type, int root, ReduceOrder, void*, std::string_view label) override {
        check_transfer(count, type, label);
        check_root(root, 1, label);
        return {};
    }
    Pending all_gather_batched(void* out, const void* in, i64 count, i64 batches, Dtype type,
                               std::string_view label) override {
        check_batches(batches, label);
        return copy(out, in, count * batches, type, label);
    }
    Pending reduce_scatter_batched(void* out, const void* in, i64 count, i64 batches, Dtype type, ReduceOrder, void*,
                                   std::string_view label) override {
        check_batches(batches, label);
        return copy(out, in, count * batches, type, label);
    }
    Pending send(const void*, i64, Dtype, int to, std::string_view label) override {
        check_peer(to, 0, 1, label);
        return {};
    }
    Pending receive(void*, i64, Dtype, int from, std::string_view label) override {
        check_peer(from, 0, 1, label);
        return {};
    }
    std::unique_ptr<Communicator> split(int colour, int, const std::string& name, CollectiveCheck) override {
        return colour < 0 ? nullptr : make_single_communicator(name, compute_);
    }
    Communicator& host() override {
        if (compute_.backend != Backend::cpu && host_ == nullptr) {
            host_ = make_single_communicator(name_);
        }
        return host_ != nullptr ? *host_ : *this;
    }
    void progress() override {}
    [[nodiscard]] i64 bytes_sent() const override { return 0; }

private:
    Pending copy(void* out, const void* in, i64 count, Dtype type, std::string_view label) const {
        check_transfer(count, type, label);
        if (compute_.backend == Backend::cpu) {
            copy_own(out, in, count * size_of(type));
        } else if (out != in) {
            copy_bytes(compute_, out, in, count * size_of(type));
        }
        return {};
    }
    std::string name_;
    Stream compute_;
    std::unique_ptr<Communicator> host_;  // of a rank whose memory is on a GPU
};

}  // namespace

std::unique_ptr<Communicator> make_single_communicator(const std::string& name, Stream compute) {
    return std::make_unique<SingleCommunicator>(name, compute);
}

}  // namespace ogrom
