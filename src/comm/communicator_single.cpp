// A communicator of one rank: every collective is complete on return and nothing is sent.
#include <cstring>
#include <utility>

#include "src/comm/communicator.h"
#include "src/comm/transfer.h"

namespace ogrom {
namespace {

class SingleCommunicator final : public Communicator {
public:
    [[nodiscard]] int rank() const override { return 0; }
    [[nodiscard]] int size() const override { return 1; }
    [[nodiscard]] std::string_view name() const override { return "single"; }

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
    void progress() override {}
    [[nodiscard]] i64 bytes_sent() const override { return 0; }

private:
    static Pending copy(void* out, const void* in, i64 count, Dtype type, std::string_view label) {
        check_transfer(count, type, label);
        copy_own(out, in, count * size_of(type));
        return {};
    }
};

}  // namespace

std::unique_ptr<Communicator> make_single_communicator() {
    return std::make_unique<SingleCommunicator>();
}

}  // namespace ogrom
