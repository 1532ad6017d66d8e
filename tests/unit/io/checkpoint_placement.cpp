#include "src/io/checkpoint_placement.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/base/text.h"
#include "src/device/memory.h"
#include "src/io/checkpoint_shared.h"
#include "src/io/checkpoint_write.h"
#include "src/io/hdf5.h"
#include "src/io/io_thread.h"

#include "tests/unit/io/layouts.h"
#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;
using test::MeshCase;
using test::MeshRank;

// The placement of a mesh after `change` was made to each rank's ranges of the weights.
std::string fault_of(const MeshCase& mesh,
                     const std::function<void(int, std::vector<HeldRange<const float>>&)>& change) {
    const ModelConfig model = test::odd_model();
    const ParameterTable table = make_parameters(model, Dtype::fp32);
    Placement placement(table.rows());
    for (int rank = 0; rank < mesh.size(); ++rank) {
        const MeshRank<float> one(table, model, mesh, rank);
        auto writes = one.writes();
        change(rank, writes[0].ranges);
        unpack(pack(make_part<float>(one.layout, std::span<const StateGroup<const float>>(writes))), rank, placement);
    }
    return test::fault_text([&] { placement.require_whole(); });
}

TEST(CheckpointPlacement, WhatIsMissingOrWrittenTwiceIsNamedByTensorPlaceAndRank) {
    using Ranges = std::vector<HeldRange<const float>>;
    const MeshCase mesh{.dp = 2, .tp = 2, .zero = 1};
    EXPECT_EQ(fault_of(mesh, [](int, Ranges&) {}), "");
    const std::string missing = fault_of(mesh, [](int rank, Ranges& ranges) {
        if (rank == 0) {  // rows 3 and 4 of the token table, from column 5 and to column 9
            ranges.push_back({{4 * 60 + 10, ranges[0].flat.last}, ranges[0].data + 4 * 60 + 10});
            ranges[0].flat.last = 3 * 60 + 5;
        }
    });
    EXPECT_NE(missing.find("(1 tensors); nothing was saved:\n"
                           "  /weights/embedding.token.weight: rows 3, columns 5 to 59 are written by no rank"),
              std::string::npos)
        << missing;
    const std::string twice = fault_of(mesh, [](int rank, Ranges& ranges) {
        if (rank == 2) {  // its range of the next data rank begins early: elements that rank 0 writes
            ranges[0].flat.first -= 2;
            ranges[0].data -= 2;
        }
    });
    EXPECT_NE(twice.find("/weights/"), std::string::npos) << twice;
    EXPECT_NE(twice.find("are written by rank 0 and by rank 2"), std::string::npos) << twice;
    const std::string nobody = fault_of(mesh, [](int rank, Ranges& ranges) {
        if (rank == 3) {
            ranges.clear();
        }
    });
    EXPECT_NE(nobody.find("columns 30 to 59 are written by no rank"), std::string::npos) << nobody;
}

TEST(CheckpointPlacement, APieceThatLeavesItsTensorIsRefused) {
    const ParameterTable table = make_parameters(test::odd_model(), Dtype::fp32);
    Placement placement(table.rows());
    const auto fault = [&](const TensorPiece& piece) {
        return test::fault_text([&] { placement.add(1, "weights", {&piece, 1}); });
    };
    EXPECT_NE(fault({99999, 0, 0, 1, 1, 0}).find("there is no tensor 99999"), std::string::npos);
    EXPECT_NE(fault({0, 508, 0, 2, 60, 0}).find("leave the tensor of 509 x 60"), std::string::npos);
    EXPECT_NE(fault({0, 0, 1, 1, 60, 0}).find("leave the tensor"), std::string::npos);
    EXPECT_NE(fault({0, -1, 0, 1, 60, 0}).find("leave the tensor"), std::string::npos);
    EXPECT_EQ(fault({0, 508, 0, 1, 60, 0}), "");
}

TEST(CheckpointPlacement, ARunThatWouldLoseStateSavesNothingOnAnyRank) {
    const Folder folder;
    const ModelConfig model = test::odd_model();
    const ParameterTable table = make_parameters(model, Dtype::fp32);
    const MeshCase mesh{.dp = 3, .zero = 3};
    std::vector<std::string> faults;
    test::as_ranks(
        mesh.size(),
        [&](Communicator& world) {
            const MeshRank<float> one(table, model, mesh, world.rank());
            auto writes = one.writes();
            if (world.rank() == 2) {
                writes[1].ranges.pop_back();
            }
            save_checkpoint<float>(world, folder.path("run"), test::small_header(5), one.layout, model,
                                   std::span<const StateGroup<const float>>(writes), 1);
        },
        &faults);
    EXPECT_NE(faults[0].find("/moment1/final_norm.bias: "), std::string::npos) << faults[0];
    EXPECT_EQ(faults[1], faults[0]);
    EXPECT_EQ(faults[2], faults[0]);
    const test::SmallState<float> state(test::small_model());
    EXPECT_EQ(test::fault_text([&] {
                  save_checkpoint<float>(*make_single_communicator(), folder.path("run"), test::small_header(5),
                                         state.layout, state.model, std::span<const StateGroup<const float>>(), 1);
              }),
              "no rank names any state to write; nothing was saved");
    EXPECT_FALSE(std::filesystem::exists(folder.path("run")));
}

TEST(CheckpointPlacement, ReplicasThatDifferAreNamed) {
    std::vector<std::string> faults;
    test::as_ranks(
        3,
        [&](Communicator& replicas) {
            require_equal_replicas(replicas, 7, "the weights");
            require_equal_replicas(replicas, replicas.rank() == 1 ? 8 : 7, "moment1");
        },
        &faults);
    for (const std::string& fault : faults) {
        EXPECT_NE(fault.find("moment1 of rank 1 of axis threads (hash 0000000000000008)"), std::string::npos) << fault;
    }
}

// Lists of any length arrive whole, also where they need several rounds.
TEST(CheckpointPlacement, WordsOfEveryRankArriveInRounds) {
    const i64 limit = gather_round_bytes / 8 / 3;
    for (const i64 longest : {i64{0}, i64{5}, limit, limit + 1, 2 * limit + 7}) {
        test::as_ranks(3, [&](Communicator& comm) {
            const auto size_of_rank = [&](int rank) { return rank == 1 ? i64{0} : longest / (rank + 1); };
            std::vector<u64> mine(static_cast<std::size_t>(size_of_rank(comm.rank())));
            for (std::size_t i = 0; i < mine.size(); ++i) {
                mine[i] = i * 8 + static_cast<u64>(comm.rank());
            }
            const auto all = gather_words(comm, mine, comm.size() == 3 ? Receivers::first : Receivers::all, "words");
            ASSERT_EQ(all.size(), comm.rank() == 0 ? 3u : 0u);
            for (int rank = 0; rank < static_cast<int>(all.size()); ++rank) {
                const std::vector<u64>& words = all[static_cast<std::size_t>(rank)];
                ASSERT_EQ(static_cast<i64>(words.size()), size_of_rank(rank));
                for (std::size_t i = 0; i < words.size(); ++i) {
                    ASSERT_EQ(words[i], i * 8 + static_cast<u64>(rank));
                }
            }
            const auto everywhere =
                gather_words(comm, {mine.data(), std::min<std::size_t>(mine.size(), 1)}, Receivers::all, "words");
            ASSERT_EQ(everywhere.size(), 3u);
        });
    }
}

// The master of many writers stays small and opens fast. OGROM_SCALE=full: 1,024 writers x 1,000 tensors.
TEST(CheckpointPlacement, TheMasterOfManyWritersIsSmallAndOpensFast) {
    const char* scale = std::getenv("OGROM_SCALE");
    const bool full = scale != nullptr && std::string(scale) == "full";
    ModelConfig model = test::odd_model();
    model.layers = full ? 62 : 6;
    const int writers = full ? 1024 : 64;
    const ParameterTable table = make_parameters(model, Dtype::fp32);
    const ParameterLayout layout(table, StageSpan{0, 0, 0, model.layers, true, true});
    Placement placement(table.rows());
    const char* const groups[] = {"weights", "moment1", "moment2"};
    for (int writer = 0; writer < writers; ++writer) {
        const auto list = pieces(layout, writer_range(layout.size(), writer, writers));
        for (const char* group : groups) {
            placement.add(writer, group, list);
        }
    }
    using Clock = std::chrono::steady_clock;
    const auto seconds_since = [](Clock::time_point start) {
        return std::chrono::duration<double>(Clock::now() - start).count();
    };
    auto start = Clock::now();
    placement.require_whole();
    const double check_s = seconds_since(start);
    EXPECT_LE(placement.mappings(), 3 * 3 * (writers + static_cast<i64>(table.rows().size())));
    const Folder folder;
    start = Clock::now();
    reset_peak();
    const i64 before = resident_memory().peak;
    i64 planned = 0;
    const FileRecord master = on_io_thread([&] {
        const PlannedFile file = lay_out_master(placement, Dtype::fp32, test::small_header(1), model);
        planned = file.bytes();
        return write_file(Disk(), folder.path(), file);
    });
    const double write_s = seconds_since(start);
    const i64 write_bytes = resident_memory().peak - before;
    reset_peak();
    const i64 written = resident_memory().peak;
    start = Clock::now();
    double open_s = 0;
    on_io_thread([&] {
        const std::string path = folder.path(master_name);
        const h5::File file = h5::open_read(path);
        open_s = seconds_since(start);
        for (const char* group : groups) {
            for (const Parameter& row : table.rows()) {
                if (row.tie.empty()) {
                    h5::open_dataset(file.get(), fmt::format("/{}/{}", group, row.name), path);
                }
            }
        }
    });
    const double all_s = seconds_since(start);
    const i64 read_bytes = resident_memory().peak - written;
    fmt::print(
        "master of {} writers x {} tensors x 3: {} mappings, {:.2f} MiB, checked in {:.3f} s, written in {:.3f} "
        "s and {} of memory, opened in {:.4f} s, every tensor opened in {:.3f} s and {}\n",
        writers, table.rows().size(), placement.mappings(), static_cast<double>(master.bytes) / (1 << 20), check_s,
        write_s, human_bytes(write_bytes), open_s, all_s, human_bytes(read_bytes));
    EXPECT_LE(master.bytes, i64{32} << 20);
    EXPECT_LE(open_s, 1.0);
    EXPECT_EQ(master.bytes, planned);
    // The line of the ledger, and pages of the libraries that are touched here first.
    constexpr i64 libraries = i64{8} << 20;
    EXPECT_LE(write_bytes, checkpoint_staging_bytes(static_cast<i64>(table.rows().size()), 3, writers) + libraries);
    EXPECT_LE(read_bytes, libraries);
}

}  // namespace
}  // namespace ogrom
