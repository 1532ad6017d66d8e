#include "src/comm/control.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <new>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#include <utility>

#include "kernels/common/fault.h"

namespace ogrom {

static_assert(std::atomic<double>::is_always_lock_free && std::atomic<u64>::is_always_lock_free &&
                  std::atomic<int>::is_always_lock_free,
              "shared memory needs lock-free atomics");

double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <int Words>
void SharedText<Words>::store(std::string_view text) {
    std::array<u64, Words> packed{};
    std::memcpy(packed.data(), text.data(), std::min(text.size(), bytes));
    for (std::size_t i = 0; i < packed.size(); ++i) {
        words_[i].store(packed[i], std::memory_order_relaxed);
    }
}

template <int Words>
std::string SharedText<Words>::load() const {
    std::array<u64, Words> packed{};
    for (std::size_t i = 0; i < packed.size(); ++i) {
        packed[i] = words_[i].load(std::memory_order_relaxed);
    }
    const char* text = reinterpret_cast<const char*>(packed.data());
    return std::string(text, strnlen(text, bytes));
}

template class SharedText<4>;
template class SharedText<9>;
template class SharedText<12>;
template class SharedText<512>;

namespace {

std::string_view verb_of(FailureKind kind) {
    switch (kind) {
        case FailureKind::died:
            return "died";
        case FailureKind::failed:
            return "failed";
        case FailureKind::silent:
            return "silent";
        case FailureKind::stalled:
            return "stalled";
    }
    return "failed";
}

constexpr i64 slots_offset() {
    return round_up(static_cast<i64>(sizeof(NodeSegment)), 64);
}

}  // namespace

std::string describe_rank(const RankSlot& slot) {
    return fmt::format("rank {} (host {}, pid {})", slot.world_rank.load(), slot.host.load(), slot.pid.load());
}

std::string describe_work(const RankSlot& slot) {
    return fmt::format(
        "phase {}, step {}, last collective {}", name_of(slot.phase.load()), slot.step.load(),
        describe_collective(slot.sequence.load(), slot.label.load(), slot.axis.load(), slot.bytes.load()));
}

std::string describe_failure(std::string_view rank, ExitCode code, FailureKind kind, std::string_view work,
                             std::string_view reason) {
    return fmt::format("{}, exit {}: {} in {}: {}", rank, static_cast<int>(code), verb_of(kind), work, reason);
}

std::string describe_failure(const RankSlot& slot, ExitCode code, FailureKind kind, std::string_view reason) {
    return describe_failure(describe_rank(slot), code, kind, describe_work(slot), reason);
}

i64 Control::segment_bytes(int ranks) {
    return slots_offset() + static_cast<i64>(sizeof(RankSlot)) * ranks;
}

Control::Control(void* memory, const Place& place)
    : place_(place),
      segment_(static_cast<NodeSegment*>(memory)),
      slots_(reinterpret_cast<RankSlot*>(static_cast<char*>(memory) + slots_offset())) {
    RankSlot& mine = own();
    mine.world_rank.store(place.world_rank);
    mine.started.store(process_start(getpid()));
    mine.host.store(place.host);
    mine.phase.store(Phase::start);
    mine.step.store(0);
    mine.pid.store(getpid());
    moved();
    mine.state.store(RankState::running, std::memory_order_release);
    segment_->ranks.store(place.node_size);
}

void Control::set_phase(Phase phase, i64 step) {
    own().phase.store(phase, std::memory_order_relaxed);
    own().step.store(step, std::memory_order_relaxed);
    moved();
}

i64 Control::collective_issued(i64 sequence, std::string_view label, std::string_view axis, i64 bytes) {
    const double now = steady_seconds();
    RankSlot& mine = own();
    mine.moved_s.store(now, std::memory_order_relaxed);
    mine.label.store(label);
    mine.axis.store(axis);
    mine.bytes.store(bytes, std::memory_order_relaxed);
    mine.sequence.store(sequence, std::memory_order_relaxed);
    return flight.issue(sequence, label, axis, bytes, now);
}

void Control::collective_done(i64 ticket) {
    const double now = steady_seconds();
    own().moved_s.store(now, std::memory_order_relaxed);
    const FlightEntry* const entry = flight.done(ticket, now);
    if (observer_ && entry != nullptr && !fault_active("collective_untold")) {
        observer_(*entry);
    }
}

void Control::note_wait(i64 ticket, std::string_view axis, double begin_s) {
    constexpr double least_s = 2e-6;  // what the noting itself costs
    const double now = steady_seconds();
    if (wait_observer_ && now - begin_s > least_s) {
        const FlightEntry* const entry = flight.of_ticket(ticket);
        wait_observer_({entry != nullptr ? std::string_view(entry->label) : std::string_view(), axis, begin_s, now});
    }
}

void Control::check() const {
    if (failed()) {
        const Failure known = failure();
        fail(ExitCode::peer, "the job ends: " + known.line);
    }
}

bool Control::claim(const Failure& failure) {
    int holder = 0;
    while (!segment_->claimed_by.compare_exchange_strong(holder, getpid())) {
        // The holder writes its text within microseconds; only its death in between leaves the claim open.
        if (failed() || !process_gone(holder, 0)) {
            return false;
        }
    }
    segment_->culprit.store(failure.culprit);
    segment_->code.store(static_cast<int>(failure.code));
    segment_->text.store(failure.line);
    segment_->complete.store(1, std::memory_order_release);
    return true;
}

Failure Control::failure() const {
    return {segment_->culprit.load(), static_cast<ExitCode>(segment_->code.load()), segment_->text.load()};
}

namespace {
constexpr std::chrono::seconds hook_patience(2);  // a file system that hangs must not keep the job alive
}

bool Control::claim_and_print(const Failure& failure, int node) {
    const std::unique_lock<std::timed_mutex> lock(telling_, hook_patience);
    const bool ours = claim(failure);
    if (ours && place_.node == node) {
        print_message(failure.line);
        printed_ = true;
    }
    return ours;
}

void Control::set_failure_hook(FailureHook hook) {
    const std::unique_lock<std::timed_mutex> lock(telling_, hook_patience);
    hook_ = std::move(hook);
}

void Control::finish_failure() {
    const std::unique_lock<std::timed_mutex> lock(telling_, hook_patience);
    if (!lock.owns_lock() || !printed_ || !hook_) {
        return;
    }
    const FailureHook hook = std::exchange(hook_, nullptr);
    const Failure known = this->failure();
    try {
        hook(known.code, known.line);
    } catch (const std::exception& error) {
        print_message(fmt::format("note: the failure could not be recorded: {}", error.what()));
    }
}

u64 process_start(int pid) {
    const std::string path = fmt::format("/proc/{}/stat", pid);
    std::FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) {
        return 0;
    }
    char text[1024] = {};
    const std::size_t size = std::fread(text, 1, sizeof(text) - 1, file);
    std::fclose(file);
    text[size] = 0;
    // Fields follow the last ')' of the name: state is the first, the start time the 20th.
    const char* after = std::strrchr(text, ')');
    if (after == nullptr) {
        return 0;
    }
    char state = 0;
    unsigned long long started = 0;
    const int read =
        std::sscanf(after + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                    &state, &started);
    return read == 2 && state != 'Z' && state != 'X' ? static_cast<u64>(started) : 0;
}

bool process_gone(int pid, u64 started) {
    const u64 now = process_start(pid);
    return now == 0 || (started != 0 && now != started);
}

void print_message(std::string_view line) {
    sigset_t pipe_signal, before;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    const std::string text = fmt::format("ogrom: {}\n", line);
    std::size_t sent = 0;
    while (sent < text.size()) {
        const ssize_t now = write(STDERR_FILENO, text.data() + sent, text.size() - sent);
        if (now < 0 && errno == EINTR) {
            continue;
        }
        if (now <= 0) {
            break;
        }
        sent += static_cast<std::size_t>(now);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace ogrom
