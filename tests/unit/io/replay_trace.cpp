#include "src/io/replay_trace.h"

#include <bit>
#include <filesystem>
#include <gtest/gtest.h>
#include <limits>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/log.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/manifest.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;
using Writes = ReplayTrace::Writes;

ReplayConditions conditions() {
    return {.ranks = 2,
            .arithmetic = "fp32",
            .repeatable = true,
            .any_layout = true,
            .bits_depend_on = {{"parallel.data", "2"}, {"kernels", "products \"own\""}},
            .layout = {{"parallel.zero", "1"}}};
}

ReplayRow row(i64 step) {
    return {step,  1.0 / 3 + static_cast<double>(step),           0.1, 1e-3,
            false, 0xF000000000000000ULL + static_cast<u64>(step)};
}

bool same(double a, double b) {
    return std::bit_cast<u64>(a) == std::bit_cast<u64>(b);
}

std::string message_of(const std::string& text) {
    try {
        (void)parse_replay(text, "folder/trace.json");
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::checkpoint);
        return error.what();
    }
    return {};
}

std::vector<i64> steps_in(const std::string& folder) {
    std::vector<i64> steps;
    if (const auto text = read_replay_text(folder)) {
        for (const ReplayRow& found : parse_replay(*text, folder).rows) {
            steps.push_back(found.step);
        }
    }
    return steps;
}

TEST(ReplayRecord, ComesBackBitForBit) {
    ReplayRecord record{4, 0xABCDULL, 3, conditions(), {row(5), row(6)}};
    record.rows[0].loss = std::nextafter(3.0, 4.0);
    record.rows[1].loss = -std::numeric_limits<double>::quiet_NaN();
    record.rows[1].gradient_norm = std::numeric_limits<double>::infinity();
    record.rows[1].skipped = true;
    const ReplayRecord back = parse_replay(to_text(record), "x");
    EXPECT_EQ(back.step, 4);
    EXPECT_EQ(back.weight_hash, 0xABCDULL);
    EXPECT_EQ(back.wanted, 3);
    EXPECT_EQ(back.conditions.ranks, 2);
    EXPECT_TRUE(reasons_against_bits(back.conditions, record.conditions).empty());
    ASSERT_EQ(back.rows.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(back.rows[i].step, record.rows[i].step);
        EXPECT_TRUE(same(back.rows[i].loss, record.rows[i].loss));
        EXPECT_TRUE(same(back.rows[i].gradient_norm, record.rows[i].gradient_norm));
        EXPECT_TRUE(same(back.rows[i].lr, record.rows[i].lr));
        EXPECT_EQ(back.rows[i].skipped, record.rows[i].skipped);
        EXPECT_EQ(back.rows[i].weight_hash, record.rows[i].weight_hash);
    }
}

TEST(ReplayRecord, NoByteCanChangeUnseen) {
    const std::string text = to_text({4, 1, 3, conditions(), {row(5), row(6)}});
    for (std::size_t at = 0; at < text.size(); ++at) {
        for (const int bit : {1, 4}) {
            std::string flipped = text;
            flipped[at] = static_cast<char>(flipped[at] ^ bit);
            EXPECT_NE(message_of(flipped), "") << "byte " << at << " bit " << bit;
        }
    }
    for (std::size_t length = 0; length < text.size(); ++length) {
        EXPECT_NE(message_of(text.substr(0, length)), "") << "cut at " << length;
    }
    EXPECT_EQ(message_of(text), "");
}

TEST(ReplayRecord, RefusesWhatItCannotBe) {
    EXPECT_NE(message_of("[1]").find("not a record of steps"), std::string::npos);
    EXPECT_NE(message_of("{\"format\": 2}").find("format 2 is not known; this program reads format 1"),
              std::string::npos);
    EXPECT_NE(message_of(to_text({4, 1, 3, conditions(), {}})).find("holds 0 steps"), std::string::npos);
    EXPECT_NE(message_of(to_text({4, 1, 3, conditions(), {row(6)}})).find("row 1 is of step 6"), std::string::npos);
    ReplayRecord most{4, 1, most_replay_steps, conditions(), {}};
    for (i64 step = 5; step < 5 + most_replay_steps; ++step) {
        most.rows.push_back(row(step));
    }
    const Folder folder;
    write_file_atomic(folder.path("trace.json"), to_text(most));
    EXPECT_EQ(static_cast<i64>(steps_in(folder.path()).size()), most_replay_steps) << "the largest one is read";
    write_file_atomic(folder.path("trace.json"), std::string(1 << 20, ' '));
    EXPECT_THROW((void)read_replay_text(folder.path()), Error);
}

TEST(ReplayConditions, SayWhyBitsNeedNotAgree) {
    const ReplayConditions a = conditions();
    ReplayConditions b = a;
    b.layout["parallel.zero"] = "3";
    EXPECT_TRUE(reasons_against_bits(a, b).empty()) << "in the fixed order the layout changes no bit";
    b.any_layout = false;
    ASSERT_EQ(reasons_against_bits(a, b).size(), 1U);
    EXPECT_EQ(reasons_against_bits(a, b)[0], "parallel.zero: 1 when it was recorded, 3 now");
    b = a;
    b.bits_depend_on["parallel.data"] = "4";
    b.bits_depend_on["new"] = "x";
    ASSERT_EQ(reasons_against_bits(a, b).size(), 2U);
    EXPECT_EQ(reasons_against_bits(a, b)[1], "new: not recorded, x now");
    b = a;
    b.repeatable = false;
    EXPECT_FALSE(reasons_against_bits(a, b).empty());
    EXPECT_FALSE(reasons_against_bits(b, a).empty());
}

TEST(ReplayTrace, IsWholeAfterEachStep) {
    const Folder folder;
    const std::string step4 = folder.path(step_name(4));
    make_directories(step4);
    ReplayTrace trace(3, Writes::yes, conditions());
    EXPECT_FALSE(trace.wants(4));
    trace.begin(4, 77);
    trace.publish(4, step4);
    EXPECT_FALSE(read_replay_text(step4)) << "nothing to tell yet";
    for (i64 step = 5; step <= 9; ++step) {
        EXPECT_EQ(trace.wants(step), step <= 7) << step;
        trace.add(row(step));
        EXPECT_EQ(steps_in(step4).size(), static_cast<std::size_t>(std::min<i64>(step, 7) - 4));
    }
    EXPECT_EQ(parse_replay(*read_replay_text(step4), "x").weight_hash, 77U);
    EXPECT_EQ(list_directory(step4), std::vector<std::string>{"trace.json"}) << "no temporary name is left";
}

// An asynchronous save: the folder gets its name two steps later; another save begins meanwhile.
TEST(ReplayTrace, RowsWaitForTheFolder) {
    const Folder folder;
    ReplayTrace trace(3, Writes::yes, conditions());
    trace.begin(4, 1);
    trace.add(row(5));
    trace.begin(5, 2);
    trace.add(row(6));
    EXPECT_TRUE(list_directory(folder.path()).empty());
    make_directories(folder.path(step_name(4)));
    trace.publish(4, folder.path(step_name(4)));
    EXPECT_EQ(steps_in(folder.path(step_name(4))), (std::vector<i64>{5, 6}));
    for (i64 step = 7; step <= 12; ++step) {
        trace.add(row(step));
    }
    make_directories(folder.path(step_name(5)));
    trace.publish(5, folder.path(step_name(5)));  // after its last row
    EXPECT_EQ(steps_in(folder.path(step_name(4))), (std::vector<i64>{5, 6, 7}));
    EXPECT_EQ(steps_in(folder.path(step_name(5))), (std::vector<i64>{6, 7, 8}));
    trace.begin(12, 3);
    trace.abandon(12);
    EXPECT_FALSE(trace.wants(13)) << "that save failed";
}

// All ranks make the hash together: what happens to the folder on one of them must not change who wants it.
TEST(ReplayTrace, APrunedFolderIsNotMadeAgainAndChangesNoPlan) {
    const Folder folder;
    const std::string step4 = folder.path(step_name(4));
    make_directories(step4);
    ReplayTrace writer(3, Writes::yes, conditions()), other(3, Writes::no, conditions());
    for (ReplayTrace* trace : {&writer, &other}) {
        trace->begin(4, 1);
    }
    writer.publish(4, step4);
    for (i64 step = 5; step <= 9; ++step) {
        EXPECT_EQ(writer.wants(step), other.wants(step)) << step;
        EXPECT_EQ(writer.wants(step), step <= 7);
        if (step == 6) {
            remove_tree(step4);
        }
        writer.add(row(step));
        other.add(row(step));
    }
    EXPECT_FALSE(file_exists(step4));
}

TEST(ReplayTrace, ADiskThatRefusesDoesNotEndTheRun) {
    const Folder folder;
    const std::string step4 = folder.path(step_name(4));
    make_directories(step4 + "/trace.json");  // a folder stands in its place
    set_log_level(LogLevel::error);
    ReplayTrace trace(3, Writes::yes, conditions());
    trace.begin(4, 1);
    trace.publish(4, step4);
    EXPECT_NO_THROW(trace.add(row(5)));
    EXPECT_TRUE(trace.wants(6));
    EXPECT_NO_THROW(trace.add(row(6)));
    set_log_level(LogLevel::info);
}

TEST(ReplayTrace, NoStepsNoFile) {
    ReplayTrace trace(0, Writes::yes, conditions());
    trace.begin(4, 1);
    EXPECT_FALSE(trace.wants(5));
}

// A checkpoint is whole with and without it.
TEST(ReplayTrace, DoesNotMakeACheckpointIncomplete) {
    const Folder folder;
    const std::string step4 = folder.path(step_name(4));
    make_directories(step4);
    Manifest manifest{1, 4, {{master_name, 0, {}}}};
    write_file_atomic(join_path(step4, master_name), "");
    write_file_atomic(join_path(step4, manifest_name), to_text(manifest));
    ASSERT_EQ(incomplete_reason(step4), "");
    ReplayTrace trace(1, Writes::yes, conditions());
    trace.begin(4, 1);
    trace.publish(4, step4);
    trace.add(row(5));
    ASSERT_TRUE(read_replay_text(step4));
    EXPECT_EQ(incomplete_reason(step4), "");
    EXPECT_EQ(verify_manifest(step4, read_manifest(step4), 0, 1), 0);
    set_aside_later(Disk(), folder.path(), 3);
    EXPECT_FALSE(file_exists(step4));
    EXPECT_EQ(list_directory(folder.path()).size(), 1U) << "set aside with its record";
}

}  // namespace
}  // namespace ogrom
