// The delayed communicator (field case B08): same payloads, no operation complete before its delay, delays of one link
// one after the other, completion independent of the order of waiting.
#include "src/comm/delayed.h"

#include <chrono>

#include "tests/mpi/world.h"

namespace ogrom {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

std::unique_ptr<Communicator> delayed(const DelaySpec& delay) {
    Session& session = test::session();
    return make_delayed_communicator(session.split(0, session.rank(), "slow"), delay);
}

TEST(Delayed, carries_every_operation_unchanged) {
    const auto slow = delayed({1e-4, 1e-9});
    const int rank = slow->rank(), size = slow->size();
    EXPECT_EQ(rank, test::session().rank());
    EXPECT_EQ(slow->name(), "slow");
    constexpr i64 count = 33, batches = 2;
    const double total = 1000.0 * size * (size - 1) / 2;
    const auto mine = [&](i64 n) {
        std::vector<double> values;
        for (i64 i = 0; i < n; ++i) {
            values.push_back(rank * 1000 + static_cast<double>(i));
        }
        return values;
    };
    const i64 all = count * batches * size;
    std::vector<double> scratch(static_cast<std::size_t>(all * size + 1)), out(static_cast<std::size_t>(all), -1.0);
    std::vector<double> data = mine(count);
    slow->all_reduce(data.data(), count, Dtype::fp64, ReduceOp::sum, ReduceOrder::fixed, scratch.data(), "t").wait();
    EXPECT_EQ(data[5], total + 5 * size);
    data = mine(count);
    slow->reduce(data.data(), count, Dtype::fp64, size - 1, ReduceOrder::any, nullptr, "t").wait();
    EXPECT_EQ(data[6], rank == size - 1 ? total + 6 * size : rank * 1000 + 6);
    data = mine(count * size);
    slow->reduce_scatter(out.data(), data.data(), count, Dtype::fp64, ReduceOrder::any, nullptr, "t").wait();
    EXPECT_EQ(out[7], total + static_cast<double>(size * (rank * count + 7)));
    slow->all_gather(out.data(), data.data(), count, Dtype::fp64, "t").wait();
    EXPECT_EQ(out[static_cast<std::size_t>((size - 1) * count + 8)], (size - 1) * 1000 + 8);
    slow->all_gather_batched(out.data(), data.data(), 3, batches, Dtype::fp64, "t").wait();
    EXPECT_EQ(out[static_cast<std::size_t>((size + size - 1) * 3 + 1)], (size - 1) * 1000 + 4);
    data = mine(all);
    slow->reduce_scatter_batched(out.data(), data.data(), count, batches, Dtype::fp64, ReduceOrder::fixed,
                                 scratch.data(), "t")
        .wait();
    EXPECT_EQ(out[count + 2], total + static_cast<double>(size * ((size + rank) * count + 2)));
    data.assign(count, rank);
    slow->broadcast(data.data(), count, Dtype::fp64, size - 1, "t").wait();
    EXPECT_EQ(data[9], size - 1);
    slow->barrier("t").wait();
    if (size > 1) {
        std::vector<double> got(count, -1.0);
        Pending receive = slow->receive(got.data(), count, Dtype::fp64, (rank + 1) % size, "t");
        slow->send(mine(count).data(), count, Dtype::fp64, (rank + size - 1) % size, "t").wait();
        receive.wait();
        EXPECT_EQ(got[10], (rank + 1) % size * 1000 + 10);
        EXPECT_GT(slow->bytes_sent(), 0);
    }
}

TEST(Delayed, completes_no_earlier_than_its_delay) {
    constexpr double fixed = 0.02, per_byte = 1e-4;
    constexpr i64 count = 100;  // 0.02 + 0.08 s
    const auto slow = delayed({fixed, per_byte});
    if (slow->size() == 1) {
        return;  // nothing moves over one rank
    }
    std::vector<double> data(count, slow->rank() + 1.0);
    const auto start = Clock::now();
    Pending sum = slow->all_reduce(data.data(), count, Dtype::fp64, ReduceOp::sum, ReduceOrder::any, nullptr, "t");
    int tests = 0;
    while (!sum.test()) {
        slow->progress();
        ++tests;
    }
    EXPECT_GE(since(start), fixed + per_byte * count * 8);
    EXPECT_GT(tests, 0);
    EXPECT_TRUE(sum.test());
    EXPECT_EQ(data, std::vector<double>(count, slow->size() * (slow->size() + 1) / 2.0));
}

TEST(Delayed, serves_one_delay_after_the_other) {
    constexpr double delay = 0.02;
    constexpr int calls = 4;
    const auto slow = delayed({delay, 0});
    if (slow->size() == 1) {
        return;  // nothing moves over one rank
    }
    std::vector<double> data(calls, 1.0);
    std::vector<Pending> pending;
    const auto start = Clock::now();
    for (int k = 0; k < calls; ++k) {
        pending.push_back(slow->all_reduce(&data[static_cast<std::size_t>(k)], 1, Dtype::fp64, ReduceOp::sum,
                                           ReduceOrder::any, nullptr, "t"));
    }
    pending.back().wait();  // whatever order they arrive in
    for (auto item = pending.rbegin(); item != pending.rend(); ++item) {
        item->wait();
    }
    EXPECT_GE(since(start), calls * delay);
    EXPECT_EQ(data, std::vector<double>(calls, slow->size()));
}

// The delay is no work: a core that computes in the meantime finds the operation complete.
TEST(Delayed, passes_while_the_caller_computes) {
    const auto slow = delayed({0.03, 0});
    if (slow->size() == 1) {
        return;  // nothing moves over one rank
    }
    double value = 1;
    Pending sum = slow->all_reduce(&value, 1, Dtype::fp64, ReduceOp::sum, ReduceOrder::any, nullptr, "t");
    while (value != slow->size()) {
        slow->progress();
    }
    test::session().world().barrier("t.moved").wait();
    slow->progress();  // its data has moved everywhere: the delay runs at the latest from here
    const auto start = Clock::now();
    while (since(start) < 0.03) {
    }
    EXPECT_TRUE(sum.test());
}

TEST(Delayed, delays_one_label_alone) {
    const auto time_of = [](Communicator& comm, const char* label) {
        double value = 1;
        const auto start = Clock::now();
        comm.all_reduce(&value, 1, Dtype::fp64, ReduceOp::sum, ReduceOrder::any, nullptr, label).wait();
        EXPECT_EQ(value, comm.size());
        return since(start);
    };
    constexpr double long_delay = 10;  // a call that does not wait for it is done before, on however slow a machine
    const auto very_slow = delayed({.seconds = long_delay, .seconds_per_byte = 0, .only = "slow"});
    EXPECT_LT(time_of(*very_slow, "other"), long_delay);
    const auto slow = delayed({.seconds = 0.05, .seconds_per_byte = 0, .only = "slow"});
    EXPECT_GE(time_of(*slow, "slow"), slow->size() > 1 ? 0.05 : 0.0);
}

TEST(Delayed, a_barrier_and_an_empty_operation_wait_for_nothing) {
    const auto slow = delayed({30, 0});
    const auto start = Clock::now();
    slow->barrier("t").wait();
    slow->all_reduce(nullptr, 0, Dtype::fp64, ReduceOp::sum, ReduceOrder::any, nullptr, "t").wait();
    EXPECT_LT(since(start), 30);
}

TEST(Delayed, destroying_an_unfinished_one_waits_for_it) {
    const auto slow = delayed({0.02, 0});
    double value = 1;
    const auto start = Clock::now();
    { const Pending dropped = slow->all_reduce(&value, 1, Dtype::fp64, ReduceOp::sum, ReduceOrder::any, nullptr, "t"); }
    EXPECT_EQ(value, slow->size());
    EXPECT_GE(since(start), slow->size() > 1 ? 0.02 : 0.0);
}

}  // namespace
}  // namespace ogrom
