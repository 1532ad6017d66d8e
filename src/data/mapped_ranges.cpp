#include "src/data/mapped_ranges.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <signal.h>
#include <string_view>
#include <unistd.h>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

namespace ogrom {

namespace {

// A signal handler can reach nothing but globals, and take no lock. `begin` is stored last and cleared first.
struct Range {
    std::atomic<std::uintptr_t> begin;
    std::atomic<std::size_t> bytes;
    std::array<char, 1024> path;
};
std::array<Range, 4096> ranges;
std::mutex changing;
struct sigaction earlier = {};

const Range* range_of(const void* address) {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    for (const Range& range : ranges) {
        const std::uintptr_t begin = range.begin.load(std::memory_order_acquire);
        if (begin != 0 && at >= begin && at - begin < range.bytes.load(std::memory_order_relaxed)) {
            return &range;
        }
    }
    return nullptr;
}

// In one write, so that lines of other ranks do not fall between.
void say(std::string_view before, std::string_view path, std::string_view behind) {
    static char line[2048];
    std::size_t size = 0;
    for (const std::string_view part : {before, path, behind}) {
        const std::size_t taken = std::min(part.size(), sizeof(line) - size);
        std::memcpy(line + size, part.data(), taken);
        size += taken;
    }
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line, size);
}

void pass_on(int signal, siginfo_t* info, void* context) {
    if ((earlier.sa_flags & SA_SIGINFO) != 0 && earlier.sa_sigaction != nullptr) {
        earlier.sa_sigaction(signal, info, context);
    } else if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN) {
        earlier.sa_handler(signal);
    } else {
        ::signal(signal, SIG_DFL);  // the access is repeated on return and ends the process
    }
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
    const Range* range = info->si_code > 0 ? range_of(info->si_addr) : nullptr;  // else kill() sent it
    if (range == nullptr) {
        pass_on(signal, info, context);
        return;
    }
    say("ogrom: exit 3: ", {range->path.data(), ::strnlen(range->path.data(), range->path.size())},
        ": the file became shorter, or its disk failed, while it was in use; put it back (a token set: `ogrom data "
        "--check`) and continue with --resume\n");
    ::_exit(static_cast<int>(ExitCode::data));
}

void install() {
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &earlier);
}

}  // namespace

void watch_range(const void* begin, std::size_t bytes, const std::string& path) {
    const std::lock_guard lock(changing);
    static const bool installed = (install(), true);
    if (!installed || fault_active("shrunk_file_unwatched")) {
        return;
    }
    for (Range& range : ranges) {
        if (range.begin.load(std::memory_order_relaxed) == 0) {
            const std::size_t length = std::min(path.size(), range.path.size() - 1);
            std::memcpy(range.path.data(), path.data(), length);
            range.path[length] = '\0';
            range.bytes.store(bytes, std::memory_order_relaxed);
            range.begin.store(reinterpret_cast<std::uintptr_t>(begin), std::memory_order_release);
            return;
        }
    }
}

void forget_range(const void* begin) {
    const std::lock_guard lock(changing);
    for (Range& range : ranges) {
        if (range.begin.load(std::memory_order_relaxed) == reinterpret_cast<std::uintptr_t>(begin)) {
            range.begin.store(0, std::memory_order_release);
            return;
        }
    }
}

}  // namespace ogrom
