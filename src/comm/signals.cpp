#include "src/comm/signals.h"

#include <atomic>
#include <cerrno>
#include <ctime>
#include <pthread.h>
#include <signal.h>
#include <string_view>
#include <unistd.h>

#include "kernels/common/extents.h"

namespace ogrom {
namespace {

// A signal handler can reach nothing but a global.
std::atomic<bool> stop{false};
static_assert(std::atomic<bool>::is_always_lock_free);

std::atomic<int> sender{0}, number_of_stop{0};
std::atomic<i64> interrupted_ms{0};  // when the first SIGINT came
static_assert(std::atomic<i64>::is_always_lock_free);

// One press can arrive twice: from the terminal and from a wrapper that passes it on.
constexpr i64 one_press_ms = 200;

i64 now_ms() {
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return i64{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

void on_stop(int signal, siginfo_t* info, void*) {
    const int errno_before = errno;
    number_of_stop.store(signal, std::memory_order_relaxed);
    sender.store(info->si_pid, std::memory_order_relaxed);
    stop.store(true, std::memory_order_release);
    if (signal == SIGINT) {
        const i64 now = now_ms();
        i64 first = 0;
        if (!interrupted_ms.compare_exchange_strong(first, now) && now - first > one_press_ms) {
            constexpr std::string_view text =
                "ogrom: interrupted twice: ended at once, without the save; the newest complete checkpoint stands\n";
            [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
            ::signal(SIGINT, SIG_DFL);
            ::raise(SIGINT);  // delivered when this handler returns
        }
    }
    errno = errno_before;
}

}  // namespace

void install_stop_signals() {
    struct sigaction action = {};
    action.sa_sigaction = on_stop;
    action.sa_flags = SA_RESTART | SA_SIGINFO;  // a save under way goes on
    sigemptyset(&action.sa_mask);
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) {
        sigaction(signal, &action, nullptr);
    }
    struct sigaction hangup = {};
    sigaction(SIGHUP, nullptr, &hangup);
    if (hangup.sa_handler != SIG_IGN) {  // nohup
        sigaction(SIGHUP, &action, nullptr);
    }
    action.sa_flags = 0;
    action.sa_handler = SIG_IGN;
    // A file that reaches the user's size limit, a reader of our output that is gone: the write fails and is reported.
    sigaction(SIGXFSZ, &action, nullptr);
    sigaction(SIGPIPE, &action, nullptr);
}

void end_on_stop_signals() {
    for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) {
        ::signal(number, SIG_DFL);
    }
    struct sigaction hangup = {};
    sigaction(SIGHUP, nullptr, &hangup);
    if (hangup.sa_handler != SIG_IGN) {
        ::signal(SIGHUP, SIG_DFL);
    }
    if (stop_signalled()) {
        ::raise(SIGTERM);
    }
}

bool stop_signalled() {
    return stop.load(std::memory_order_acquire);
}

const char* stop_signal_name() {
    const int number = number_of_stop.load(std::memory_order_relaxed);
    switch (number) {
        case SIGTERM:
            return "SIGTERM";
        case SIGINT:
            return "SIGINT";
        case SIGHUP:
            return "SIGHUP";
        case SIGUSR1:
            return "SIGUSR1";
        case SIGUSR2:
            return "SIGUSR2";
        default:
            return "";
    }
}

int stop_sender() {
    return sender.load(std::memory_order_relaxed);
}

void block_signals_in_this_thread() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) {  // of this thread's own doing: handled where they arise
        sigdelset(&all, fault);
    }
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace ogrom
