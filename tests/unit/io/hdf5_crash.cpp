// A crash while HDF5 reads: the process ends with a line that names the file, and with the exit code of its kind.
#include "src/io/hdf5_crash.h"

#include <csignal>
#include <gtest/gtest.h>
#include <optional>

#include "src/io/hdf5.h"
#include "src/io/io_thread.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

constexpr int checkpoint_code = static_cast<int>(ExitCode::checkpoint);

class Hdf5Crash : public testing::Test {
protected:
    void SetUp() override {
        testing::GTEST_FLAG(death_test_style) = "threadsafe";  // the I/O thread runs already
        for (const std::string& path : {one_, two_}) {
            on_io_thread([&] { h5::File(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)); });
        }
    }
    const test::Folder folder_;
    const std::string one_ = folder_.path("one.h5"), two_ = folder_.path("two.h5");
};

TEST_F(Hdf5Crash, NamesTheFilesThatAreOpen) {
    for (const int signal : {SIGSEGV, SIGABRT, SIGFPE}) {
        EXPECT_EXIT(on_io_thread([&] {
                        const h5::File one = h5::open_read(one_);
                        const h5::File two = h5::open_read(two_);
                        raise(signal);  // by this thread itself, as the system does it
                        *static_cast<volatile int*>(nullptr) = 1;
                    }),
                    testing::ExitedWithCode(checkpoint_code),
                    "ogrom: exit 4: .*/one.h5 or .*/two.h5: HDF5 could not read this file \\(signal [0-9]+\\)");
    }
}

// Groups within groups within groups use up the stack, which a handler needs too.
int deeper(int level) {
    volatile char block[4096];
    block[0] = static_cast<char>(level);
    return level == 0 ? 0 : deeper(level - 1) + block[0];
}
TEST_F(Hdf5Crash, HasAStackOfItsOwn) {
    EXPECT_EXIT(on_io_thread([&] {
                    const h5::File one = h5::open_read(one_);
                    return deeper(1 << 30);
                }),
                testing::ExitedWithCode(checkpoint_code), "/one.h5: HDF5 could not read this file \\(signal 11\\)");
}

TEST_F(Hdf5Crash, OfAnythingElseIsNotTakenForIt) {
    const auto crash = [] { *static_cast<volatile int*>(nullptr) = 1; };
    EXPECT_EXIT(on_io_thread([&] {
                    std::optional<h5::File> one = h5::open_read(one_);
                    one.reset();
                    crash();
                }),
                testing::KilledBySignal(SIGSEGV), "^[^:]*$");
    EXPECT_EXIT(
        {
            const h5::File one = on_io_thread([&] { return h5::open_read(one_); });
            crash();  // on another thread
        },
        testing::KilledBySignal(SIGSEGV), "^[^:]*$");
}

}  // namespace
}  // namespace ogrom
