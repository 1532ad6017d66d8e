// A communicator over one mesh axis, bound to a stream: collectives are enqueued like kernels and complete in order of
// issue; on the CPU backend "the stream" is the MPI progress that test()/wait()/progress() make on the calling thread.
// Every call has a sequence number, a label and a byte count in the flight record (comm/flight), which lets the control
// plane name the collective a rank is stuck in. Same calls, same order, same sizes on all ranks.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/common/dtype.h"
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"

namespace ogrom {

enum class ReduceOp { sum, max, min };
// fixed: each element's owner receives all contributions and adds them in rank order, so the bits do not depend on the
// cut into calls or on the MPI library; any: whatever is fastest.
enum class ReduceOrder { any, fixed };

// A collective under way. Movable; destroying an unfinished one waits for it.
class Pending {
public:
    struct State {
        virtual ~State() = default;
        virtual bool test() = 0;  // makes progress; true once complete
        virtual void wait();      // until test() is true (comm/wait)
    };
    Pending() = default;
    explicit Pending(std::unique_ptr<State> state) : state_(std::move(state)) {}
    Pending(Pending&&) noexcept = default;
    Pending& operator=(Pending&&) noexcept = default;
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    ~Pending() = default;
    bool test();  // true when complete (and stays true)
    void wait();  // comm/wait: tests the request, control messages, signals and the deadline; throws Error(peer)

private:
    std::unique_ptr<State> state_;
};

class Communicator {
public:
    virtual ~Communicator() = default;
    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;
    [[nodiscard]] virtual std::string_view name() const = 0;  // the mesh axes it spans: "dp", "dp+cp", "world"

    // In place on `data[count]`. `scratch` (fixed order only): (size - 1) * ceil(count / size) + ceil(count / size)
    // elements of the same type, from the ledger.
    virtual Pending all_reduce(void* data, i64 count, Dtype type, ReduceOp op, ReduceOrder order, void* scratch,
                               std::string_view label) = 0;
    // out[count_per_rank] = sum over ranks of in[rank() * count_per_rank ...]; in[size * count_per_rank].
    virtual Pending reduce_scatter(void* out, const void* in, i64 count_per_rank, Dtype type, ReduceOrder order,
                                   void* scratch, std::string_view label) = 0;
    // out[size * count_per_rank]; `in` may be its own part of `out`.
    virtual Pending all_gather(void* out, const void* in, i64 count_per_rank, Dtype type, std::string_view label) = 0;
    virtual Pending broadcast(void* data, i64 count, Dtype type, int root, std::string_view label) = 0;
    virtual Pending barrier(std::string_view label) = 0;
    // Lets collectives under way move; called between layers of the backward pass. No-op where hardware does it.
    virtual void progress() = 0;
    // Bytes this rank has sent since the start, counted by the same formula whatever the MPI library does inside
    // (e = bytes of an element, p = size, own = elements this rank owns of `count` cut into parts of ceil(count / p)):
    //   all_reduce     (count - own + (p - 1) own) e      = 2 (p - 1) / p count e where p divides count
    //   reduce_scatter (p - 1) count_per_rank e
    //   all_gather     (p - 1) count_per_rank e
    //   broadcast      (p - 1) count e on the root, 0 elsewhere
    //   barrier        0
    [[nodiscard]] virtual i64 bytes_sent() const = 0;
    // The same, split by label. Empty where nothing is sent.
    [[nodiscard]] virtual std::map<std::string, i64, std::less<>> bytes_by_label() const { return {}; }
};

// A communicator of one rank that needs no MPI: what commands use that run alone.
std::unique_ptr<Communicator> make_single_communicator();

// Elements of scratch that the fixed order needs for one call of `count` elements.
constexpr i64 fixed_order_scratch(i64 count, int size) {
    return size <= 1 ? 0 : ceil_div(count, size) * size;
}

// Small control values, blocking through comm/wait. Sums are added in rank order.
double agree_sum(Communicator& comm, double value, std::string_view label);
i64 agree_sum(Communicator& comm, i64 value, std::string_view label);
i64 agree_max(Communicator& comm, i64 value, std::string_view label);
// Gathers one string of each rank (bounded at 64 KiB each), in rank order, on all ranks.
std::vector<std::string> gather_text(Communicator& comm, const std::string& text, std::string_view label);

}  // namespace ogrom
