// Meshes of every factorisation of the ranks at hand: each axis carries payloads that name their origin, compared with
// what the mesh's numbering written out here says.
#include "src/comm/mesh.h"

#include <memory>

#include "src/comm/mpi_check.h"

#include "tests/mpi/world.h"

namespace ogrom {
namespace {

// Every (pipeline, data, tensor, zero_group) with pipeline data tensor = ranks.
std::vector<ParallelConfig> factorisations(int ranks) {
    std::vector<ParallelConfig> all;
    for (int pp = 1; pp <= ranks; ++pp) {
        for (int dp = 1; dp <= ranks / pp; ++dp) {
            for (int group = 1; ranks % (pp * dp) == 0 && group <= dp; ++group) {
                if (dp % group == 0) {
                    ParallelConfig parallel;
                    parallel.pipeline = pp;
                    parallel.data = dp;
                    parallel.tensor = ranks / pp / dp;
                    parallel.zero_group = group;
                    all.push_back(parallel);
                }
            }
        }
    }
    return all;
}

std::vector<double> gathered(Communicator& axis, int world_rank) {
    std::vector<double> mine{world_rank * 1000.0, world_rank * 1000.0 + 1, world_rank * 1000.0 + 2};
    std::vector<double> all(mine.size() * static_cast<std::size_t>(axis.size()), -1.0);
    axis.all_gather(all.data(), mine.data(), 3, Dtype::fp64, "t.origin").wait();
    return all;
}

void expect_members(const std::unique_ptr<Communicator>& axis, std::string_view name, int world_rank,
                    const std::vector<int>& members) {
    ASSERT_NE(axis, nullptr) << name;
    EXPECT_EQ(axis->name(), name);
    ASSERT_EQ(axis->size(), static_cast<int>(members.size())) << name;
    EXPECT_EQ(members[static_cast<std::size_t>(axis->rank())], world_rank) << name;
    std::vector<double> expected;
    for (const int member : members) {
        expected.insert(expected.end(), {member * 1000.0, member * 1000.0 + 1, member * 1000.0 + 2});
    }
    EXPECT_EQ(gathered(*axis, world_rank), expected) << name;
}

// The members of every axis of `rank`, from the numbering alone: rank = (pp * D + dp) * T + tp.
struct Members {
    std::vector<int> tp, dp, shard, replica, pp;
};
Members members_of(int rank, int P, int D, int T, int Z) {
    const int pp = rank / (D * T), dp = rank / T % D, tp = rank % T;
    Members found;
    for (int other = 0; other < P * D * T; ++other) {
        const int pp2 = other / (D * T), dp2 = other / T % D, tp2 = other % T;
        const bool beside = pp2 == pp && tp2 == tp;
        if (pp2 == pp && dp2 == dp) {
            found.tp.push_back(other);
        }
        if (beside) {
            found.dp.push_back(other);
        }
        if (beside && dp2 / Z == dp / Z) {
            found.shard.push_back(other);
        }
        if (beside && dp2 % Z == dp % Z) {
            found.replica.push_back(other);
        }
        if (dp2 == dp && tp2 == tp) {
            found.pp.push_back(other);
        }
    }
    return found;
}

// From stage to stage and back, each channel in its own direction.
void expect_channels(const Mesh& mesh, int rank, const Members& members) {
    const int stage = mesh.place.pp, last = mesh.shape.pp - 1;
    std::vector<double> down(3, -1.0), up(3, -1.0), mine{rank * 1000.0, rank * 1000.0 + 1, rank * 1000.0 + 2};
    std::vector<Pending> pending;
    if (stage > 0) {
        pending.push_back(mesh.pp_forward->receive(down.data(), 3, Dtype::fp64, stage - 1, "t.down"));
        pending.push_back(mesh.pp_backward->send(mine.data(), 3, Dtype::fp64, stage - 1, "t.up"));
    }
    if (stage < last) {
        pending.push_back(mesh.pp_forward->send(mine.data(), 3, Dtype::fp64, stage + 1, "t.down"));
        pending.push_back(mesh.pp_backward->receive(up.data(), 3, Dtype::fp64, stage + 1, "t.up"));
    }
    pending.clear();
    const auto from = [&](int other_stage) {
        const double origin = members.pp[static_cast<std::size_t>(other_stage)] * 1000.0;
        return std::vector<double>{origin, origin + 1, origin + 2};
    };
    EXPECT_EQ(down, stage > 0 ? from(stage - 1) : std::vector<double>(3, -1.0));
    EXPECT_EQ(up, stage < last ? from(stage + 1) : std::vector<double>(3, -1.0));
}

void expect_mesh(Communicator& world, const ParallelConfig& parallel, int rank) {
    const int P = static_cast<int>(parallel.pipeline), D = static_cast<int>(parallel.data);
    const int T = static_cast<int>(parallel.tensor), Z = static_cast<int>(parallel.zero_group);
    const Mesh mesh = make_mesh(world, parallel);
    const Members members = members_of(rank, P, D, T, Z);
    EXPECT_EQ(mesh.world, &world);
    expect_members(mesh.tp, "tp", rank, members.tp);
    expect_members(mesh.dp, "dp", rank, members.dp);
    expect_members(mesh.shard, "zero", rank, members.shard);
    expect_members(mesh.replica, "replica", rank, members.replica);
    expect_members(mesh.pp_forward, "pp forward", rank, members.pp);
    expect_members(mesh.pp_backward, "pp backward", rank, members.pp);
    expect_channels(mesh, rank, members);
    const bool end = mesh.place.pp == 0 || mesh.place.pp == P - 1;
    if (P == 1 || !end) {
        EXPECT_EQ(mesh.tie, nullptr);
    } else {
        expect_members(mesh.tie, "tie", rank, {members.pp.front(), members.pp.back()});
    }
}

TEST(Mesh, every_factorisation_joins_the_right_ranks) {
    Communicator& world = test::session().world();
    for (const ParallelConfig& parallel : factorisations(world.size())) {
        SCOPED_TRACE(testing::Message() << "pp " << parallel.pipeline << " dp " << parallel.data << " tp "
                                        << parallel.tensor << " zero_group " << parallel.zero_group);
        expect_mesh(world, parallel, world.rank());
    }
}

// A test program runs meshes of fewer ranks than it has: one part works, the others too, at the same time.
TEST(Mesh, may_be_made_over_a_part_of_the_world) {
    Session& session = test::session();
    for (int ranks = 1; ranks <= session.size(); ++ranks) {
        const int part = session.rank() / ranks, size = std::min(ranks, session.size() - part * ranks);
        const auto over = session.split(part, session.rank(), "part");
        ASSERT_EQ(over->size(), size);
        for (const ParallelConfig& parallel : factorisations(size)) {
            expect_mesh(*over, parallel, over->rank());
        }
    }
}

TEST(Mesh, of_all_data_ranks_shards_over_all_of_them_unless_told) {
    Session& session = test::session();
    ParallelConfig parallel;
    parallel.data = session.size();
    parallel.zero_group = 0;
    const Mesh mesh = make_mesh(session, parallel);
    EXPECT_EQ(mesh.dp->size(), session.size());
    EXPECT_EQ(mesh.shard->size(), session.size());
    EXPECT_EQ(mesh.replica->size(), 1);
    EXPECT_EQ(mesh.world, &session.world());
}

TEST(Mesh, refuses_what_does_not_fit_by_name) {
    Session& session = test::session();
    const auto refusal = [&](const ParallelConfig& parallel) -> std::string {
        try {
            make_mesh(session, parallel);
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            return error.what();
        }
        return "accepted";
    };
    ParallelConfig idle;
    idle.data = session.size() + 1;
    EXPECT_NE(refusal(idle).find("parallel.data = "), std::string::npos) << refusal(idle);
    ParallelConfig part;
    part.data = session.size();
    part.zero_group = session.size() + 1;
    const std::string text = refusal(part);
    EXPECT_NE(text.find("zero_group"), std::string::npos) << text;
    EXPECT_NE(text.find("nearest: " + std::to_string(session.size())), std::string::npos) << text;
}

TEST(Mesh, checks_every_axis_when_asked) {
    Session& session = test::session();
    ParallelConfig parallel;
    parallel.data = session.size();
    parallel.zero_group = 0;
    const Mesh mesh = make_mesh(session, parallel, {CollectiveCheck::compare});
    double value = session.rank();
    // Every rank meets the difference: another root.
    if (session.size() > 1) {
        EXPECT_THROW(mesh.dp->broadcast(&value, 1, Dtype::fp64, mesh.dp->rank(), "t.roots").wait(), Error);
    }
    mesh.dp->broadcast(&value, 1, Dtype::fp64, 0, "t.roots").wait();
    EXPECT_EQ(value, 0.0);
}

// The number that MPI gives a new communicator: the lowest that no living one holds.
int next_handle() {
    MPI_Comm probe = MPI_COMM_NULL;
    OGROM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &probe));
    const int handle = MPI_Comm_c2f(probe);
    OGROM_MPI(MPI_Comm_free(&probe));
    return handle;
}

// MPI has a limited number of communicators: what a mesh took, it gives back.
TEST(Mesh, two_hundred_leave_nothing_behind) {
    Communicator& world = test::session().world();
    const std::vector<ParallelConfig> all = factorisations(world.size());
    const int before = next_handle();
    for (std::size_t k = 0; k < 200; ++k) {
        const Mesh mesh = make_mesh(world, all[k % all.size()]);
        EXPECT_EQ(agree_sum(*mesh.dp, i64{1}, "t.count"), mesh.shape.dp);
    }
    EXPECT_EQ(next_handle(), before);
    ParallelConfig parallel;
    parallel.tensor = world.size();
    const Mesh alive = make_mesh(world, parallel);
    EXPECT_EQ(next_handle() > before, world.size() > 1);  // a living one shows (two handles where it compares)
}

}  // namespace
}  // namespace ogrom
