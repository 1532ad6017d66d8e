// Reduce to a root and the batched collectives against values computed from the ranks' numbers alone, over one and
// several chunks (the chunk limit of this program is 256 bytes).
#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "tests/mpi/world.h"

namespace ogrom {
namespace {

using test::Guarded;

template <class T>
class Reductions : public testing::Test {
protected:
    Communicator& world = test::session().world();
    int rank = world.rank(), size = world.size();
    Dtype type = dtype_of<T>();
    std::vector<i64> sizes{0, 1, 7, 31, 64, 129, 501};
    // Rows of one chunk, several whole rows in a chunk, a row of several chunks.
    std::vector<std::pair<i64, i64>> shapes{{0, 3},  {5, 0},  {1, 1},  {1, 9},  {3, 5},
                                            {7, 13}, {31, 1}, {33, 4}, {129, 3}};

    // Whole numbers below 2^24: sums are exact in every type and any order.
    static T payload(int of_rank, i64 element) { return static_cast<T>(of_rank * 1000 + element % 997); }
    T summed(i64 element) {
        T sum{};
        for (int r = 0; r < size; ++r) {
            sum = static_cast<T>(sum + payload(r, element));
        }
        return sum;
    }
    std::vector<T> room(i64 elements) {  // never empty
        return std::vector<T>(static_cast<std::size_t>(reduce_scratch(elements, size) + 1), T(-99));
    }
};

using Types = testing::Types<float, double, std::int32_t, i64, u64>;
TYPED_TEST_SUITE(Reductions, Types);

TYPED_TEST(Reductions, reduce_gives_the_root_the_sum_and_leaves_the_others) {
    for (const ReduceOrder order : {ReduceOrder::any, ReduceOrder::fixed}) {
        for (int root = 0; root < this->size; ++root) {
            for (const i64 count : this->sizes) {
                Guarded<TypeParam> data(count);
                std::vector<TypeParam> expected;
                for (i64 i = 0; i < count; ++i) {
                    data[i] = this->payload(this->rank, i);
                    expected.push_back(this->rank == root ? this->summed(i) : this->payload(this->rank, i));
                }
                auto scratch = this->room(count);
                void* const given = this->rank == root ? scratch.data() : nullptr;
                this->world.reduce(data.data(), count, this->type, root, order, given, "t.reduce").wait();
                EXPECT_EQ(data.values(), expected) << "count " << count << " root " << root;
                EXPECT_TRUE(data.intact());
            }
        }
    }
}

TYPED_TEST(Reductions, all_gather_batched_interleaves_the_ranks_rows) {
    for (const auto& [count, batches] : this->shapes) {
        Guarded<TypeParam> in(count * batches), out(count * batches * this->size);
        std::vector<TypeParam> expected;
        for (i64 i = 0; i < count * batches; ++i) {
            in[i] = this->payload(this->rank, i);
        }
        for (i64 b = 0; b < batches; ++b) {
            for (int r = 0; r < this->size; ++r) {
                for (i64 i = 0; i < count; ++i) {
                    expected.push_back(this->payload(r, b * count + i));
                }
            }
        }
        const std::vector<TypeParam> before = in.values();
        this->world.all_gather_batched(out.data(), in.data(), count, batches, this->type, "t.agb").wait();
        EXPECT_EQ(out.values(), expected) << count << " x " << batches;
        EXPECT_EQ(in.values(), before);
        EXPECT_TRUE(in.intact() && out.intact());
    }
}

TYPED_TEST(Reductions, reduce_scatter_batched_gives_each_rank_its_rows) {
    for (const ReduceOrder order : {ReduceOrder::any, ReduceOrder::fixed}) {
        for (const auto& [count, batches] : this->shapes) {
            Guarded<TypeParam> in(count * batches * this->size), out(count * batches);
            for (i64 i = 0; i < count * batches * this->size; ++i) {
                in[i] = this->payload(this->rank, i);
            }
            const std::vector<TypeParam> before = in.values();
            std::vector<TypeParam> expected;
            for (i64 b = 0; b < batches; ++b) {
                for (i64 i = 0; i < count; ++i) {
                    expected.push_back(this->summed((b * this->size + this->rank) * count + i));
                }
            }
            auto scratch = this->room(count * batches);
            this->world
                .reduce_scatter_batched(out.data(), in.data(), count, batches, this->type, order, scratch.data(),
                                        "t.rsb")
                .wait();
            EXPECT_EQ(out.values(), expected) << count << " x " << batches;
            EXPECT_EQ(in.values(), before);
            EXPECT_TRUE(in.intact() && out.intact());
        }
    }
}

// Contributions whose sum depends on the order of addition.
std::vector<double> rough(int rank, i64 count) {
    std::mt19937_64 generator(static_cast<u64>(rank) + 17);
    std::uniform_real_distribution<double> value(-1, 1);
    std::vector<double> values;
    for (i64 i = 0; i < count; ++i) {
        values.push_back(value(generator) * (i % 3 == 0 ? 1e6 : 1));
    }
    return values;
}

std::vector<double> rough_sum(int size, i64 count) {
    std::vector<double> sum = rough(0, count);
    for (int r = 1; r < size; ++r) {
        const std::vector<double> next = rough(r, count);
        for (i64 i = 0; i < count; ++i) {
            sum[static_cast<std::size_t>(i)] += next[static_cast<std::size_t>(i)];
        }
    }
    return sum;
}

void expect_same_bits(const std::vector<double>& found, const std::vector<double>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(0, std::memcmp(found.data(), expected.data(), found.size() * sizeof(double)));
}

// The reductions of one buffer give the same bits whatever call they take: owners of a ZeRO 1 bucket equal the
// all-reduce of ZeRO 0.
TEST(FixedReductions, add_in_rank_order_whatever_the_call) {
    Communicator& world = test::session().world();
    const int size = world.size(), rank = world.rank();
    constexpr i64 count = 40, batches = 5;
    const i64 all = count * batches * size;
    const std::vector<double> expected = rough_sum(size, all);
    std::vector<double> scratch(static_cast<std::size_t>(reduce_scratch(all, size) + 1));
    for (int root = 0; root < size; ++root) {
        std::vector<double> data = rough(rank, all);
        world.reduce(data.data(), all, Dtype::fp64, root, ReduceOrder::fixed, scratch.data(), "t.bits").wait();
        expect_same_bits(data, root == rank ? expected : rough(rank, all));
    }
    const std::vector<double> in = rough(rank, all);
    std::vector<double> out(count * batches, std::numeric_limits<double>::quiet_NaN()), wanted;
    for (i64 b = 0; b < batches; ++b) {
        const auto first = expected.begin() + (b * size + rank) * count;
        wanted.insert(wanted.end(), first, first + count);
    }
    world
        .reduce_scatter_batched(out.data(), in.data(), count, batches, Dtype::fp64, ReduceOrder::fixed, scratch.data(),
                                "t.bits")
        .wait();
    expect_same_bits(out, wanted);
}

// Buckets reduced to changing owners, all under way at once and waited for in another order on each rank.
TEST(FixedReductions, many_under_way_complete_in_any_order) {
    Communicator& world = test::session().world();
    const int size = world.size(), rank = world.rank();
    constexpr i64 count = 77;
    constexpr int calls = 9;
    std::vector<std::vector<double>> data, scratch;
    std::vector<Pending> pending;
    for (int k = 0; k < calls; ++k) {
        data.push_back(rough(rank, count + k));
        scratch.emplace_back(static_cast<std::size_t>(reduce_scratch(count + k, size) + 1));
        const ReduceOrder order = k % 3 == 2 ? ReduceOrder::any : ReduceOrder::fixed;
        pending.push_back(world.reduce(data.back().data(), count + k, Dtype::fp64, k % size, order,
                                       scratch.back().data(), "t.buckets"));
    }
    for (int k = 0; k < calls; ++k) {
        pending[static_cast<std::size_t>((k * 4 + rank) % calls)].wait();
    }
    for (int k = 0; k < calls; ++k) {
        const std::vector<double> expected = k % size == rank ? rough_sum(size, count + k) : rough(rank, count + k);
        if (k % 3 != 2) {
            expect_same_bits(data[static_cast<std::size_t>(k)], expected);
            continue;
        }
        for (i64 i = 0; i < count + k; ++i) {  // <= 8 terms of <= 1e6: each addition rounds by <= 8e6 * 2^-53
            ASSERT_NEAR(data[static_cast<std::size_t>(k)][static_cast<std::size_t>(i)],
                        expected[static_cast<std::size_t>(i)], 8 * 8e6 * 0x1p-53);
        }
    }
}

TEST(ReductionTraffic, bytes_follow_the_documented_formula) {
    Session& session = test::session();
    auto part = session.split(0, session.rank(), "traffic");
    const i64 p = part->size(), r = part->rank(), count = 10, batches = 3;
    std::vector<double> in(static_cast<std::size_t>(count * batches * p)), out(in.size()), scratch(in.size() * 8);
    const i64 root = p - 1;
    i64 expected = 0;
    for (const ReduceOrder order : {ReduceOrder::any, ReduceOrder::fixed}) {
        part->reduce(in.data(), count, Dtype::fp64, static_cast<int>(root), order, scratch.data(), "reduce").wait();
        part->reduce_scatter_batched(out.data(), in.data(), count, batches, Dtype::fp32, order, scratch.data(),
                                     "scatter")
            .wait();
        expected += (r == root ? 0 : count * 8) + (p - 1) * count * batches * 4;
        EXPECT_EQ(part->bytes_sent(), expected);
    }
    part->all_gather_batched(out.data(), in.data(), count, batches, Dtype::fp64, "gather").wait();
    expected += (p - 1) * count * batches * 8;
    EXPECT_EQ(part->bytes_sent(), expected);
    if (p > 1) {
        EXPECT_EQ(part->bytes_by_label().at("reduce"), r == root ? 0 : 2 * count * 8);
        EXPECT_EQ(part->bytes_by_label().at("scatter"), 2 * (p - 1) * count * batches * 4);
        EXPECT_EQ(part->bytes_by_label().at("gather"), (p - 1) * count * batches * 8);
    }
}

TEST(ReductionRefusals, roots_batches_and_scratch) {
    Communicator& world = test::session().world();
    std::vector<double> data(64);
    EXPECT_THROW(world.reduce(data.data(), 1, Dtype::fp64, -1, ReduceOrder::any, nullptr, "t"), Error);
    EXPECT_THROW(world.reduce(data.data(), 1, Dtype::fp64, world.size(), ReduceOrder::any, nullptr, "t"), Error);
    EXPECT_THROW(world.reduce(data.data(), -1, Dtype::fp64, 0, ReduceOrder::any, nullptr, "t"), Error);
    EXPECT_THROW(world.reduce(data.data(), 1, Dtype::fp8_e4m3, 0, ReduceOrder::any, nullptr, "t"), Error);
    EXPECT_THROW(world.all_gather_batched(data.data(), data.data(), 1, -1, Dtype::fp64, "t"), Error);
    EXPECT_THROW(
        world.reduce_scatter_batched(data.data(), data.data(), 1, -1, Dtype::fp64, ReduceOrder::any, nullptr, "t"),
        Error);
}

}  // namespace
}  // namespace ogrom
