// Ranks as threads of one process, with zero buffering: a message moves when its send is started, its receive is posted
// and somebody has asked for it a few times since; until then the sender's memory is what will arrive. A run that
// breaks the rules of pipeline/execute therefore delivers wrong data.
#pragma once
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/common/error.h"

#include "src/base/timer.h"
#include "src/comm/communicator.h"

namespace ogrom::test {

class FakeNetwork {
public:
    struct Message {
        const void* from = nullptr;
        void* to = nullptr;
        i64 bytes = 0, expected = 0;
        int asked = 0;
        bool done = false;
    };
    struct Line {
        std::deque<Message> messages;
        std::size_t sends = 0, receives = 0;
    };

    // The n-th send meets the n-th receive of the same line.
    Message& open(int from, int to, const void* source, void* target, i64 bytes) {
        const std::scoped_lock lock(mutex_);
        Line& line = lines_[{from, to}];
        const std::size_t n = source != nullptr ? line.sends++ : line.receives++;
        while (line.messages.size() <= n) {
            line.messages.emplace_back();
        }
        Message& message = line.messages[n];
        if (source != nullptr) {
            message.from = source;
            message.bytes = bytes;
        } else {
            message.to = target;
            message.expected = bytes;
        }
        return message;
    }

    bool test(Message& message) {
        const std::scoped_lock lock(mutex_);
        if (failed_) {
            fail(ExitCode::peer, "another stage has failed");
        }
        if (!message.done && message.from != nullptr && message.to != nullptr && ++message.asked > 3) {
            require(message.bytes == message.expected, ExitCode::peer, "message of another size");
            std::memcpy(message.to, message.from, static_cast<std::size_t>(message.bytes));
            message.done = true;
        }
        return message.done;
    }

    void wait(Message& message) {
        const Timer timer;
        {
            const std::scoped_lock lock(mutex_);
            ++waits_;
        }
        while (!test(message)) {
            require(timer.seconds() < 20, ExitCode::peer, "a message was never met: deadlock");
            std::this_thread::yield();
        }
    }

    void set_failed() {
        const std::scoped_lock lock(mutex_);
        failed_ = true;
    }
    // Waits that were entered so far, on any rank.
    i64 waits() {
        const std::scoped_lock lock(mutex_);
        return waits_;
    }

private:
    std::mutex mutex_;
    std::map<std::pair<int, int>, Line> lines_;
    bool failed_ = false;
    i64 waits_ = 0;
};

class FakeCommunicator : public Communicator {
public:
    FakeCommunicator(FakeNetwork& network, int rank, int size) : network_(network), rank_(rank), size_(size) {}
    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }
    [[nodiscard]] std::string_view name() const override { return "fake"; }
    Pending send(const void* data, i64 count, Dtype type, int to, std::string_view label) override {
        bytes_[std::string(label)] += count * size_of(type);
        return pending(network_.open(rank_, to, data, nullptr, count * size_of(type)));
    }
    Pending receive(void* data, i64 count, Dtype type, int from, std::string_view) override {
        return pending(network_.open(from, rank_, nullptr, data, count * size_of(type)));
    }
    Pending all_reduce(void*, i64, Dtype, ReduceOp, ReduceOrder, void*, std::string_view) override { return refused(); }
    Pending reduce_scatter(void*, const void*, i64, Dtype, ReduceOrder, void*, std::string_view) override {
        return refused();
    }
    Pending all_gather(void*, const void*, i64, Dtype, std::string_view) override { return refused(); }
    Pending broadcast(void*, i64, Dtype, int, std::string_view) override { return refused(); }
    Pending barrier(std::string_view) override { return refused(); }
    void progress() override {}
    [[nodiscard]] i64 bytes_sent() const override { return 0; }
    [[nodiscard]] std::map<std::string, i64, std::less<>> bytes_by_label() const override { return bytes_; }

private:
    struct State : Pending::State {
        State(FakeNetwork& n, FakeNetwork::Message& m) : network(n), message(m) {}
        bool test() override { return network.test(message); }
        void wait() override { network.wait(message); }
        FakeNetwork& network;
        FakeNetwork::Message& message;
    };
    Pending pending(FakeNetwork::Message& message) { return Pending(std::make_unique<State>(network_, message)); }
    static Pending refused() { fail(ExitCode::peer, "the pipeline makes no collectives"); }

    FakeNetwork& network_;
    int rank_, size_;
    std::map<std::string, i64, std::less<>> bytes_;
};

}  // namespace ogrom::test
