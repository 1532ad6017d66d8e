#include "src/comm/communicator.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "kernels/common/error.h"

#include "src/comm/wait.h"

namespace ogrom {
namespace {

constexpr i64 text_limit = i64{64} << 10;  // bytes of one rank in gather_text

template <class T>
std::vector<T> gather_values(Communicator& comm, T value, std::string_view label) {
    std::vector<T> all(static_cast<std::size_t>(comm.size()));
    comm.host().all_gather(all.data(), &value, 1, dtype_of<T>(), label).wait();
    return all;
}

[[noreturn]] void lacks(const Communicator& comm, const char* call, std::string_view label) {
    fail(ExitCode::peer, fmt::format("collective '{}': communicator {} carries no {}", label, comm.name(), call));
}

}  // namespace

Pending Communicator::reduce(void*, i64, Dtype, int, ReduceOrder, void*, std::string_view label) {
    lacks(*this, "reduce", label);
}
Pending Communicator::all_gather_batched(void*, const void*, i64, i64, Dtype, std::string_view label) {
    lacks(*this, "all_gather_batched", label);
}
Pending Communicator::reduce_scatter_batched(void*, const void*, i64, i64, Dtype, ReduceOrder, void*,
                                             std::string_view label) {
    lacks(*this, "reduce_scatter_batched", label);
}
Pending Communicator::send(const void*, i64, Dtype, int, std::string_view label) {
    lacks(*this, "send", label);
}
Pending Communicator::receive(void*, i64, Dtype, int, std::string_view label) {
    lacks(*this, "receive", label);
}
std::unique_ptr<Communicator> Communicator::split(int, int, const std::string& name, CollectiveCheck) {
    lacks(*this, "split", name);
}

void Pending::State::wait() {
    wait_until([this] { return test(); }, nullptr, [] { return 0L; });
}

bool Pending::test() {
    return state_ == nullptr || state_->test();
}

void Pending::wait() {
    if (state_ != nullptr) {
        state_->wait();
        state_.reset();
    }
}

void Pending::wait_host() {
    if (state_ != nullptr) {
        state_->wait_host();
        state_.reset();
    }
}

double agree_sum(Communicator& comm, double value, std::string_view label) {
    double sum = 0;
    for (const double part : gather_values(comm, value, label)) {
        sum += part;
    }
    return sum;
}

i64 agree_sum(Communicator& comm, i64 value, std::string_view label) {
    i64 sum = 0;
    for (const i64 part : gather_values(comm, value, label)) {
        sum += part;
    }
    return sum;
}

i64 agree_max(Communicator& comm, i64 value, std::string_view label) {
    const std::vector<i64> all = gather_values(comm, value, label);
    return *std::max_element(all.begin(), all.end());
}

std::vector<std::string> gather_text(Communicator& comm, const std::string& text, std::string_view label) {
    const i64 bytes = static_cast<i64>(text.size());
    if (bytes > text_limit) {
        fail(ExitCode::peer,
             fmt::format("gather_text '{}': {} bytes on rank {}, at most {}", label, bytes, comm.rank(), text_limit));
    }
    const std::vector<i64> sizes = gather_values(comm, bytes, label);
    const i64 words = ceil_div(*std::max_element(sizes.begin(), sizes.end()), 8);
    std::vector<u64> mine(static_cast<std::size_t>(words)), all(static_cast<std::size_t>(words * comm.size()));
    if (bytes > 0) {
        std::memcpy(mine.data(), text.data(), text.size());
    }
    comm.host().all_gather(all.data(), mine.data(), words, Dtype::u64, label).wait();
    std::vector<std::string> texts;
    for (std::size_t r = 0; r < sizes.size(); ++r) {
        const char* from = reinterpret_cast<const char*>(all.data()) + static_cast<i64>(r) * words * 8;
        texts.emplace_back(from, static_cast<std::size_t>(sizes[r]));
    }
    return texts;
}

}  // namespace ogrom
