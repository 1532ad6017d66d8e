// Messages of the communicators over device memory: order, sizes beyond the staging, partners that come late.
#include "kernels/ops/flat.h"

#include "tests/device/comm_world.h"

namespace ogrom::test {
namespace {

class Messages : public DeviceComm {
protected:
    [[nodiscard]] int next() const { return (rank() + 1) % size(); }
    [[nodiscard]] int last() const { return (rank() + size() - 1) % size(); }
    [[nodiscard]] std::vector<double> numbered(int of_rank, int message, i64 count) const {
        return vector_of<double>(count, [&](i64 i) { return message * 1e6 + of_rank * 1000 + static_cast<double>(i); });
    }
    [[nodiscard]] bool staged() const { return GetParam() != Where::nccl; }  // every pair; both ends are compared
};

INSTANTIATE_TEST_SUITE_P(Transports, Messages,
                         testing::Values(Where::staged_cpu, Where::staged_cpu_small, Where::staged_gpu,
                                         Where::staged_gpu_small, Where::nccl),
                         [](const auto& test) { return name_of(test.param); });

// The k-th send meets the k-th receive, around the ring, receives posted late and waited for backwards.
TEST_P(Messages, arrive_in_order_of_issue) {
    const std::vector<i64> counts{5000, 1, 300, 0, 33, 20'001, 2, 1};
    std::vector<std::unique_ptr<Block<double>>> out, in;
    std::vector<Pending> sends, receives;
    for (std::size_t m = 0; m < counts.size(); ++m) {
        out.push_back(std::make_unique<Block<double>>(stream(), numbered(rank(), static_cast<int>(m), counts[m])));
        in.push_back(std::make_unique<Block<double>>(stream(), counts[m], -1.0));
    }
    for (std::size_t m = 0; m < counts.size(); ++m) {
        sends.push_back(comm().send(out[m]->data(), counts[m], Dtype::fp64, next(), "t.order"));
    }
    Block<double> sum(stream(), 1, rank());
    comm().all_reduce(sum.data(), 1, Dtype::fp64, ReduceOp::sum, ReduceOrder::any, nullptr, "t.between").wait();
    expect_same(sum, {size() * (size() - 1) / 2.0}, "between");
    for (std::size_t m = 0; m < counts.size(); ++m) {
        receives.push_back(comm().receive(in[m]->data(), counts[m], Dtype::fp64, last(), "t.order"));
        comm().progress();
    }
    for (auto item = receives.rbegin(); item != receives.rend(); ++item) {
        item->wait();
    }
    sends.clear();
    for (std::size_t m = 0; m < counts.size(); ++m) {
        expect_same(*in[m], numbered(last(), static_cast<int>(m), counts[m]), "message " + std::to_string(m));
    }
}

// A pipeline's way: each rank adds its own to what it received and sends it on, with no wait of the host for NCCL; a
// buffer is written again as soon as its send is complete.
TEST_P(Messages, chain_through_all_ranks) {
    constexpr i64 count = 30'000;
    Block<float> data(stream(), count, -1), mine(stream(), count, static_cast<float>(rank() + 1));
    for (int k = 0; k < 6; ++k) {
        if (rank() > 0) {
            comm().receive(data.data(), count, Dtype::fp32, last(), "t.chain").wait();
        } else {
            ops::fill<float>(stream(), data.data(), static_cast<float>(k), count);
        }
        ops::add<float>(stream(), data.data(), mine.data(), count);
        if (rank() + 1 < size()) {
            comm().send(data.data(), count, Dtype::fp32, next(), "t.chain").wait();
        } else {
            const float sum = static_cast<float>(k) + static_cast<float>(size() * (size() + 1)) / 2;
            expect_same(data, std::vector<float>(count, sum), "round " + std::to_string(k));
        }
    }
}

// Both neighbours post the receive before the send, as a schedule does; receives stand beside collectives.
TEST_P(Messages, receives_posted_early_hold_nothing_up) {
    constexpr i64 count = 10'007;
    Block<double> out(stream(), numbered(rank(), 1, count)), in(stream(), count, -1.0), sum(stream(), count, 1.0);
    Pending receive = comm().receive(in.data(), count, Dtype::fp64, last(), "t.early");
    comm().all_reduce(sum.data(), count, Dtype::fp64, ReduceOp::sum, ReduceOrder::any, nullptr, "t.early").wait();
    expect_same(sum, std::vector<double>(count, size()), "sum while a receive waits");
    comm().send(out.data(), count, Dtype::fp64, next(), "t.early").wait();
    receive.wait();
    expect_same(in, numbered(last(), 1, count), "received");
}

TEST_P(Messages, every_type_travels) {
    each_type([this]<class T>() {
        Block<T> out(stream(), payloads<T>(rank(), 4099)), in(stream(), 4099, T(3));
        Pending receive = comm().receive(in.data(), 4099, dtype_of<T>(), last(), "t.type");
        comm().send(out.data(), 4099, dtype_of<T>(), next(), "t.type").wait();
        receive.wait();
        expect_same(in, payloads<T>(last(), 4099), std::string(ogrom::name_of(dtype_of<T>())));
    });
}

// Rank 0 sends to 1, which takes it only after word of 2, which needs what rank 0 sends later: each message alone is
// larger than the small staging.
TEST_P(Messages, a_late_partner_takes_no_room_from_the_others) {
    if (size() < 3 || !staged()) {
        return;  // three ranks, of pairs that are no neighbours
    }
    constexpr i64 count = 9000;
    Block<double> a(stream(), numbered(rank(), 1, count)), b(stream(), numbered(rank(), 2, count)),
        in(stream(), count, -1.0);
    if (rank() == 0) {
        Pending first = comm().send(a.data(), count, Dtype::fp64, 1, "t.late");
        comm().send(b.data(), count, Dtype::fp64, 2, "t.late").wait();
        first.wait();
    } else if (rank() == 1) {
        comm().receive(in.data(), count, Dtype::fp64, 2, "t.late").wait();
        expect_same(in, numbered(2, 1, count), "of rank 2");
        comm().receive(in.data(), count, Dtype::fp64, 0, "t.late").wait();
        expect_same(in, numbered(0, 1, count), "of rank 0");
    } else if (rank() == 2) {
        comm().receive(in.data(), count, Dtype::fp64, 0, "t.late").wait();
        expect_same(in, numbered(0, 2, count), "of rank 0");
        comm().send(a.data(), count, Dtype::fp64, 1, "t.late").wait();
    }
}

TEST_P(Messages, a_disagreement_names_label_counts_and_ranks) {
    if (!staged()) {
        return;  // NCCL compares nothing
    }
    struct Wrong {
        i64 count;
        Dtype type;
        const char* text;
    };
    for (const Wrong& wrong : {Wrong{6, Dtype::fp64, "6 fp64"}, Wrong{9000, Dtype::fp64, "9000 fp64"},
                               Wrong{0, Dtype::fp64, "0 fp64"}, Wrong{5, Dtype::i64, "5 i64"}}) {
        auto part = another(GetParam(), "pp forward");
        Block<double> data(stream(), 9000, -1.0);
        if (rank() == 0) {
            part->send(data.data(), 5, Dtype::fp64, 1, "t.activations").wait();
        } else if (rank() == 1) {
            std::string text;
            try {
                part->receive(data.data(), wrong.count, wrong.type, 0, "t.activations").wait();
            } catch (const Error& error) {
                EXPECT_EQ(error.code(), ExitCode::peer);
                text = error.what();
            }
            EXPECT_EQ(text, std::string("messages differ on pp forward: rank 1 of it receives #1 't.activations' from "
                                        "rank 0: ") +
                                wrong.text + ", but rank 0 sent #1 't.activations': 5 fp64");
        }
        part.reset();
        session().world().barrier("t.after").wait();
    }
}

TEST_P(Messages, nccl_refuses_ranks_without_a_channel) {
    if (staged() || size() < 3) {
        return;  // of NCCL, and a rank that is no neighbour
    }
    Block<double> data(stream(), 1, 0.0);
    try {
        comm().send(data.data(), 1, Dtype::fp64, last(), "t.none");
        ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("no channel"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace ogrom::test
