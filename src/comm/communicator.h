// A communicator over one mesh axis, bound to a stream: collectives are enqueued like kernels; on the CPU backend "the
// stream" is the MPI progress that test()/wait()/progress() make on the calling thread.
// On a GPU (comm/device_communicator) the bound stream is that of the kernels, "compute". A call takes the contents
// that compute has at the moment of the call; until it is complete compute must not write what the call reads, nor
// touch what it writes. Complete means: work enqueued on compute from then on sees the result, and may overwrite the
// buffers. Every call has a sequence number, a label and a byte count in the flight record (comm/flight), which lets
// the control plane name the collective a rank is stuck in. Same calls, same order, same sizes on all ranks.
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
// compare: the ranks of a communicator agree on what they call before each collective, and both ends of a message on
// its label (comm/compare). The environment's OGROM_CHECK_COLLECTIVES=1 switches it on everywhere.
enum class CollectiveCheck { off, compare };

// A collective under way. Movable; destroying an unfinished one waits for it, as wait() does.
class Pending {
public:
    struct State {
        virtual ~State() = default;
        virtual bool test() = 0;  // makes progress; true once complete
        virtual void wait();      // until test() is true (comm/wait)
        virtual void wait_host() { wait(); }
    };
    Pending() = default;
    explicit Pending(std::unique_ptr<State> state) : state_(std::move(state)) {}
    Pending(Pending&&) noexcept = default;
    Pending& operator=(Pending&&) noexcept = default;
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    ~Pending() = default;
    bool test();  // true when complete (and stays true)
    // Completes it: comm/wait tests the request, control messages, signals and the deadline; throws Error(peer). On a
    // GPU the compute stream waits for what the device has still to do, the host only for what MPI has to do.
    void wait();
    void wait_host();  // the same as wait, and the host waits for the device: it may read or free the memory

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

    // A communicator that lacks one of the following refuses it by name with Error(peer).
    // data[count] of all ranks summed into the root's data, in place there; elsewhere data is only read. `scratch`
    // (fixed order, root only): reduce_scratch(count, size) elements.
    virtual Pending reduce(void* data, i64 count, Dtype type, int root, ReduceOrder order, void* scratch,
                           std::string_view label);
    // `batches` equal pieces in one call: out[(b * size + r) * count + i] = in[b * count + i] of rank r; `in` lies
    // apart from `out`. Sequence parallel: [B, T/tp, C] -> [B, T, C] with count = T/tp C, batches = B.
    virtual Pending all_gather_batched(void* out, const void* in, i64 count, i64 batches, Dtype type,
                                       std::string_view label);
    // The reverse: out[b * count + i] = sum over ranks of in[(b * size + rank()) * count + i]. `scratch` (fixed order):
    // reduce_scratch(count * batches, size) elements.
    virtual Pending reduce_scatter_batched(void* out, const void* in, i64 count, i64 batches, Dtype type,
                                           ReduceOrder order, void* scratch, std::string_view label);
    // Messages from one rank to another arrive in order of issue: the k-th send meets the k-th receive, whatever order
    // they are waited for. Type and count are the same at both ends, or the receiver throws Error(peer) that names both
    // (labels: under CollectiveCheck::compare). Complete: data may be overwritten (send) or read (receive). A send may
    // complete only once its receive was issued.
    virtual Pending send(const void* data, i64 count, Dtype type, int to, std::string_view label);
    virtual Pending receive(void* data, i64 count, Dtype type, int from, std::string_view label);
    // A communicator over the ranks of `colour`, ordered by `key`; null for a rank with colour < 0. All ranks of this
    // one call it, in one order, with nothing under way on it. One of a single rank makes no MPI call.
    virtual std::unique_ptr<Communicator> split(int colour, int key, const std::string& name, CollectiveCheck check);
    // The same ranks over host memory, for control values (agree_sum, gather_text): this one, unless it carries device
    // memory.
    virtual Communicator& host() { return *this; }
    // Lets collectives under way move; called between layers of the backward pass. No-op where hardware does it.
    virtual void progress() = 0;
    // Bytes this rank has sent since the start, counted by the same formula whatever the MPI library does inside
    // (e = bytes of an element, p = size, own = elements this rank owns of `count` cut into parts of ceil(count / p)):
    //   all_reduce     (count - own + (p - 1) own) e      = 2 (p - 1) / p count e where p divides count
    //   reduce_scatter (p - 1) count_per_rank e
    //   all_gather     (p - 1) count_per_rank e
    //   broadcast      (p - 1) count e on the root, 0 elsewhere
    //   barrier        0
    //   reduce         0 on the root, count e elsewhere
    //   all_gather_batched, reduce_scatter_batched   (p - 1) count batches e
    //   send           count e
    //   receive        0
    [[nodiscard]] virtual i64 bytes_sent() const = 0;
    // The same, split by label. Empty where nothing is sent.
    [[nodiscard]] virtual std::map<std::string, i64, std::less<>> bytes_by_label() const { return {}; }
};

// A communicator of one rank that needs no MPI: what commands use that run alone, and every mesh axis of extent 1. Its
// memory is where `compute` works; copies of a rank's own part are enqueued there.
std::unique_ptr<Communicator> make_single_communicator(const std::string& name = "single", Stream compute = {});

// Elements of scratch that the fixed order needs for one call of `count` elements.
constexpr i64 fixed_order_scratch(i64 count, int size) {
    return size <= 1 ? 0 : ceil_div(count, size) * size;
}
// Elements of scratch where `count` elements of each other rank meet on one: reduce (on the root) and
// reduce_scatter_batched (count * batches).
constexpr i64 reduce_scratch(i64 count, int size) {
    return size <= 1 ? 0 : (size - 1) * count;
}

// Small control values over comm.host(), blocking through comm/wait. Sums are added in rank order.
double agree_sum(Communicator& comm, double value, std::string_view label);
i64 agree_sum(Communicator& comm, i64 value, std::string_view label);
i64 agree_max(Communicator& comm, i64 value, std::string_view label);
// Gathers one string of each rank (bounded at 64 KiB each), in rank order, on all ranks.
std::vector<std::string> gather_text(Communicator& comm, const std::string& text, std::string_view label);

}  // namespace ogrom
