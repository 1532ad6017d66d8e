// Messages between two ranks: every pair and direction, order, several chunks, and that whoever waits moves everything.
#include <algorithm>
#include <numeric>

#include "tests/mpi/world.h"

namespace ogrom {
namespace {

using test::Guarded;

// rank * 1000 + element, and the message's number far above.
double payload(int of_rank, int message, i64 element) {
    return message * 1e6 + of_rank * 1000 + static_cast<double>(element);
}

std::vector<double> payloads(int of_rank, int message, i64 count) {
    std::vector<double> values;
    for (i64 i = 0; i < count; ++i) {
        values.push_back(payload(of_rank, message, i));
    }
    return values;
}

TEST(Messages, every_pair_and_direction_carries_whole_buffers) {
    Communicator& world = test::session().world();
    const int rank = world.rank(), size = world.size();
    for (const i64 count : {i64{0}, i64{1}, i64{31}, i64{32}, i64{33}, i64{1001}}) {
        std::vector<Guarded<double>> out, in;
        std::vector<Pending> pending;
        out.reserve(static_cast<std::size_t>(size));
        in.reserve(static_cast<std::size_t>(size));
        for (int peer = 0; peer < size; ++peer) {
            out.emplace_back(count);
            in.emplace_back(count, -5.0);
            for (i64 i = 0; i < count; ++i) {
                out.back()[i] = payload(rank, peer, i);
            }
            if (peer != rank) {
                pending.push_back(world.send(out.back().data(), count, Dtype::fp64, peer, "t.pair"));
                pending.push_back(world.receive(in.back().data(), count, Dtype::fp64, peer, "t.pair"));
            }
        }
        pending.clear();  // waits
        for (int peer = 0; peer < size; ++peer) {
            auto& got = in[static_cast<std::size_t>(peer)];
            const std::vector<double> nothing(static_cast<std::size_t>(count), -5.0);
            EXPECT_EQ(got.values(), peer == rank ? nothing : payloads(peer, rank, count));
            EXPECT_TRUE(got.intact() && out[static_cast<std::size_t>(peer)].intact());
        }
    }
}

// The k-th send meets the k-th receive although receives are posted late, in turn with collectives, and waited for
// backwards. Small messages overtake large ones inside MPI.
TEST(Messages, of_one_pair_arrive_in_order_of_issue) {
    Communicator& world = test::session().world();
    const int rank = world.rank(), size = world.size();
    const int next = (rank + 1) % size, last = (rank + size - 1) % size;
    if (size == 1) {
        return;  // needs two ranks
    }
    const std::vector<i64> counts{5000, 1, 300, 0, 33, 5000, 2, 1};
    std::vector<std::vector<double>> out, in;
    std::vector<Pending> sends, receives;
    for (int m = 0; m < static_cast<int>(counts.size()); ++m) {
        const i64 count = counts[static_cast<std::size_t>(m)];
        out.push_back(payloads(rank, m, count));
        in.emplace_back(static_cast<std::size_t>(count), -1.0);
        sends.push_back(world.send(out.back().data(), count, Dtype::fp64, next, "t.order"));
    }
    double sum = rank;
    world.all_reduce(&sum, 1, Dtype::fp64, ReduceOp::sum, ReduceOrder::any, nullptr, "t.between").wait();
    EXPECT_EQ(sum, size * (size - 1) / 2);
    for (int m = 0; m < static_cast<int>(counts.size()); ++m) {
        auto& data = in[static_cast<std::size_t>(m)];
        receives.push_back(world.receive(data.data(), static_cast<i64>(data.size()), Dtype::fp64, last, "t.order"));
        world.progress();
    }
    for (auto item = receives.rbegin(); item != receives.rend(); ++item) {
        item->wait();
    }
    for (int m = 0; m < static_cast<int>(counts.size()); ++m) {
        EXPECT_EQ(in[static_cast<std::size_t>(m)], payloads(last, m, counts[static_cast<std::size_t>(m)])) << m;
    }
}

TEST(Messages, a_completed_send_may_overwrite_its_buffer) {
    Communicator& world = test::session().world();
    const int rank = world.rank(), size = world.size();
    if (size == 1) {
        return;  // needs two ranks
    }
    constexpr i64 count = 20'000;
    std::vector<double> buffer, got(count);
    for (int m = 0; m < 4; ++m) {
        buffer = payloads(rank, m, count);
        std::fill(got.begin(), got.end(), -1.0);
        Pending receive = world.receive(got.data(), count, Dtype::fp64, (rank + size - 1) % size, "t.reuse");
        Pending send = world.send(buffer.data(), count, Dtype::fp64, (rank + 1) % size, "t.reuse");
        send.wait();
        std::fill(buffer.begin(), buffer.end(), -3.0);
        receive.wait();
        ASSERT_EQ(got, payloads((rank + size - 1) % size, m, count));
    }
}

// Rank 0 waits for a message that rank 1 sends only after a reduction in several phases, on another communicator, which
// needs rank 0 to move it.
TEST(Engine, whoever_waits_moves_the_other_communicators) {
    Session& session = test::session();
    const int rank = session.rank(), size = session.size();
    if (size == 1) {
        return;  // needs two ranks
    }
    auto data_axis = session.split(0, rank, "axis a"), channel = session.split(0, rank, "axis b");
    constexpr i64 count = 5000;
    std::vector<double> data(count, rank + 1.0), message(count, -1.0);
    std::vector<double> scratch(static_cast<std::size_t>(fixed_order_scratch(count, size)));
    Pending reduction = data_axis->all_reduce(data.data(), count, Dtype::fp64, ReduceOp::sum, ReduceOrder::fixed,
                                              scratch.data(), "t.phases");
    if (rank == 0) {
        channel->receive(message.data(), count, Dtype::fp64, 1, "t.after").wait();
        EXPECT_EQ(message, std::vector<double>(count, size * (size + 1) / 2.0));
    }
    reduction.wait();
    if (rank == 1) {
        channel->send(data.data(), count, Dtype::fp64, 0, "t.after").wait();
    }
    EXPECT_EQ(data, std::vector<double>(count, size * (size + 1) / 2.0));
}

TEST(Messages, count_their_traffic_at_the_sender) {
    Session& session = test::session();
    auto part = session.split(0, session.rank(), "traffic");
    if (part->size() == 1) {
        return;  // needs two ranks
    }
    std::vector<float> data(99);
    if (part->rank() == 0) {
        part->send(data.data(), 99, Dtype::fp32, 1, "t.there").wait();
    } else if (part->rank() == 1) {
        part->receive(data.data(), 99, Dtype::fp32, 0, "t.there").wait();
    }
    EXPECT_EQ(part->bytes_sent(), part->rank() == 0 ? 99 * 4 : 0);
    if (part->rank() < 2) {
        EXPECT_EQ(part->bytes_by_label().at("t.there"), part->rank() == 0 ? 99 * 4 : 0);
    }
}

TEST(Messages, refuse_peers_that_are_none) {
    Communicator& world = test::session().world();
    double value = 0;
    for (const int peer : {-1, world.rank(), world.size()}) {
        EXPECT_THROW(world.send(&value, 1, Dtype::fp64, peer, "t"), Error);
        EXPECT_THROW(world.receive(&value, 1, Dtype::fp64, peer, "t"), Error);
    }
}

// What the receiver says when both ends disagree: a small message leaves the sender whatever the receiver does. The
// job's end after it is a case of cases.sh.
TEST(Messages, a_disagreement_names_label_counts_and_ranks) {
    Session& session = test::session();
    if (session.size() == 1) {
        return;  // needs two ranks
    }
    struct Wrong {
        i64 count;
        Dtype type;
        const char* text;
    };
    for (const Wrong& wrong : {Wrong{6, Dtype::fp64, "6 fp64"}, Wrong{4, Dtype::fp64, "4 fp64"},
                               Wrong{0, Dtype::fp64, "0 fp64"}, Wrong{5, Dtype::i64, "5 i64"}}) {
        auto part = session.split(0, session.rank(), "pp forward");
        std::vector<double> data(8, -1.0);
        if (part->rank() == 0) {
            part->send(data.data(), 5, Dtype::fp64, 1, "t.activations").wait();
        } else if (part->rank() == 1) {
            std::string text;
            try {
                part->receive(data.data(), wrong.count, wrong.type, 0, "t.activations").wait();
            } catch (const Error& error) {
                EXPECT_EQ(error.code(), ExitCode::peer);
                text = error.what();
            }
            const std::string head =
                "messages differ on pp forward: rank 1 of it receives #1 't.activations' from rank 0: ";
            EXPECT_EQ(text, head + wrong.text + ", but rank 0 sent #1 't.activations': 5 fp64");
            EXPECT_EQ(data, std::vector<double>(8, -1.0));  // nothing was taken
        }
    }
    session.world().barrier("t.after").wait();
}

}  // namespace
}  // namespace ogrom
