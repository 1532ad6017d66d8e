// Collectives and messages past 2^31 bytes and past 2^31 elements over device memory (B11): what is sent repeats with a
// period that no power of two is a multiple of, so a count or an offset of 32 bits moves or adds other elements. On a
// GPU with the memory alone.
#include <array>

#include "tests/device/comm_world.h"

namespace ogrom::test {
namespace {

constexpr i64 period = 1'000'003;
constexpr i64 count = (i64{1} << 31) + 1027;  // bf16: 4 GiB

// Device memory that repeats payload(rank, i mod period).
class Large {
public:
    Large(Stream stream, i64 n, int of_rank) : Large(stream, n) {
        const std::vector<Bf16> first = payloads<Bf16>(of_rank, std::min(period, n));
        copy_bytes(stream_, memory_, first.data(), static_cast<i64>(first.size() * sizeof(Bf16)));
        for (i64 have = static_cast<i64>(first.size()); have < n; have *= 2) {
            copy_bytes(stream_, memory_ + have, memory_, std::min(have, n - have) * static_cast<i64>(sizeof(Bf16)));
        }
        ogrom::wait(stream_);
    }
    Large(Stream stream, i64 n) : stream_(stream) {
        memory_ = static_cast<Bf16*>(cuda::allocate_device(n * static_cast<i64>(sizeof(Bf16))));
        cuda::fill_bytes_async(stream_, memory_, 0xFF, n * static_cast<i64>(sizeof(Bf16)));
    }
    ~Large() { cuda::free_device(memory_); }
    Large(const Large&) = delete;
    Large& operator=(const Large&) = delete;

    Bf16* data() { return memory_; }
    // Elements around 2^30 (2^31 bytes), 2^31 and the end of [first, first + n) are those of value(i), i from 0.
    template <class Value>
    void expect(const char* what, i64 first, i64 n, const Value& value) {
        wait_for_device(session().world(), stream_);
        for (const i64 at : {i64{0}, (i64{1} << 30) - 500, (i64{1} << 31) - 500, n - 1000}) {
            if (at + 1000 > n) {
                continue;
            }
            std::array<Bf16, 1000> got;
            copy_bytes(stream_, got.data(), memory_ + first + at, static_cast<i64>(sizeof got));
            ogrom::wait(stream_);
            for (i64 i = 0; i < 1000; ++i) {
                ASSERT_EQ(to_float(got[static_cast<std::size_t>(i)]), to_float(value((at + i) % period)))
                    << what << ", element " << at + i;
            }
        }
    }

private:
    Stream stream_;
    Bf16* memory_ = nullptr;
};

class LargeTransfers : public DeviceComm {
protected:
    void SetUp() override {
        DeviceComm::SetUp();
        if (IsSkipped()) {
            return;
        }
        // All ranks may share one device; each holds at most 4 times `count` elements.
        const double needed = 4.0 * 2 * static_cast<double>(count) * size();
        const i64 lacking = static_cast<double>(cuda::memory_info().free) < needed ? 1 : 0;
        if (agree_max(session().world(), lacking, "t.room") > 0) {
            GTEST_SKIP() << "needs " << needed / 1e9 << " GB of free GPU memory on each rank";
        }
    }
    [[nodiscard]] auto sum() const {
        return [ranks = size()](i64 i) { return summed<Bf16>(ranks, i); };
    }
    static auto of(int rank) {
        return [rank](i64 i) { return payload<Bf16>(rank, i); };
    }
};

INSTANTIATE_TEST_SUITE_P(Transports, LargeTransfers, testing::Values(Where::staged_gpu, Where::nccl),
                         [](const auto& test) { return name_of(test.param); });

TEST_P(LargeTransfers, all_reduce) {
    Large data(stream(), count, rank());
    comm().all_reduce(data.data(), count, Dtype::bf16, ReduceOp::sum, ReduceOrder::any, nullptr, "t.large").wait();
    data.expect("all_reduce", 0, count, sum());
}

TEST_P(LargeTransfers, fixed_order) {
    Large data(stream(), count, rank()), scratch(stream(), fixed_order_scratch(count, size()));
    comm()
        .all_reduce(data.data(), count, Dtype::bf16, ReduceOp::sum, ReduceOrder::fixed, scratch.data(), "t.large")
        .wait();
    data.expect("all_reduce, fixed order", 0, count, sum());
}

TEST_P(LargeTransfers, reduce_and_broadcast) {
    Large data(stream(), count, rank()), scratch(stream(), reduce_scratch(count, size()));
    const int root = size() - 1;
    comm()
        .reduce(data.data(), count, Dtype::bf16, root, ReduceOrder::any, rank() == root ? scratch.data() : nullptr,
                "t.large")
        .wait();
    if (rank() == root) {
        data.expect("reduce", 0, count, sum());
    }
    comm().broadcast(data.data(), count, Dtype::bf16, root, "t.large").wait();
    data.expect("broadcast", 0, count, sum());
}

// Each rank's part has more than 2^31 bytes, all together more than 2^31 elements.
TEST_P(LargeTransfers, gather_and_scatter) {
    constexpr i64 each = (i64{1} << 30) + 1027;
    Large mine(stream(), each, rank()), all(stream(), each * size());
    comm().all_gather(all.data(), mine.data(), each, Dtype::bf16, "t.large").wait();
    for (int r = 0; r < size(); ++r) {
        all.expect("all_gather", r * each, each, of(r));
    }
    // Every rank holds the same now: the sum of a part is size times it.
    Large part(stream(), each);
    comm().reduce_scatter(part.data(), all.data(), each, Dtype::bf16, ReduceOrder::any, nullptr, "t.large").wait();
    part.expect("reduce_scatter", 0, each, [this](i64 i) {
        Bf16 sum = payload<Bf16>(rank(), i);
        for (int r = 1; r < size(); ++r) {
            sum = plus(sum, payload<Bf16>(rank(), i));
        }
        return sum;
    });
}

TEST_P(LargeTransfers, messages) {
    Large out(stream(), count, rank()), in(stream(), count);
    const int next = (rank() + 1) % size(), last = (rank() + size() - 1) % size();
    Pending receive = comm().receive(in.data(), count, Dtype::bf16, last, "t.large");
    comm().send(out.data(), count, Dtype::bf16, next, "t.large").wait();
    receive.wait();
    in.expect("message", 0, count, of(last));
}

}  // namespace
}  // namespace ogrom::test
