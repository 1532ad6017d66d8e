#include "src/comm/signals.h"

#include <atomic>
#include <pthread.h>
#include <signal.h>

namespace ogrom {
namespace {

// A signal handler can reach nothing but a global.
std::atomic<bool> stop{false};
static_assert(std::atomic<bool>::is_always_lock_free);

std::atomic<int> sender{0};

void on_stop(int, siginfo_t* info, void*) {
    sender.store(info->si_pid, std::memory_order_relaxed);
    stop.store(true, std::memory_order_release);
}

}  // namespace

void install_stop_signals() {
    struct sigaction action = {};
    action.sa_sigaction = on_stop;
    action.sa_flags = SA_RESTART | SA_SIGINFO;  // a save under way goes on
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGUSR1, &action, nullptr);
    action.sa_flags = 0;
    action.sa_handler = SIG_IGN;  // a file that reaches the user's size limit: the write fails and is reported
    sigaction(SIGXFSZ, &action, nullptr);
}

bool stop_signalled() {
    return stop.load(std::memory_order_acquire);
}

int stop_sender() {
    return sender.load(std::memory_order_relaxed);
}

void block_signals_in_this_thread() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace ogrom
