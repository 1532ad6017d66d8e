#include "src/optim/gradients.h"

#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

#include "tests/unit/optim/odd_model.h"

namespace ogrom {
namespace {

// A communicator of `size` ranks that all hold the same data: a sum multiplies by size, when the call is tested for the
// third time. Counts what is under way.
class Mirror : public Communicator {
public:
    explicit Mirror(int size) : size_(size) {}
    [[nodiscard]] int rank() const override { return 0; }
    [[nodiscard]] int size() const override { return size_; }
    [[nodiscard]] std::string_view name() const override { return "mirror"; }

    struct Late : Pending::State {
        Late(Mirror& mirror, std::function<void()> action) : owner(mirror), complete(std::move(action)) {
            owner.most_under_way = std::max(owner.most_under_way, ++owner.under_way);
        }
        bool test() override {
            if (done) {
                return true;
            }
            if (++tests < 3) {
                return false;
            }
            done = true;
            --owner.under_way;
            complete();
            return true;
        }
        void wait() override {
            while (!test()) {
            }
        }
        Mirror& owner;
        std::function<void()> complete;
        int tests = 0;
        bool done = false;
    };

    Pending all_reduce(void* data, i64 count, Dtype type, ReduceOp op, ReduceOrder order, void* scratch,
                       std::string_view) override {
        EXPECT_EQ(op, ReduceOp::sum);
        EXPECT_EQ(type, Dtype::fp64);
        if (order == ReduceOrder::fixed) {
            EXPECT_NE(scratch, nullptr);
            // Nothing else may use the scratch while this call is under way.
            std::memset(scratch, 0x5A, static_cast<std::size_t>(fixed_order_scratch(count, size_)) * sizeof(double));
        }
        auto* values = static_cast<double*>(data);
        issued.emplace_back(values, count);
        return Pending(std::make_unique<Late>(*this, [this, values, count] {
            for (i64 i = 0; i < count; ++i) {
                values[i] *= size_;
            }
        }));
    }
    Pending reduce_scatter(void*, const void*, i64, Dtype, ReduceOrder, void*, std::string_view) override { return {}; }
    Pending all_gather(void* out, const void* in, i64 count, Dtype type, std::string_view) override {
        const auto bytes = static_cast<std::size_t>(count * size_of(type));
        return Pending(std::make_unique<Late>(*this, [this, out, in, bytes] {
            for (int r = 0; r < size_; ++r) {
                std::memcpy(static_cast<char*>(out) + static_cast<std::size_t>(r) * bytes, in, bytes);
            }
        }));
    }
    Pending broadcast(void*, i64, Dtype, int, std::string_view) override { return {}; }
    Pending barrier(std::string_view) override { return {}; }
    void progress() override {}
    [[nodiscard]] i64 bytes_sent() const override { return 0; }

    std::vector<std::pair<double*, i64>> issued;
    int under_way = 0, most_under_way = 0;

private:
    int size_;
};

TEST(Buckets, CoverTheBufferFromTheEnd) {
    for (const i64 size : {1, 7, 100, 4097}) {
        for (const i64 elements : {1, 7, 64, 5000}) {
            const std::vector<Bucket> buckets = make_buckets(size, elements);
            i64 expected_last = size;
            for (const Bucket& bucket : buckets) {
                EXPECT_EQ(bucket.last, expected_last);
                EXPECT_LE(bucket.last - bucket.first, elements);
                EXPECT_LT(bucket.first, bucket.last);
                expected_last = bucket.first;
            }
            EXPECT_EQ(expected_last, 0);
        }
    }
}

struct Reduction {
    Reduction(int ranks, i64 bucket, ReduceOrder order, bool overlap) : mirror(ranks) {
        const GradientReducer<double>::Options options{bucket, order, overlap};
        Ledger ledger;
        ledger.add("gradients", Tier::device, odd.layout.size() * 8, "8 P");
        GradientReducer<double>::declare(ledger, odd.layout, ranks, options);
        arena = std::make_unique<Arena>(ledger);
        gradients = arena->take<double>("gradients");
        reducer = std::make_unique<GradientReducer<double>>(mirror, odd.layout, gradients, *arena, options);
    }

    // Two micro-batches; the second reports ranges from the end, with the first tensor (the token table) in two parts
    // as a tied head does. `poison`: element made NaN before its range is reported.
    void step(i64 poison = -1) {
        std::iota(gradients.begin(), gradients.end(), 1.0);
        const auto backward = [&](bool last) {
            reducer->begin(last);
            const auto tensors = odd.layout.tensors();
            for (std::size_t t = tensors.size(); t-- > 1;) {
                report(tensors[t].offset, tensors[t].offset + tensors[t].count, poison);
            }
            const i64 half = tensors[0].count / 2 + 1;
            report(half, tensors[0].count, poison);
            report(0, half, poison);
        };
        backward(false);
        EXPECT_TRUE(mirror.issued.empty()) << "only the last micro-batch is reduced";
        backward(true);
        reducer->finish();
    }
    void report(i64 first, i64 last, i64 poison) {
        if (poison >= first && poison < last) {
            gradients[static_cast<std::size_t>(poison)] = std::numeric_limits<double>::quiet_NaN();
        }
        reducer->ready(first, last);
    }

    OddLayout odd;
    Mirror mirror;
    std::unique_ptr<Arena> arena;
    std::span<double> gradients;
    std::unique_ptr<GradientReducer<double>> reducer;
};

TEST(GradientReducer, EveryElementIsSummedOnce) {
    for (const ReduceOrder order : {ReduceOrder::any, ReduceOrder::fixed}) {
        for (const bool overlap : {true, false}) {
            for (const i64 bucket : {1, 7, 37 * 15, 1'000'000}) {
                Reduction r(3, bucket, order, overlap);
                r.step();
                for (std::size_t i = 0; i < r.gradients.size(); ++i) {
                    ASSERT_EQ(r.gradients[i], 3.0 * static_cast<double>(i + 1))
                        << "bucket " << bucket << " element " << i;
                }
                EXPECT_EQ(r.mirror.under_way, 0);
                EXPECT_LE(r.mirror.most_under_way, 4);
                EXPECT_FALSE(r.reducer->agree_nonfinite().found);
            }
        }
    }
}

TEST(GradientReducer, BucketsGoOutFromTheEndInOneOrder) {
    Reduction r(2, 100, ReduceOrder::any, true);
    r.step();
    double* end = r.gradients.data() + r.gradients.size();
    for (const auto& [start, count] : r.mirror.issued) {
        EXPECT_EQ(start + count, end);
        end = start;
    }
    EXPECT_EQ(end, r.gradients.data());
}

TEST(GradientReducer, OneRankSendsNothing) {
    Reduction r(1, 64, ReduceOrder::fixed, true);
    r.step();
    EXPECT_TRUE(r.mirror.issued.empty());
    EXPECT_EQ(r.gradients[5], 6.0);
}

TEST(GradientReducer, NamesTheParameterThatWasNotFinite) {
    for (const char* name : {"block.1.mlp.up.bias", "embedding.token.weight", "final_norm.weight"}) {
        Reduction r(2, 64, ReduceOrder::any, true);
        const LocalTensor& tensor = r.odd.layout.tensor(name);
        r.step(tensor.offset + tensor.count - 1);
        const NonFiniteReport report = r.reducer->agree_nonfinite();
        EXPECT_TRUE(report.found);
        EXPECT_EQ(report.rank, 0);
        EXPECT_EQ(report.parameter, name);
        r.mirror.issued.clear();
        r.step();
        EXPECT_FALSE(r.reducer->agree_nonfinite().found) << "a report belongs to its step";
    }
}

TEST(GradientReducer, AMissingRangeIsNotedAtTheEnd) {
    Reduction r(2, 64, ReduceOrder::any, true);
    r.reducer->begin(true);
    r.reducer->ready(1, r.odd.layout.size());
    EXPECT_THROW(r.reducer->finish(), Error);
}

}  // namespace
}  // namespace ogrom
