// Communicators over device memory under test: every test runs for each transport, staged on CPU streams everywhere,
// staged and NCCL on a GPU where there is one (several ranks may share it: NCCL 2.30 and later). Programs of several
// ranks: tests/mpi/world.h.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "kernels/common/dtype.h"
#include "kernels/cuda/runtime.h"

#include "src/comm/axis_set.h"
#include "src/comm/wait_device.h"
#include "src/device/buffer.h"
#include "src/device/queue.h"

#include "tests/mpi/world.h"

namespace ogrom::test {

enum class Where { staged_cpu, staged_cpu_small, staged_gpu, staged_gpu_small, nccl };
std::string name_of(Where where);

// One communicator over all ranks for each transport, made when first asked for, all with message channels up and
// around; and its queues. `reason` says why there is none.
struct Axis {
    Queues queues;
    std::unique_ptr<Communicator> comm;
    explicit Axis(const Device& device) : queues(device) {}
};
std::string reason_without(Where where);
Axis& axis(Where where);
// A new communicator of the same kind.
std::unique_ptr<Communicator> another(Where where, const std::string& name);

class DeviceComm : public testing::TestWithParam<Where> {
protected:
    void SetUp() override {
        if (const std::string reason = reason_without(GetParam()); !reason.empty()) {
            GTEST_SKIP() << reason;
        }
        held_ = &axis(GetParam());
    }
    [[nodiscard]] Communicator& comm() const { return *held_->comm; }
    [[nodiscard]] Stream stream() const { return held_->queues.compute; }
    [[nodiscard]] int rank() const { return comm().rank(); }
    [[nodiscard]] int size() const { return comm().size(); }

private:
    Axis* held_ = nullptr;
};

// Elements where `stream` works, between guards.
template <class T>
class Block {
public:
    Block(Stream stream, const std::vector<T>& values) : stream_(stream), count_(static_cast<i64>(values.size())) {
        std::vector<T> all(static_cast<std::size_t>(count_ + 2 * guard), T(77));
        std::copy(values.begin(), values.end(), all.begin() + guard);
        bytes_ = static_cast<i64>(all.size() * sizeof(T));
        memory_ = stream.backend == Backend::cuda ? cuda::allocate_device(bytes_) : ::operator new(bytes());
        copy_bytes(stream_, memory_, all.data(), bytes_);
        ogrom::wait(stream_);
    }
    Block(Stream stream, i64 count, T fill) : Block(stream, std::vector<T>(static_cast<std::size_t>(count), fill)) {}
    ~Block() {
        if (stream_.backend == Backend::cuda) {
            cuda::free_device(memory_);
        } else {
            ::operator delete(memory_);
        }
    }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    T* data() { return static_cast<T*>(memory_) + guard; }
    // After everything that compute has now.
    std::vector<T> values() {
        const std::vector<T> all = whole();
        return {all.begin() + guard, all.end() - guard};
    }
    bool intact() {
        const std::vector<T> all = whole();
        const std::vector<T> around(guard, T(77));
        return same(std::vector<T>(all.begin(), all.begin() + guard), around) &&
               same(std::vector<T>(all.end() - guard, all.end()), around);
    }
    static bool same(const std::vector<T>& a, const std::vector<T>& b) {
        return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
    }

private:
    static constexpr i64 guard = 16;
    [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(bytes_); }
    std::vector<T> whole() {
        std::vector<T> all(static_cast<std::size_t>(count_ + 2 * guard));
        wait_for_device(session().world(), stream_);
        copy_bytes(stream_, all.data(), memory_, bytes_);
        ogrom::wait(stream_);
        return all;
    }
    Stream stream_;
    i64 count_, bytes_ = 0;
    void* memory_ = nullptr;
};

template <class T>
double number(T value) {
    if constexpr (is_16_bit<T>) {
        return to_float(value);
    } else {
        return static_cast<double>(value);
    }
}

template <class T>
void expect_same(Block<T>& block, const std::vector<T>& expected, const std::string& what) {
    const std::vector<T> found = block.values();
    EXPECT_TRUE(block.intact()) << what << ": written outside";
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(std::memcmp(&found[i], &expected[i], sizeof(T)), 0)
            << what << ", element " << i << " of " << found.size() << ": " << number(found[i]) << ", not "
            << number(expected[i]);
    }
}

// Calls test.operator()<T>() for each type that travels.
template <class Test>
void each_type(const Test& test) {
    test.template operator()<float>();
    test.template operator()<double>();
    test.template operator()<std::int32_t>();
    test.template operator()<i64>();
    test.template operator()<u64>();
    test.template operator()<Bf16>();
    test.template operator()<Fp16>();
}

// Whole numbers that name rank and element and whose sums over 8 ranks are exact in T, in any order.
template <class T>
T payload(int of_rank, i64 element) {
    if constexpr (is_16_bit<T>) {
        return T(static_cast<float>((of_rank * 5 + element % 7) % 16));
    } else {
        return static_cast<T>(of_rank * 1000 + element % 997);
    }
}
template <class T>
T plus(T a, T b) {
    if constexpr (is_16_bit<T>) {
        return T(to_float(a) + to_float(b));
    } else {
        return static_cast<T>(a + b);
    }
}
template <class T>
T summed(int ranks, i64 element) {
    T sum = payload<T>(0, element);
    for (int r = 1; r < ranks; ++r) {
        sum = plus(sum, payload<T>(r, element));
    }
    return sum;
}
// make(i) for i in [0, count).
template <class T, class Make>
std::vector<T> vector_of(i64 count, const Make& make) {
    std::vector<T> values;
    for (i64 i = 0; i < count; ++i) {
        values.push_back(make(i));
    }
    return values;
}
template <class T>
std::vector<T> payloads(int of_rank, i64 count) {
    return vector_of<T>(count, [&](i64 i) { return payload<T>(of_rank, i); });
}

}  // namespace ogrom::test
