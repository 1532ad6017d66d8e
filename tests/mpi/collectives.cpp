// Every collective, type and order against values computed from the ranks' numbers alone. The chunk limit of this
// program is 256 bytes, so that sizes above 32 doubles are cut as counts above 2^30 bytes are in production (B23).
#include <algorithm>
#include <cstring>
#include <random>

#include "tests/mpi/world.h"

namespace ogrom {
namespace {

using test::Guarded;

template <class T>
class Collectives : public testing::Test {
protected:
    Communicator& world = test::session().world();
    int rank = world.rank();
    int size = world.size();
    Dtype type = dtype_of<T>();
    // 0, 1, size - 1, odd ones, one and several chunks with a short last one.
    std::vector<i64> sizes{0, 1, size - 1, size, 7, 31, 64, 129, 1001};

    // Whole numbers below 2^24: sums are exact in every type and any order.
    static T payload(int of_rank, i64 element) { return static_cast<T>(of_rank * 1000 + element % 997); }
    T summed(i64 element) {
        T sum{};
        for (int r = 0; r < size; ++r) {
            sum = static_cast<T>(sum + payload(r, element));
        }
        return sum;
    }
    std::vector<T> scratch(i64 count) {
        return std::vector<T>(static_cast<std::size_t>(fixed_order_scratch(count, size)), T(-99));
    }
};

using Types = testing::Types<float, double, std::int32_t, i64, u64>;
TYPED_TEST_SUITE(Collectives, Types);

TYPED_TEST(Collectives, all_reduce_sums_whole_buffers) {
    for (const ReduceOrder order : {ReduceOrder::any, ReduceOrder::fixed}) {
        for (const i64 count : this->sizes) {
            Guarded<TypeParam> data(count);
            std::vector<TypeParam> expected;
            for (i64 i = 0; i < count; ++i) {
                data[i] = this->payload(this->rank, i);
                expected.push_back(this->summed(i));
            }
            auto scratch = this->scratch(count);
            scratch.push_back(0);  // never empty
            this->world.all_reduce(data.data(), count, this->type, ReduceOp::sum, order, scratch.data(), "t.sum")
                .wait();
            EXPECT_EQ(data.values(), expected) << "count " << count << " order " << static_cast<int>(order);
            EXPECT_TRUE(data.intact());
        }
    }
}

TYPED_TEST(Collectives, all_reduce_max_and_min) {
    for (const ReduceOrder order : {ReduceOrder::any, ReduceOrder::fixed}) {
        for (const i64 count : this->sizes) {
            Guarded<TypeParam> high(count), low(count);
            std::vector<TypeParam> highest, lowest;
            for (i64 i = 0; i < count; ++i) {
                high[i] = low[i] = this->payload(this->rank, i);
                highest.push_back(this->payload(this->size - 1, i));
                lowest.push_back(this->payload(0, i));
            }
            auto scratch = this->scratch(count);
            scratch.push_back(0);
            this->world.all_reduce(high.data(), count, this->type, ReduceOp::max, order, scratch.data(), "t.max")
                .wait();
            this->world.all_reduce(low.data(), count, this->type, ReduceOp::min, order, scratch.data(), "t.min").wait();
            EXPECT_EQ(high.values(), highest);
            EXPECT_EQ(low.values(), lowest);
            EXPECT_TRUE(high.intact() && low.intact());
        }
    }
}

TYPED_TEST(Collectives, reduce_scatter_gives_each_owner_its_part) {
    for (const ReduceOrder order : {ReduceOrder::any, ReduceOrder::fixed}) {
        for (const i64 count : this->sizes) {
            Guarded<TypeParam> in(count * this->size), out(count);
            for (i64 i = 0; i < count * this->size; ++i) {
                in[i] = this->payload(this->rank, i);
            }
            const std::vector<TypeParam> before = in.values();
            std::vector<TypeParam> expected;
            for (i64 i = 0; i < count; ++i) {
                expected.push_back(this->summed(this->rank * count + i));
            }
            auto scratch = this->scratch(count * this->size);
            scratch.push_back(0);
            this->world.reduce_scatter(out.data(), in.data(), count, this->type, order, scratch.data(), "t.rs").wait();
            EXPECT_EQ(out.values(), expected) << "count " << count << " order " << static_cast<int>(order);
            EXPECT_EQ(in.values(), before);
            EXPECT_TRUE(in.intact() && out.intact());
        }
    }
}

TYPED_TEST(Collectives, all_gather_orders_by_rank_also_in_place) {
    for (const i64 count : this->sizes) {
        std::vector<TypeParam> expected;
        for (i64 i = 0; i < count * this->size; ++i) {
            expected.push_back(this->payload(static_cast<int>(i / count), i % count));
        }
        Guarded<TypeParam> in(count), out(count * this->size), both(count * this->size);
        for (i64 i = 0; i < count; ++i) {
            in[i] = both[this->rank * count + i] = this->payload(this->rank, i);
        }
        this->world.all_gather(out.data(), in.data(), count, this->type, "t.ag").wait();
        this->world.all_gather(both.data(), both.data() + this->rank * count, count, this->type, "t.ag").wait();
        EXPECT_EQ(out.values(), expected);
        EXPECT_EQ(both.values(), expected);
        EXPECT_TRUE(in.intact() && out.intact() && both.intact());
    }
}

TYPED_TEST(Collectives, broadcast_from_every_root) {
    for (int root = 0; root < this->size; ++root) {
        for (const i64 count : this->sizes) {
            Guarded<TypeParam> data(count);
            std::vector<TypeParam> expected;
            for (i64 i = 0; i < count; ++i) {
                data[i] = this->payload(this->rank, i);
                expected.push_back(this->payload(root, i));
            }
            this->world.broadcast(data.data(), count, this->type, root, "t.bc").wait();
            EXPECT_EQ(data.values(), expected);
            EXPECT_TRUE(data.intact());
        }
    }
}

// Contributions whose sum depends on the order of addition, drawn from (rank, element).
template <class T>
std::vector<T> rough(int rank, i64 count) {
    std::mt19937_64 generator(static_cast<u64>(rank) + 17);
    std::uniform_real_distribution<T> value(-1, 1);
    std::vector<T> values;
    for (i64 i = 0; i < count; ++i) {
        values.push_back(value(generator) * (i % 3 == 0 ? T(1e6) : T(1)));
    }
    return values;
}

template <class T>
void fixed_order_bits() {
    Communicator& world = test::session().world();
    constexpr i64 count = 1000;
    std::vector<T> expected = rough<T>(0, count);
    for (int r = 1; r < world.size(); ++r) {
        const std::vector<T> next = rough<T>(r, count);
        for (i64 i = 0; i < count; ++i) {
            expected[static_cast<std::size_t>(i)] += next[static_cast<std::size_t>(i)];
        }
    }
    // Whatever the cut into calls, also all outstanding at once.
    for (const i64 cut : {i64{1000}, i64{333}, i64{64}, i64{17}}) {
        std::vector<T> data = rough<T>(world.rank(), count);
        std::vector<std::vector<T>> scratch;
        std::vector<Pending> pending;
        for (i64 first = 0; first < count; first += cut) {
            const i64 now = std::min(cut, count - first);
            scratch.emplace_back(static_cast<std::size_t>(fixed_order_scratch(now, world.size()) + 1));
            pending.push_back(world.all_reduce(data.data() + first, now, dtype_of<T>(), ReduceOp::sum,
                                               ReduceOrder::fixed, scratch.back().data(), "t.cut"));
        }
        for (auto item = pending.rbegin(); item != pending.rend(); ++item) {
            item->wait();  // last first: completion does not depend on the order of waiting
        }
        EXPECT_EQ(0, std::memcmp(data.data(), expected.data(), count * sizeof(T))) << "cut " << cut;
    }
    const i64 part = count / world.size();
    std::vector<T> in = rough<T>(world.rank(), count), out(static_cast<std::size_t>(part), T(-1));
    std::vector<T> scratch(static_cast<std::size_t>(fixed_order_scratch(part * world.size(), world.size()) + 1));
    world.reduce_scatter(out.data(), in.data(), part, dtype_of<T>(), ReduceOrder::fixed, scratch.data(), "t.rs").wait();
    EXPECT_EQ(
        0, std::memcmp(out.data(), expected.data() + world.rank() * part, static_cast<std::size_t>(part) * sizeof(T)));
}

TEST(FixedOrder, bits_do_not_depend_on_the_cut_fp32) {
    fixed_order_bits<float>();
}
TEST(FixedOrder, bits_do_not_depend_on_the_cut_fp64) {
    fixed_order_bits<double>();
}

TEST(Outstanding, mixed_collectives_complete_in_any_order) {
    Communicator& world = test::session().world();
    const int size = world.size();
    constexpr i64 count = 301;
    std::vector<std::vector<double>> data(12, std::vector<double>(count)), scratch(12);
    std::vector<std::vector<double>> gathered(12);
    std::vector<Pending> pending;
    for (int k = 0; k < 12; ++k) {
        auto& mine = data[static_cast<std::size_t>(k)];
        for (i64 i = 0; i < count; ++i) {
            mine[static_cast<std::size_t>(i)] = world.rank() * 1000 + k * 10 + static_cast<double>(i);
        }
        scratch[static_cast<std::size_t>(k)].resize(static_cast<std::size_t>(fixed_order_scratch(count, size) + 1));
        if (k % 3 == 2) {
            gathered[static_cast<std::size_t>(k)].resize(static_cast<std::size_t>(count * size));
            pending.push_back(world.all_gather(gathered[static_cast<std::size_t>(k)].data(), mine.data(), count,
                                               Dtype::fp64, "t.mixed.gather"));
        } else {
            pending.push_back(world.all_reduce(mine.data(), count, Dtype::fp64, ReduceOp::sum,
                                               k % 3 == 0 ? ReduceOrder::fixed : ReduceOrder::any,
                                               scratch[static_cast<std::size_t>(k)].data(), "t.mixed.sum"));
        }
        world.progress();
    }
    // Each rank waits in another order.
    for (int k = 0; k < 12; ++k) {
        pending[static_cast<std::size_t>((k * 5 + world.rank()) % 12)].wait();
    }
    for (int k = 0; k < 12; ++k) {
        for (i64 i = 0; i < count; ++i) {
            if (k % 3 == 2) {
                const auto& all = gathered[static_cast<std::size_t>(k)];
                for (int r = 0; r < size; ++r) {
                    ASSERT_EQ(all[static_cast<std::size_t>(r * count + i)], r * 1000 + k * 10 + static_cast<double>(i));
                }
            } else {
                const double sum = 500.0 * size * (size - 1) + size * (k * 10 + static_cast<double>(i));
                ASSERT_EQ(data[static_cast<std::size_t>(k)][static_cast<std::size_t>(i)], sum) << k << " " << i;
            }
        }
    }
}

TEST(Outstanding, destroying_an_unfinished_one_waits_for_it) {
    Communicator& world = test::session().world();
    std::vector<double> data(500, 1.0), scratch(static_cast<std::size_t>(fixed_order_scratch(500, world.size()) + 1));
    {
        const Pending dropped = world.all_reduce(data.data(), 500, Dtype::fp64, ReduceOp::sum, ReduceOrder::fixed,
                                                 scratch.data(), "t.dropped");
    }
    EXPECT_EQ(data, std::vector<double>(500, world.size()));
}

TEST(Traffic, bytes_follow_the_documented_formula) {
    auto part = test::session().split(0, test::session().rank(), "traffic");
    const i64 p = part->size(), r = part->rank(), count = 10;
    std::vector<double> data(static_cast<std::size_t>(count * p)), out(static_cast<std::size_t>(count * p));
    std::vector<double> scratch(static_cast<std::size_t>(fixed_order_scratch(count * p, static_cast<int>(p)) + 1));
    i64 expected = 0;
    const i64 per = ceil_div(count, p), own = std::min(per * (r + 1), count) - std::min(per * r, count);
    for (const ReduceOrder order : {ReduceOrder::any, ReduceOrder::fixed}) {
        part->all_reduce(data.data(), count, Dtype::fp64, ReduceOp::sum, order, scratch.data(), "a").wait();
        expected += p == 1 ? 0 : (count - own + (p - 1) * own) * 8;
        EXPECT_EQ(part->bytes_sent(), expected);
        part->reduce_scatter(out.data(), data.data(), count, Dtype::fp64, order, scratch.data(), "b").wait();
        expected += (p - 1) * count * 8;
        EXPECT_EQ(part->bytes_sent(), expected);
    }
    part->all_gather(out.data(), data.data(), count, Dtype::fp64, "c").wait();
    part->broadcast(data.data(), count, Dtype::fp32, 0, "d").wait();
    part->barrier("e").wait();
    expected += (p - 1) * count * 8 + (r == 0 ? (p - 1) * count * 4 : 0);
    EXPECT_EQ(part->bytes_sent(), expected);
    if (p == 1) {
        return;  // a communicator of one rank keeps no labels
    }
    EXPECT_EQ(part->bytes_by_label().at("c"), (p - 1) * count * 8);
    EXPECT_EQ(part->bytes_by_label().at("e"), 0);
    // Over all ranks: a reduce-scatter and an all-gather of the buffer.
    const i64 reduced = agree_sum(*part, part->bytes_by_label().at("a"), "t");
    EXPECT_EQ(reduced, 2 * 2 * (p - 1) * count * 8);
}

TEST(Refusals, types_counts_roots_and_scratch) {
    Communicator& world = test::session().world();
    std::vector<double> data(8);
    for (const Dtype type : {Dtype::fp8_e4m3, Dtype::fp8_e5m2, Dtype::u16}) {
        try {
            world.broadcast(data.data(), 1, type, 0, "t.type").wait();
            ADD_FAILURE() << "accepted " << name_of(type);
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find(name_of(type)), std::string::npos) << error.what();
        }
    }
    EXPECT_THROW(world.broadcast(data.data(), 1, Dtype::fp64, world.size(), "t.root"), Error);
    EXPECT_THROW(world.broadcast(data.data(), -1, Dtype::fp64, 0, "t.count"), Error);
    if (world.size() > 1) {
        EXPECT_THROW(
            world.all_reduce(data.data(), 8, Dtype::fp64, ReduceOp::sum, ReduceOrder::fixed, nullptr, "t.none"), Error);
    }
}

}  // namespace
}  // namespace ogrom
