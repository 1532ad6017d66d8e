#include "src/comm/placement.h"

#include <gtest/gtest.h>

#include "kernels/common/error.h"

#include "src/comm/staging.h"

namespace ogrom {
namespace {

constexpr int plain = 22809, sharing = 23007;

std::vector<RankDevice> on_gpus(std::initializer_list<const char*> uuids, int version) {
    std::vector<RankDevice> ranks;
    for (const char* uuid : uuids) {
        ranks.push_back({"node1", uuid, version, ""});
    }
    return ranks;
}

TransportChoice choose(const std::vector<RankDevice>& ranks, const std::string& backend = "auto", bool share = false) {
    CommConfig comm;
    comm.backend = backend;
    RunSection run;
    run.share_gpu = share;
    return choose_transport(ranks, comm, run);
}

std::string refusal(const std::vector<RankDevice>& ranks, const std::string& backend = "auto", bool share = false) {
    try {
        choose(ranks, backend, share);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    return "accepted";
}

void expect_has(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Placement, B44TwoRanksOnOneGpuAreRefusedByUuid) {
    const std::string text = refusal(on_gpus({"GPU-a", "GPU-b", "GPU-a"}, sharing));
    expect_has(text, "ranks 0 and 2 (host node1) are on one GPU, GPU-a");
    expect_has(text, "run.share_gpu = true");
    EXPECT_EQ(choose(on_gpus({"GPU-a", "GPU-b"}, plain)).ranks_per_gpu, 1);
    EXPECT_EQ(choose(on_gpus({"GPU-a", "GPU-a"}, sharing), "auto", true).ranks_per_gpu, 2);
}

TEST(Placement, AutoTakesNcclWhereEachRankHasAGpu) {
    EXPECT_EQ(choose(on_gpus({"GPU-a", "GPU-b"}, plain)).transport, AxisTransport::nccl);
    EXPECT_EQ(choose(on_gpus({"GPU-a", "GPU-b"}, plain), "mpi").transport, AxisTransport::staged);
    EXPECT_EQ(choose(on_gpus({"GPU-a", "GPU-a"}, sharing), "auto", true).transport, AxisTransport::staged);
    std::vector<RankDevice> one_lacks_it = on_gpus({"GPU-a", "GPU-b"}, plain);
    one_lacks_it[1].nccl_missing = "libnccl.so.2 cannot be loaded";
    EXPECT_EQ(choose(one_lacks_it).transport, AxisTransport::staged);
    expect_has(choose(one_lacks_it).reason, "rank 1 (node1): libnccl.so.2 cannot be loaded");
    expect_has(refusal(one_lacks_it, "nccl"), "rank 1 (node1): libnccl.so.2 cannot be loaded");
    EXPECT_EQ(choose(on_gpus({"", ""}, 0)).transport, AxisTransport::host);
}

TEST(Placement, NcclSharesAGpuFromItsVersion230On) {
    expect_has(refusal(on_gpus({"GPU-a", "GPU-a"}, plain), "nccl", true),
               "2 ranks share a GPU, which NCCL 2.28.9 cannot; 2.30.0 and later can");
    EXPECT_EQ(choose(on_gpus({"GPU-a", "GPU-a"}, sharing), "nccl", true).transport, AxisTransport::nccl);
}

TEST(Placement, MixturesAreRefused) {
    expect_has(refusal(on_gpus({"GPU-a", ""}, plain)), "rank 1 (node1) runs on the CPU, rank 0 (node1) on a GPU");
    expect_has(refusal(on_gpus({"", ""}, 0), "nccl"), "the ranks run on CPUs");
    std::vector<RankDevice> two_versions = on_gpus({"GPU-a", "GPU-b"}, plain);
    two_versions[1].nccl_version = sharing;
    expect_has(refusal(two_versions, "nccl"), "rank 1 (node1) has NCCL 2.30.7, rank 0 2.28.9");
}

// Parts never overlap, and all that was given back can be had again in one piece.
TEST(StagingRoom, HandsOutPartsAndJoinsThemAgain) {
    const StagingMemory memory(Backend::cpu, 960);
    StagingRoom room(memory.bytes());
    auto a = room.take(100), b = room.take(300), c = room.take(500);
    ASSERT_TRUE(a && b && c);
    EXPECT_EQ(a->size(), 128U);
    EXPECT_EQ(a->data() + a->size(), b->data());
    EXPECT_EQ(b->data() + b->size(), c->data());
    EXPECT_FALSE(room.take(1));
    EXPECT_TRUE(room.take(0));
    room.give(*b);
    EXPECT_FALSE(room.take(321));
    const auto again = room.take(320);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->data(), b->data());
    room.give(*a);
    room.give(*c);
    room.give(*again);
    EXPECT_TRUE(room.take(960));
    EXPECT_THROW(static_cast<void>(room.take(961)), Error);
}

}  // namespace
}  // namespace ogrom
