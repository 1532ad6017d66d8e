// The mesh of one rank of many without the others: communicators that know their extents and refuse every call, so that
// an engine of any layout can be made, and its memory looked at, in one process.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "kernels/common/error.h"

#include "src/comm/mesh.h"

namespace ogrom::test {

using Extents = std::map<std::string, int, std::less<>>;  // ranks of each axis, by name

class SilentCommunicator final : public Communicator {
public:
    SilentCommunicator(std::string name, int rank, int size, Extents axes = {})
        : name_(std::move(name)), rank_(rank), size_(size), axes_(std::move(axes)) {}
    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }
    [[nodiscard]] std::string_view name() const override { return name_; }
    Pending all_reduce(void*, i64, Dtype, ReduceOp, ReduceOrder, void*, std::string_view label) override {
        refuse(label);
    }
    Pending reduce_scatter(void*, const void*, i64, Dtype, ReduceOrder, void*, std::string_view label) override {
        refuse(label);
    }
    Pending all_gather(void*, const void*, i64, Dtype, std::string_view label) override { refuse(label); }
    Pending broadcast(void*, i64, Dtype, int, std::string_view label) override { refuse(label); }
    Pending barrier(std::string_view label) override { refuse(label); }
    // The key is the place on the axis.
    std::unique_ptr<Communicator> split(int colour, int key, const std::string& name, CollectiveCheck) override {
        if (colour < 0) {
            return nullptr;
        }
        const int size = axes_.at(name);
        return std::make_unique<SilentCommunicator>(name, name == "tie" && key > 0 ? 1 : key, size);
    }
    void progress() override {}
    [[nodiscard]] i64 bytes_sent() const override { return 0; }

private:
    [[noreturn]] void refuse(std::string_view label) const {
        fail(ExitCode::peer, std::string("called without its peers: ").append(label));
    }
    std::string name_;
    int rank_, size_;
    Extents axes_;
};

struct SilentMesh {
    SilentMesh(const ParallelConfig& p, int rank)
        : world("world", rank, static_cast<int>(p.pipeline * p.data * p.tensor),
                {{"tp", static_cast<int>(p.tensor)},
                 {"dp", static_cast<int>(p.data)},
                 {"zero", static_cast<int>(p.zero_group)},
                 {"replica", static_cast<int>(p.data / p.zero_group)},
                 {"pp forward", static_cast<int>(p.pipeline)},
                 {"pp backward", static_cast<int>(p.pipeline)},
                 {"tie", 2}}),
          mesh(make_mesh(world, p)) {}
    SilentCommunicator world;
    Mesh mesh;
};

}  // namespace ogrom::test
