#include "src/device/memory.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <omp.h>
#include <thread>
#include <vector>

#include "kernels/common/error.h"
#include "kernels/cuda/device.h"

#include "src/device/arena.h"
#include "src/device/blas.h"
#include "src/device/buffer.h"
#include "src/device/select.h"

namespace ogrom {
namespace {

Ledger small_ledger() {
    Ledger ledger;
    ledger.add("odd", Tier::device, 13 * 4, "13 * 4");
    ledger.add("empty", Tier::device, 0, "0");
    ledger.add("doubles", Tier::host, 1001 * 8, "1001 * 8");
    ledger.add("libraries", Tier::baseline, 1 << 20, "measured");
    return ledger;
}

std::string error_of(const std::function<void()>& action, ExitCode code) {
    try {
        action();
    } catch (const Error& error) {
        EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code));
        return error.what();
    }
    ADD_FAILURE() << "no error was thrown";
    return {};
}

class Poison {
public:
    explicit Poison(const char* value)
        : before_(std::getenv("OGROM_POISON") == nullptr ? "" : std::getenv("OGROM_POISON")) {
        setenv("OGROM_POISON", value, 1);
    }
    ~Poison() { setenv("OGROM_POISON", before_.c_str(), 1); }
    Poison(const Poison&) = delete;
    Poison& operator=(const Poison&) = delete;

private:
    std::string before_;
};

TEST(Ledger, TotalsByTierAndInMemory) {
    const Ledger ledger = small_ledger();
    EXPECT_EQ(ledger.total(Tier::device), 52);
    EXPECT_EQ(ledger.total(Tier::host), 8008);
    EXPECT_EQ(ledger.total(), 52 + 8008 + (1 << 20));
    EXPECT_EQ(ledger.line("odd").bytes, 52);
}

TEST(Ledger, RefusesDuplicatesAndAbsentNames) {
    Ledger ledger = small_ledger();
    EXPECT_NE(error_of([&] { ledger.add("odd", Tier::device, 1, "1"); }, ExitCode::memory).find("'odd'"),
              std::string::npos);
    EXPECT_NE(error_of([&] { (void)ledger.line("nothing"); }, ExitCode::memory).find("'nothing'"), std::string::npos);
}

TEST(Ledger, TableHasEveryLineAligned) {
    const std::string table = small_ledger().table();
    std::size_t tier_column = std::string::npos;
    std::size_t lines = 0;
    for (std::size_t at = 0; at < table.size(); ++lines) {
        const std::size_t end = table.find('\n', at);
        const std::string line = table.substr(at, end - at);
        at = end + 1;
        for (const char* tier : {"device", "host", "baseline"}) {
            const std::size_t column = line.find(tier);
            if (lines > 0 && column != std::string::npos) {
                tier_column = tier_column == std::string::npos ? column : tier_column;
                EXPECT_EQ(column, tier_column) << line;
            }
        }
    }
    EXPECT_EQ(lines, 6u);  // heading, four lines, total
    EXPECT_NE(table.find("1001 * 8"), std::string::npos);
}

TEST(Arena, LinesAreAlignedZeroAndApart) {
#ifndef NDEBUG
    GTEST_SKIP() << "a debug build poisons the arena";
#endif
    const Poison none("0");
    Arena arena(small_ledger());
    const auto odd = arena.take<float>("odd");
    const auto doubles = arena.take<double>("doubles");
    ASSERT_EQ(odd.size(), 13u);
    ASSERT_EQ(doubles.size(), 1001u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(odd.data()) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(doubles.data()) % 64, 0u);
    for (const double x : doubles) {
        ASSERT_EQ(x, 0.0);
    }
    std::fill(odd.begin(), odd.end(), 7.0f);
    EXPECT_EQ(doubles[0], 0.0);
    EXPECT_EQ(arena.bytes(), 64 + 8064);  // each line rounded up to 64 bytes; baseline lines are not cut
}

TEST(Arena, PoisonIsNanInBothTypes) {
    const Poison poison("1");
    Arena arena(small_ledger());
    for (const float x : arena.take<float>("odd")) {
        EXPECT_TRUE(std::isnan(x));
    }
    const auto doubles = arena.take<double>("doubles");
    for (const double x : doubles) {
        EXPECT_TRUE(std::isnan(x));
    }
    set_zero(doubles);
    for (const double x : doubles) {
        EXPECT_EQ(x, 0.0);
    }
}

TEST(Arena, ALineIsTakenOnce) {
    Arena arena(small_ledger());
    (void)arena.take<float>("odd");
    EXPECT_NE(error_of([&] { (void)arena.take<float>("odd"); }, ExitCode::memory).find("twice"), std::string::npos);
    (void)error_of([&] { (void)arena.take<float>("libraries"); }, ExitCode::memory);
    EXPECT_TRUE(arena.take<float>("empty").empty());
}

// Field case B55: the message tells requested, free and the largest line.
TEST(Arena, WhatDoesNotFitIsRefusedBeforeItIsTaken) {
    Ledger ledger;
    ledger.add("weights", Tier::device, i64{1} << 50, "2^50");
    ledger.add("small", Tier::device, 4096, "4096");
    const ResidentMemory before = resident_memory();
    const std::string message = error_of([&] { Arena arena(ledger); }, ExitCode::memory);
    EXPECT_NE(message.find("requested 1.0 PiB"), std::string::npos) << message;
    EXPECT_NE(message.find("free "), std::string::npos) << message;
    EXPECT_NE(message.find("largest line: weights"), std::string::npos) << message;
    EXPECT_LT(resident_memory().anonymous - before.anonymous, 1 << 20);
}

TEST(Arena, RanksOfAMachineShareItsMemory) {
    Ledger ledger;
    ledger.add("weights", Tier::device, 1 << 20, "2^20");
    require_fit(ledger, 4, 4 << 20);
    EXPECT_NE(error_of([&] { require_fit(ledger, 5, 4 << 20); }, ExitCode::memory).find("5 ranks"), std::string::npos);
}

TEST(Arena, EveryPageIsResidentFromTheStart) {
    Ledger ledger;
    constexpr i64 bytes = 24 << 20;
    ledger.add("weights", Tier::device, bytes, "24 MiB");
    const i64 before = resident_memory().anonymous;
    i64 during = 0;
    {
        Arena arena(ledger);
        during = resident_memory().anonymous;
    }
    // The kernel counts in pages per thread; allow one percent.
    EXPECT_GE(during - before, bytes - bytes / 100);
    EXPECT_LE(during - before, bytes + (1 << 20));
    EXPECT_LT(resident_memory().anonymous - before, 1 << 20);
}

TEST(Memory, FiguresAreThere) {
    EXPECT_GT(free_memory(), 1 << 20);
    EXPECT_GT(resident_memory().anonymous, 0);
    EXPECT_GE(resident_memory().peak, resident_memory().anonymous);
    const std::string mask = affinity_mask();
    EXPECT_NE(mask.find('1'), std::string::npos);
    EXPECT_EQ(mask.find_first_not_of("01"), std::string::npos);
}

TEST(Memory, LaunchTimeGoesOn) {
    const double first = seconds_since_launch();
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    const double second = seconds_since_launch();
    // Both clocks tick in 10 ms.
    EXPECT_GE(second - first, 0.03);
    EXPECT_LT(second - first, 10);
    EXPECT_LT(first, 600);
}

TEST(Select, CudaIsRefusedByName) {
    EXPECT_EQ(select_device("cpu", 3).backend, Backend::cpu);
    const cuda::Devices found = cuda::list_devices();
    if (found.devices.empty()) {
        const Device chosen = select_device("auto", 0);
        EXPECT_EQ(chosen.backend, Backend::cpu);
        EXPECT_EQ(chosen.reason, found.reason);  // it says why
        EXPECT_NE(error_of([] { (void)select_device("cuda", 0); }, ExitCode::usage).find(found.reason),
                  std::string::npos);
    } else {
        const int count = static_cast<int>(found.devices.size());
        EXPECT_EQ(select_device("auto", count + 1).index, found.devices[static_cast<std::size_t>(1 % count)].index);
        EXPECT_EQ(select_device("cuda", 0).uuid, found.devices[0].uuid);
    }
    (void)error_of([] { (void)select_device("gpu", 0); }, ExitCode::usage);
}

TEST(Select, ThreadsShareTheNodeUnlessBound) {
    using Masks = std::vector<std::string>;
    const std::string whole = "11111111";
    EXPECT_EQ(choose_threads(3, whole, Masks(2, whole)), 3);  // asked for
    EXPECT_EQ(choose_threads(0, whole, Masks(2, whole)), 4);  // shared
    EXPECT_EQ(choose_threads(0, whole, Masks(3, whole)), 2);  // rounded down: no core has two threads
    // the launcher gave each rank its own two
    EXPECT_EQ(choose_threads(0, "00110000", {"11000000", "00110000", "00001100", "00000011"}), 2);
    // four ranks share the half of the machine that a container leaves them
    EXPECT_EQ(choose_threads(0, "11110000", Masks(4, "11110000")), 1);
    EXPECT_EQ(choose_threads(0, "11", Masks(4, "11")), 1);  // more ranks than cores
}

TEST(Blas, ThreadsAreSet) {
    const int before = omp_get_max_threads();
    (void)set_threads(1);
    EXPECT_EQ(omp_get_max_threads(), 1);
    EXPECT_NE(blas_description().find("OpenBLAS"), std::string::npos);
    (void)set_threads(before);
}

}  // namespace
}  // namespace ogrom
