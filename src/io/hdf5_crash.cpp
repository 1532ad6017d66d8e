#include "src/io/hdf5_crash.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <signal.h>
#include <string_view>
#include <sys/types.h>
#include <unistd.h>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

namespace ogrom::h5 {

namespace {

constexpr std::size_t alternate_stack_bytes = 65536;

// A signal handler can reach nothing but globals, and take no lock. `thread` is stored last and cleared first.
struct Named {
    std::atomic<pid_t> thread;  // 0: free
    std::atomic<hid_t> file;
    std::array<char, 1024> path;
};
std::array<Named, 8> names;
std::mutex changing;

constexpr std::array crashes = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};  // SIGABRT: a heap that was overrun
std::array<struct sigaction, crashes.size()> earlier;

// What is said goes out in one write, so that lines of other ranks do not fall between.
class Line {
public:
    void add(std::string_view part) {
        const std::size_t taken = std::min(part.size(), sizeof(text_) - size_);
        std::memcpy(text_ + size_, part.data(), taken);
        size_ += taken;
    }
    void add(int number) {
        const char digits[2] = {static_cast<char>('0' + number / 10 % 10), static_cast<char>('0' + number % 10)};
        add(number < 10 ? std::string_view(digits + 1, 1) : std::string_view(digits, 2));
    }
    void clear() { size_ = 0; }
    void write() const { [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text_, size_); }

private:
    char text_[10240];
    std::size_t size_ = 0;
};

void pass_on(std::size_t which, int signal, siginfo_t* info, void* context) {
    const struct sigaction& before = earlier[which];
    if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
        before.sa_sigaction(signal, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(signal);
    } else {
        ::signal(signal, SIG_DFL);  // the fault is repeated on return and ends the process; abort() sees to itself
    }
}

void on_crash(int signal, siginfo_t* info, void* context) {
    const auto which = static_cast<std::size_t>(std::find(crashes.begin(), crashes.end(), signal) - crashes.begin());
    const bool own = info->si_code > 0 || info->si_pid == ::getpid();  // else another process sent it
    static Line line;
    bool named = false;
    line.clear();
    line.add("ogrom: exit 4: ");
    for (const Named& one : names) {
        if (one.thread.load(std::memory_order_acquire) == ::gettid()) {
            line.add(named ? " or " : "");
            line.add({one.path.data(), ::strnlen(one.path.data(), one.path.size())});
            named = true;
        }
    }
    if (!own || !named) {
        pass_on(which, signal, info, context);
        return;
    }
    line.add(": HDF5 could not read this file (signal ");
    line.add(signal);
    line.add("): it is damaged, or was made to do harm; would be right: another checkpoint\n");
    line.write();
    ::_exit(static_cast<int>(ExitCode::checkpoint));
}

void install() {
    struct sigaction action = {};
    action.sa_sigaction = on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < crashes.size(); ++i) {
        sigaction(crashes[i], &action, &earlier[i]);
    }
}

// Of this thread: groups within groups may have used up its own.
void give_stack() {
    thread_local const auto stack = std::make_unique<std::byte[]>(alternate_stack_bytes);
    stack_t current = {};
    if (::sigaltstack(nullptr, &current) == 0 && (current.ss_flags & SS_DISABLE) != 0) {
        const stack_t wanted = {stack.get(), 0, alternate_stack_bytes};
        (void)::sigaltstack(&wanted, nullptr);
    }
}

}  // namespace

void name_file(hid_t file, const std::string& path) {
    const std::lock_guard lock(changing);
    static const bool installed = (install(), true);
    if (!installed || fault_active("hdf5_crash_unnamed")) {
        return;
    }
    give_stack();
    for (Named& one : names) {
        if (one.thread.load(std::memory_order_relaxed) == 0) {
            const std::size_t length = std::min(path.size(), one.path.size() - 1);
            std::memcpy(one.path.data(), path.data(), length);
            one.path[length] = '\0';
            one.file.store(file, std::memory_order_relaxed);
            one.thread.store(::gettid(), std::memory_order_release);
            return;
        }
    }
}

void forget_file(hid_t file) noexcept {
    for (Named& one : names) {
        if (one.thread.load(std::memory_order_relaxed) != 0 && one.file.load(std::memory_order_relaxed) == file) {
            one.thread.store(0, std::memory_order_release);
            return;
        }
    }
}

}  // namespace ogrom::h5
