// Every collective of the communicators over device memory, each type, against values computed from the ranks' numbers
// alone; the fixed order against the communicator over host memory, bit by bit.
#include <random>

#include "kernels/ops/flat.h"

#include "tests/device/comm_world.h"

namespace ogrom::test {
namespace {

class Collectives : public DeviceComm {
protected:
    // 0, 1, odd ones, several pieces of the small staging with a short last one.
    std::vector<i64> sizes() const { return {0, 1, size(), 7, 129, 1001, 12'345}; }
    template <class T>
    Block<T> scratch(i64 elements) {
        return Block<T>(stream(), elements + 1, T(55));
    }
};

INSTANTIATE_TEST_SUITE_P(Transports, Collectives,
                         testing::Values(Where::staged_cpu, Where::staged_cpu_small, Where::staged_gpu,
                                         Where::staged_gpu_small, Where::nccl),
                         [](const auto& test) { return name_of(test.param); });

std::string told(const char* what, Dtype type, i64 count, ReduceOrder order = ReduceOrder::any) {
    return std::string(what) + " of " + std::to_string(count) + " " + std::string(ogrom::name_of(type)) +
           (order == ReduceOrder::fixed ? ", fixed order" : "");
}

TEST_P(Collectives, all_reduce_sums_and_finds_extremes) {
    each_type([this]<class T>() {
        for (const i64 count : sizes()) {
            for (const ReduceOrder order : {ReduceOrder::any, ReduceOrder::fixed}) {
                Block<T> sum(stream(), payloads<T>(rank(), count)), high(stream(), payloads<T>(rank(), count)),
                    low(stream(), payloads<T>(rank(), count)),
                    room(stream(), fixed_order_scratch(count, size()) + 1, T(9));
                comm().all_reduce(sum.data(), count, dtype_of<T>(), ReduceOp::sum, order, room.data(), "t.sum").wait();
                comm().all_reduce(high.data(), count, dtype_of<T>(), ReduceOp::max, order, room.data(), "t.max").wait();
                comm().all_reduce(low.data(), count, dtype_of<T>(), ReduceOp::min, order, room.data(), "t.min").wait();
                const auto extreme = [&](i64 i, bool largest) {
                    T found = payload<T>(0, i);
                    for (int r = 1; r < size(); ++r) {
                        const T next = payload<T>(r, i);
                        const bool above = number(next) > number(found);
                        found = above == largest ? next : found;
                    }
                    return found;
                };
                const std::string what = told("all_reduce", dtype_of<T>(), count, order);
                expect_same(sum, vector_of<T>(count, [&](i64 i) { return summed<T>(size(), i); }), what);
                expect_same(high, vector_of<T>(count, [&](i64 i) { return extreme(i, true); }), what + " (max)");
                expect_same(low, vector_of<T>(count, [&](i64 i) { return extreme(i, false); }), what + " (min)");
            }
        }
    });
}

TEST_P(Collectives, reduce_gives_the_root_the_sum_and_leaves_the_others) {
    each_type([this]<class T>() {
        for (const i64 count : sizes()) {
            for (const ReduceOrder order : {ReduceOrder::any, ReduceOrder::fixed}) {
                const int root = static_cast<int>(count % size());
                Block<T> data(stream(), payloads<T>(rank(), count)),
                    room(stream(), reduce_scratch(count, size()) + 1, T(9));
                comm()
                    .reduce(data.data(), count, dtype_of<T>(), root, order, rank() == root ? room.data() : nullptr,
                            "t.r")
                    .wait();
                expect_same(
                    data,
                    vector_of<T>(count,
                                 [&](i64 i) { return rank() == root ? summed<T>(size(), i) : payload<T>(rank(), i); }),
                    told("reduce", dtype_of<T>(), count, order));
            }
        }
    });
}

TEST_P(Collectives, reduce_scatter_gives_each_owner_its_part) {
    each_type([this]<class T>() {
        for (const i64 count : sizes()) {
            for (const ReduceOrder order : {ReduceOrder::any, ReduceOrder::fixed}) {
                Block<T> in(stream(), payloads<T>(rank(), count * size())), out(stream(), count, T(33)),
                    room(stream(), fixed_order_scratch(count * size(), size()) + 1, T(9));
                comm().reduce_scatter(out.data(), in.data(), count, dtype_of<T>(), order, room.data(), "t.rs").wait();
                const std::string what = told("reduce_scatter", dtype_of<T>(), count, order);
                expect_same(out, vector_of<T>(count, [&](i64 i) { return summed<T>(size(), rank() * count + i); }),
                            what);
                expect_same(in, payloads<T>(rank(), count * size()), what + " (input)");
            }
        }
    });
}

TEST_P(Collectives, all_gather_orders_by_rank_also_in_place) {
    each_type([this]<class T>() {
        for (const i64 count : sizes()) {
            const auto expected =
                vector_of<T>(count * size(), [&](i64 i) { return payload<T>(static_cast<int>(i / count), i % count); });
            std::vector<T> begun(static_cast<std::size_t>(count * size()), T(44));
            const std::vector<T> mine = payloads<T>(rank(), count);
            std::copy(mine.begin(), mine.end(), begun.begin() + rank() * count);
            Block<T> in(stream(), mine), out(stream(), count * size(), T(33)), both(stream(), begun);
            comm().all_gather(out.data(), in.data(), count, dtype_of<T>(), "t.ag").wait();
            comm().all_gather(both.data(), both.data() + rank() * count, count, dtype_of<T>(), "t.ag").wait();
            expect_same(out, expected, told("all_gather", dtype_of<T>(), count));
            expect_same(both, expected, told("all_gather in place", dtype_of<T>(), count));
            expect_same(in, mine, "input");
        }
    });
}

// Rows of several pieces, several whole rows in a piece, and none.
TEST_P(Collectives, batched_calls_interleave_the_ranks_rows) {
    each_type([this]<class T>() {
        for (const auto& [count, batches] :
             std::vector<std::pair<i64, i64>>{{0, 3}, {5, 0}, {1, 9}, {7, 13}, {701, 5}, {5003, 3}}) {
            const i64 own = count * batches;
            Block<T> in(stream(), payloads<T>(rank(), own)), out(stream(), own * size(), T(33));
            comm().all_gather_batched(out.data(), in.data(), count, batches, dtype_of<T>(), "t.agb").wait();
            const std::string shape = " x " + std::to_string(batches);
            expect_same(out,
                        vector_of<T>(own * size(),
                                     [&](i64 i) {
                                         const i64 row = i / count;
                                         return payload<T>(static_cast<int>(row % size()),
                                                           row / size() * count + i % count);
                                     }),
                        told("all_gather_batched", dtype_of<T>(), count) + shape);
            for (const ReduceOrder order : {ReduceOrder::any, ReduceOrder::fixed}) {
                Block<T> whole(stream(), payloads<T>(rank(), own * size())), part(stream(), own, T(33)),
                    room(stream(), reduce_scratch(own, size()) + 1, T(9));
                comm()
                    .reduce_scatter_batched(part.data(), whole.data(), count, batches, dtype_of<T>(), order,
                                            room.data(), "t.rsb")
                    .wait();
                expect_same(part,
                            vector_of<T>(own,
                                         [&](i64 i) {
                                             const i64 row = i / count * size() + rank();
                                             return summed<T>(size(), row * count + i % count);
                                         }),
                            told("reduce_scatter_batched", dtype_of<T>(), count, order) + shape);
            }
        }
    });
}

TEST_P(Collectives, broadcast_from_every_root) {
    each_type([this]<class T>() {
        for (int root = 0; root < size(); ++root) {
            for (const i64 count : sizes()) {
                Block<T> data(stream(), payloads<T>(rank(), count));
                comm().broadcast(data.data(), count, dtype_of<T>(), root, "t.bc").wait();
                expect_same(data, payloads<T>(root, count), told("broadcast", dtype_of<T>(), count));
            }
        }
    });
    comm().barrier("t.barrier").wait_host();
}

// Contributions whose sum depends on the order of addition.
template <class T>
std::vector<T> rough(int rank, i64 count) {
    std::mt19937_64 generator(static_cast<u64>(rank) + 17);
    std::uniform_real_distribution<float> value(-1, 1);
    const float large = std::is_same_v<T, Fp16> ? 1e3F : 1e6F;  // sums of 8 ranks stay finite
    return vector_of<T>(count, [&](i64 i) { return static_cast<T>(value(generator) * (i % 3 == 0 ? large : 1.0F)); });
}

template <class T>
std::vector<T> rough_sum(int ranks, i64 count) {
    using Sum = std::conditional_t<is_16_bit<T>, float, T>;
    std::vector<std::vector<T>> all;
    for (int r = 0; r < ranks; ++r) {
        all.push_back(rough<T>(r, count));
    }
    return vector_of<T>(count, [&](i64 i) {
        Sum sum = static_cast<Sum>(all[0][static_cast<std::size_t>(i)]);
        for (int r = 1; r < ranks; ++r) {
            sum += static_cast<Sum>(all[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)]);
        }
        return static_cast<T>(sum);
    });
}

// The same bits from every call, from the communicator over host memory too; 16 bits in float, rounded once.
TEST_P(Collectives, fixed_order_gives_the_bits_of_the_host) {
    const auto check = [this]<class T>() {
        const i64 batches = 13, row = 154, count = batches * row, all = count * size();
        const std::vector<T> expected = rough_sum<T>(size(), all), mine = rough<T>(rank(), all);
        std::vector<T> host = mine, host_room(static_cast<std::size_t>(fixed_order_scratch(all, size())));
        comm()
            .host()
            .all_reduce(host.data(), all, dtype_of<T>(), ReduceOp::sum, ReduceOrder::fixed, host_room.data(), "t.h")
            .wait();
        EXPECT_TRUE(Block<T>::same(host, expected)) << ogrom::name_of(dtype_of<T>()) << " on the host";
        Block<T> data(stream(), mine), in(stream(), mine), out(stream(), count, T(3)), root(stream(), mine),
            room(stream(), reduce_scratch(all, size()) + all, T(9));
        const auto fixed = ReduceOrder::fixed;
        comm().all_reduce(data.data(), all, dtype_of<T>(), ReduceOp::sum, fixed, room.data(), "t.bits").wait();
        comm().reduce_scatter(out.data(), in.data(), count, dtype_of<T>(), fixed, room.data(), "t.bits").wait();
        comm().reduce(root.data(), all, dtype_of<T>(), size() - 1, fixed, room.data(), "t.bits").wait();
        expect_same(data, expected, "all_reduce");
        expect_same(out, std::vector<T>(expected.begin() + rank() * count, expected.begin() + (rank() + 1) * count),
                    "reduce_scatter");
        expect_same(root, rank() == size() - 1 ? expected : mine, "reduce");
        Block<T> rows(stream(), count, T(3));
        comm()
            .reduce_scatter_batched(rows.data(), in.data(), row, batches, dtype_of<T>(), fixed, room.data(), "t.bits")
            .wait();
        expect_same(
            rows,
            vector_of<T>(
                count,
                [&](i64 i) { return expected[static_cast<std::size_t>((i / row * size() + rank()) * row + i % row)]; }),
            "reduce_scatter_batched");
    };
    check.template operator()<float>();
    check.template operator()<double>();
    check.template operator()<Bf16>();
    check.template operator()<Fp16>();
}

// More calls under way than the staging holds, waited for in another order on each rank (NCCL: in any).
TEST_P(Collectives, many_under_way_complete_in_any_order) {
    constexpr int calls = 12;
    constexpr i64 count = 3001;
    std::vector<std::unique_ptr<Block<double>>> data, gathered, room;
    std::vector<Pending> pending;
    for (int k = 0; k < calls; ++k) {
        data.push_back(std::make_unique<Block<double>>(stream(), vector_of<double>(count, [&](i64 i) {
                                                           return rank() * 1000 + k * 10 + static_cast<double>(i);
                                                       })));
        gathered.push_back(std::make_unique<Block<double>>(stream(), count * size(), -1.0));
        room.push_back(std::make_unique<Block<double>>(stream(), fixed_order_scratch(count, size()), 9.0));
    }
    for (std::size_t k = 0; k < calls; ++k) {
        pending.push_back(
            k % 3 == 2
                ? comm().all_gather(gathered[k]->data(), data[k]->data(), count, Dtype::fp64, "t.mixed.gather")
                : comm().all_reduce(data[k]->data(), count, Dtype::fp64, ReduceOp::sum,
                                    k % 3 == 0 ? ReduceOrder::fixed : ReduceOrder::any, room[k]->data(), "t.mixed"));
        comm().progress();
    }
    for (int k = 0; k < calls; ++k) {
        pending[static_cast<std::size_t>((k * 5 + rank()) % calls)].wait();
    }
    for (int k = 0; k < calls; ++k) {
        const auto at = static_cast<std::size_t>(k);
        if (k % 3 == 2) {
            expect_same(*gathered[at],
                        vector_of<double>(count * size(),
                                          [&](i64 i) {
                                              return static_cast<double>(i / count) * 1000 + k * 10 +
                                                     static_cast<double>(i % count);
                                          }),
                        "gather " + std::to_string(k));
        } else {
            expect_same(
                *data[at],
                vector_of<double>(
                    count,
                    [&](i64 i) { return 500.0 * size() * (size() - 1) + size() * (k * 10 + static_cast<double>(i)); }),
                "sum " + std::to_string(k));
        }
    }
}

// What compute does before a call is in it, what it does after wait() sees it: no wait of the host in between.
TEST_P(Collectives, follow_compute_and_are_followed_by_it) {
    constexpr i64 count = 40'000;
    constexpr int rounds = 20;
    Block<float> data(stream(), count, -1), sum(stream(), count, 0);
    float expected = 0;
    for (int k = 0; k < rounds; ++k) {
        ops::fill<float>(stream(), data.data(), static_cast<float>(rank() + k), count);
        Pending pending =
            comm().all_reduce(data.data(), count, Dtype::fp32, ReduceOp::sum, ReduceOrder::any, nullptr, "t.f");
        if (k % 2 == 0) {
            pending.wait();
        } else {
            while (!pending.test()) {
            }
        }
        ops::add<float>(stream(), sum.data(), data.data(), count);
        expected += static_cast<float>(size() * (size() - 1) / 2 + size() * k);
    }
    expect_same(sum, std::vector<float>(count, expected), "sum over rounds");
}

TEST_P(Collectives, destroying_an_unfinished_one_waits_for_it) {
    Block<float> data(stream(), payloads<float>(rank(), 9001)), copy(stream(), 9001, -1);
    {
        const Pending dropped =
            comm().all_reduce(data.data(), 9001, Dtype::fp32, ReduceOp::sum, ReduceOrder::any, nullptr, "t.dropped");
    }
    ops::copy<float>(stream(), copy.data(), data.data(), 9001);
    expect_same(copy, vector_of<float>(9001, [&](i64 i) { return summed<float>(size(), i); }), "after");
}

TEST_P(Collectives, bytes_are_counted_as_on_host_memory) {
    auto device = another(GetParam(), "traffic");
    auto plain = session().split(0, session().rank(), "traffic");
    const auto call_all = [&](Communicator& on, void* data, void* out, void* room) {
        for (const ReduceOrder order : {ReduceOrder::any, ReduceOrder::fixed}) {
            on.all_reduce(data, 4999, Dtype::fp64, ReduceOp::sum, order, room, "a").wait();
            on.reduce(data, 4999, Dtype::fp32, 1, order, room, "b").wait();
            on.reduce_scatter(out, data, 611, Dtype::fp64, order, room, "c").wait();
            on.reduce_scatter_batched(out, data, 31, 17, Dtype::bf16, order, room, "d").wait();
        }
        on.all_gather(out, data, 611, Dtype::fp64, "e").wait();
        on.all_gather_batched(out, data, 31, 17, Dtype::fp64, "f").wait();
        on.broadcast(data, 4999, Dtype::i64, 1, "g").wait();
        on.barrier("h").wait();
        Pending sent = on.send(data, 99, Dtype::fp32, (rank() + 1) % size(), "i");
        on.receive(out, 99, Dtype::fp32, (rank() + size() - 1) % size(), "i").wait();
        sent.wait();
    };
    const i64 most = 5000 * size();
    std::vector<double> data(static_cast<std::size_t>(most)), out(data), room(data);
    call_all(*plain, data.data(), out.data(), room.data());
    Block<double> on_data(stream(), most, 0), on_out(stream(), most, 0), on_room(stream(), most, 0);
    const auto before = device->bytes_by_label();  // NCCL's ids
    call_all(*device, on_data.data(), on_out.data(), on_room.data());
    for (const auto& [label, bytes] : plain->bytes_by_label()) {
        EXPECT_EQ(device->bytes_by_label().at(label), bytes) << label;
    }
    i64 others = 0;
    for (const auto& [label, bytes] : before) {
        others += bytes;
    }
    EXPECT_EQ(device->bytes_sent(), plain->bytes_sent() + others);
    wait_for_device(session().world(), stream());
}

TEST_P(Collectives, refuse_what_the_host_refuses) {
    Block<double> data(stream(), 8, 1.0);
    for (const Dtype type : {Dtype::fp8_e4m3, Dtype::fp8_e5m2, Dtype::u16}) {
        EXPECT_THROW(comm().broadcast(data.data(), 1, type, 0, "t.type"), Error);
    }
    EXPECT_THROW(comm().broadcast(data.data(), 1, Dtype::fp64, size(), "t.root"), Error);
    EXPECT_THROW(comm().reduce(data.data(), 1, Dtype::fp64, -1, ReduceOrder::any, nullptr, "t.root"), Error);
    EXPECT_THROW(comm().broadcast(data.data(), -1, Dtype::fp64, 0, "t.count"), Error);
    EXPECT_THROW(comm().all_gather_batched(data.data(), data.data(), 1, -1, Dtype::fp64, "t.batches"), Error);
    EXPECT_THROW(comm().all_reduce(data.data(), 8, Dtype::fp64, ReduceOp::sum, ReduceOrder::fixed, nullptr, "t.room"),
                 Error);
    for (const int peer : {-1, rank(), size()}) {
        EXPECT_THROW(comm().send(data.data(), 1, Dtype::fp64, peer, "t"), Error);
        EXPECT_THROW(comm().receive(data.data(), 1, Dtype::fp64, peer, "t"), Error);
    }
    EXPECT_EQ(agree_sum(comm(), i64{rank()}, "t.host"), i64{size()} * (size() - 1) / 2);
}

}  // namespace
}  // namespace ogrom::test
