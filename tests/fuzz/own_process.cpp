#include "tests/fuzz/own_process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <execinfo.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/io/hdf5_crash.h"

#if defined(OGROM_FUZZ)
extern "C" {
extern std::uint8_t __start___sancov_cntrs[] __attribute__((weak));  // NOLINT: names of the sanitizer
extern std::uint8_t __stop___sancov_cntrs[] __attribute__((weak));   // NOLINT
void __asan_set_error_report_callback(void (*callback)(const char*));
}
#endif

namespace ogrom::fuzz {

namespace {

constexpr int checkpoint_code = static_cast<int>(ExitCode::checkpoint);

#if defined(OGROM_FUZZ)

// libFuzzer reads the counters of branches in this process: in memory that parent and child share. Whole pages of
// counters alone; the few counters on the pages at both ends stay the child's.
void share_counters() {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = (reinterpret_cast<std::uintptr_t>(__start___sancov_cntrs) + page - 1) / page * page;
    const auto end = reinterpret_cast<std::uintptr_t>(__stop___sancov_cntrs) / page * page;
    if (end <= begin) {
        return;
    }
    void* const at = reinterpret_cast<void*>(begin);
    const std::string kept(static_cast<const char*>(at), end - begin);
    if (::mmap(at, end - begin, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at) {
        std::abort();
    }
    std::memcpy(at, kept.data(), kept.size());
}

// A report's first frames up to the first one of this program: HDF5 is not instrumented, so its faults show as wild
// accesses of its own or of a function of the C library that it called.
void judge(const char* report) {
    const char* const library = std::strstr(report, "libhdf5");
    const char* const ours = std::strstr(report, "/src/");
    if (library != nullptr && (ours == nullptr || library < ours)) {
        ::_exit(checkpoint_code);
    }
}

struct sigaction aborted_before;

// The C library ends the process where HDF5 overruns a buffer of known size. Whose call it was stands in the first
// frame outside of the C library.
void judge_abort(int signal) {
    void* frames[32];
    const int count = ::backtrace(frames, 32);
    bool library = false;  // behind the frames of this handler
    for (int i = 0; i < count; ++i) {
        Dl_info place = {};
        const bool known = ::dladdr(frames[i], &place) != 0 && place.dli_fname != nullptr;
        if (known && std::strstr(place.dli_fname, "libc.so") != nullptr) {
            library = true;
        } else if (library && known && std::strstr(place.dli_fname, "libhdf5") != nullptr) {
            ::_exit(checkpoint_code);
        } else if (library) {
            break;
        }
    }
    ::sigaction(SIGABRT, &aborted_before, nullptr);
    ::raise(signal);
}

// The sanitizer tells our faults from those of HDF5, so it hears of them before the handler of io/hdf5_crash.
void keep_sanitizer_handlers() {
    constexpr std::array signals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    std::array<struct sigaction, signals.size()> kept;
    for (std::size_t i = 0; i < signals.size(); ++i) {
        ::sigaction(signals[i], nullptr, &kept[i]);
    }
    h5::name_file(H5I_INVALID_HID, "");  // sets the handler
    h5::forget_file(H5I_INVALID_HID);
    for (std::size_t i = 0; i < signals.size(); ++i) {
        ::sigaction(signals[i], &kept[i], nullptr);
    }
    struct sigaction action = {};
    action.sa_handler = judge_abort;
    ::sigaction(SIGABRT, &action, &aborted_before);
}

#endif

[[noreturn]] void run_child(const std::function<void()>& work) {
#if defined(OGROM_FUZZ)
    __asan_set_error_report_callback(judge);
    keep_sanitizer_handlers();
#endif
    try {
        work();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s, which is no Error\n", error.what());
        std::abort();
    }
    std::fflush(nullptr);
    ::_exit(0);
}

}  // namespace

void in_own_process(const std::function<void()>& work) {
#if defined(OGROM_FUZZ)
    static const bool shared = (share_counters(), true);
    static_cast<void>(shared);
#endif
    const pid_t child = ::fork();
    if (child == 0) {
        run_child(work);
    }
    int status = 0;
    pid_t ended_child = -1;
    do {
        ended_child = ::waitpid(child, &status, 0);
    } while (ended_child < 0 && errno == EINTR);  // libFuzzer's clock
    if (child < 0 || ended_child != child) {
        std::abort();
    }
    const bool ended = WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == checkpoint_code);
    if (!ended) {
        std::fprintf(stderr, "the process of this input ended with status %#x\n", status);
        std::abort();
    }
}

}  // namespace ogrom::fuzz
