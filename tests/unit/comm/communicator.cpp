#include "src/comm/communicator.h"

#include <cstring>
#include <gtest/gtest.h>
#include <limits>

#include "kernels/common/error.h"

#include "src/comm/operation.h"
#include "src/comm/session.h"
#include "src/comm/transfer.h"

namespace ogrom {
namespace {

TEST(Single, every_collective_is_the_identity) {
    const auto comm = make_single_communicator();
    EXPECT_EQ(comm->rank(), 0);
    EXPECT_EQ(comm->size(), 1);
    std::vector<double> data{1, 2, 3}, out(3, std::numeric_limits<double>::quiet_NaN());
    comm->all_reduce(data.data(), 3, Dtype::fp64, ReduceOp::sum, ReduceOrder::fixed, nullptr, "a").wait();
    EXPECT_EQ(data, (std::vector<double>{1, 2, 3}));
    comm->reduce_scatter(out.data(), data.data(), 3, Dtype::fp64, ReduceOrder::fixed, nullptr, "b").wait();
    EXPECT_EQ(out, data);
    std::fill(out.begin(), out.end(), -1.0);
    comm->all_gather(out.data(), data.data(), 3, Dtype::fp64, "c").wait();
    EXPECT_EQ(out, data);
    comm->all_gather(out.data(), out.data(), 3, Dtype::fp64, "c").wait();
    comm->broadcast(out.data(), 3, Dtype::fp64, 0, "d").wait();
    comm->barrier("e").wait();
    comm->progress();
    EXPECT_EQ(out, data);
    EXPECT_EQ(comm->bytes_sent(), 0);
    EXPECT_EQ(agree_sum(*comm, 2.5, "f"), 2.5);
    EXPECT_EQ(agree_max(*comm, -3, "g"), -3);
    EXPECT_EQ(gather_text(*comm, "text", "h"), std::vector<std::string>{"text"});
    EXPECT_EQ(gather_text(*comm, "", "h"), std::vector<std::string>{""});
}

TEST(Single, refuses_what_any_communicator_refuses) {
    const auto comm = make_single_communicator();
    double value = 0;
    EXPECT_THROW(comm->broadcast(&value, 1, Dtype::fp8_e4m3, 0, "a"), Error);
    EXPECT_THROW(comm->broadcast(&value, 1, Dtype::fp64, 1, "a"), Error);
    EXPECT_THROW(comm->all_gather(&value, &value, -1, Dtype::fp64, "a"), Error);
}

TEST(Single, reductions_and_batches_are_the_identity) {
    const auto comm = make_single_communicator("tp");
    EXPECT_EQ(comm->name(), "tp");
    const std::vector<double> data{1, 2, 3, 4, 5, 6};
    std::vector<double> in = data, out(6, std::numeric_limits<double>::quiet_NaN());
    comm->reduce(in.data(), 6, Dtype::fp64, 0, ReduceOrder::fixed, nullptr, "a").wait();
    EXPECT_EQ(in, data);
    comm->all_gather_batched(out.data(), in.data(), 2, 3, Dtype::fp64, "b").wait();
    EXPECT_EQ(out, data);
    std::fill(out.begin(), out.end(), -1.0);
    comm->reduce_scatter_batched(out.data(), in.data(), 3, 2, Dtype::fp64, ReduceOrder::fixed, nullptr, "c").wait();
    EXPECT_EQ(out, data);
    EXPECT_EQ(in, data);
    EXPECT_THROW(comm->reduce(in.data(), 6, Dtype::fp64, 1, ReduceOrder::any, nullptr, "d"), Error);
    EXPECT_THROW(comm->all_gather_batched(out.data(), in.data(), 2, -1, Dtype::fp64, "d"), Error);
    EXPECT_THROW(comm->send(in.data(), 6, Dtype::fp64, 0, "d"), Error);  // there is nobody else
    EXPECT_THROW(comm->receive(in.data(), 6, Dtype::fp64, 1, "d"), Error);
    EXPECT_EQ(comm->split(2, 0, "part", CollectiveCheck::off)->name(), "part");
    EXPECT_EQ(comm->split(-1, 0, "part", CollectiveCheck::off), nullptr);
}

// What a communicator lacks it refuses, by its own name.
TEST(Communicator, lacking_calls_are_refused_by_name) {
    struct Bare : Communicator {
        [[nodiscard]] int rank() const override { return 0; }
        [[nodiscard]] int size() const override { return 2; }
        [[nodiscard]] std::string_view name() const override { return "bare"; }
        Pending all_reduce(void*, i64, Dtype, ReduceOp, ReduceOrder, void*, std::string_view) override { return {}; }
        Pending reduce_scatter(void*, const void*, i64, Dtype, ReduceOrder, void*, std::string_view) override {
            return {};
        }
        Pending all_gather(void*, const void*, i64, Dtype, std::string_view) override { return {}; }
        Pending broadcast(void*, i64, Dtype, int, std::string_view) override { return {}; }
        Pending barrier(std::string_view) override { return {}; }
        void progress() override {}
        [[nodiscard]] i64 bytes_sent() const override { return 0; }
    } bare;
    double value = 0;
    try {
        bare.reduce(&value, 1, Dtype::fp64, 0, ReduceOrder::any, nullptr, "x.sum");
        ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "collective 'x.sum': communicator bare carries no reduce");
    }
    EXPECT_THROW(bare.all_gather_batched(&value, &value, 1, 1, Dtype::fp64, "x"), Error);
    EXPECT_THROW(bare.reduce_scatter_batched(&value, &value, 1, 1, Dtype::fp64, ReduceOrder::any, nullptr, "x"), Error);
    EXPECT_THROW(bare.send(&value, 1, Dtype::fp64, 1, "x"), Error);
    EXPECT_THROW(bare.receive(&value, 1, Dtype::fp64, 1, "x"), Error);
    EXPECT_THROW(bare.split(0, 0, "x", CollectiveCheck::off), Error);
}

TEST(Pieces, cover_every_element_once_within_the_limit) {
    for (const i64 limit : {i64{1}, i64{3}, i64{7}, i64{64}, i64{1000}}) {
        for (const auto& shape : std::vector<std::pair<i64, i64>>{{0, 3}, {4, 0}, {1, 9}, {7, 5}, {33, 4}}) {
            const i64 count = shape.first, batches = shape.second;
            std::vector<int> visits(static_cast<std::size_t>(count * batches));
            in_pieces(count, batches, limit, [&](const Piece& piece) {
                EXPECT_LE(piece.batches * piece.count, std::max(limit, i64{1}));
                EXPECT_TRUE(piece.batches == 1 || piece.count == count);  // contiguous where the rows follow each other
                for (i64 b = piece.batch; b < piece.batch + piece.batches; ++b) {
                    for (i64 i = piece.first; i < piece.first + piece.count; ++i) {
                        ++visits[static_cast<std::size_t>(b * count + i)];
                    }
                }
            });
            EXPECT_EQ(visits, std::vector<int>(visits.size(), 1)) << count << " x " << batches << " by " << limit;
        }
    }
}

TEST(Single, session_without_mpi) {
    Session session({.single = true});
    session.set_phase(Phase::train, 7);
    EXPECT_EQ(session.size(), 1);
    EXPECT_EQ(session.rank(), 0);
    EXPECT_EQ(session.world().size(), 1);
    EXPECT_EQ(session.split(3, 4, "x")->size(), 1);
    EXPECT_FALSE(session.stop_requested());
    EXPECT_FALSE(session.host().empty());
}

TEST(Pending, an_empty_one_is_complete) {
    Pending none;
    EXPECT_TRUE(none.test());
    none.wait();
}

TEST(Pending, wait_tests_until_done_and_may_be_moved) {
    struct Slow : Pending::State {
        explicit Slow(int* left_) : left(left_) {}
        bool test() override { return --*left <= 0; }
        int* left;
    };
    int left = 5000;  // beyond the bare tests: gives the core away
    Pending first(std::make_unique<Slow>(&left));
    EXPECT_FALSE(first.test());
    Pending second = std::move(first);
    second.wait();
    EXPECT_LE(left, 0);
    EXPECT_TRUE(second.test());
}

TEST(OwnedPart, covers_every_element_once) {
    for (const int size : {1, 2, 3, 7}) {
        for (const i64 count : {i64{0}, i64{1}, i64{6}, i64{7}, i64{8}, i64{100}}) {
            i64 next = 0;
            for (int r = 0; r < size; ++r) {
                const OwnedPart part = owned_part(count, r, size);
                EXPECT_EQ(part.first, next);
                EXPECT_LE(part.count(), ceil_div(count, size));
                next = part.last;
            }
            EXPECT_EQ(next, count);
            EXPECT_GE(fixed_order_scratch(count, size), size == 1 ? 0 : ceil_div(count, size) * (size - 1));
        }
    }
}

// 1e8 + 1 - 1e8 in float is 0 from left to right and 1 in another order; sums are not carried in double.
TEST(Combine, adds_from_left_to_right_in_the_type_itself) {
    const float a = 1e8F, b = 1, c = -1e8F;
    const float* parts[] = {&a, &b, &c};
    float sum = std::numeric_limits<float>::quiet_NaN();
    combine_in_rank_order(
        &sum, [&](int r) { return parts[r]; }, 3, 1, Dtype::fp32, ReduceOp::sum);
    EXPECT_EQ(sum, 0.0F);
}

TEST(Combine, may_write_over_any_contribution) {
    for (int target = 0; target < 3; ++target) {
        std::vector<std::vector<i64>> parts(3, std::vector<i64>(5000));
        for (int r = 0; r < 3; ++r) {
            for (i64 i = 0; i < 5000; ++i) {
                parts[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)] = r * 1000 + i;
            }
        }
        combine_in_rank_order(
            parts[static_cast<std::size_t>(target)].data(),
            [&](int r) { return parts[static_cast<std::size_t>(r)].data(); }, 3, 5000, Dtype::i64, ReduceOp::sum);
        for (i64 i = 0; i < 5000; ++i) {
            ASSERT_EQ(parts[static_cast<std::size_t>(target)][static_cast<std::size_t>(i)], 3000 + 3 * i);
        }
    }
}

}  // namespace
}  // namespace ogrom
