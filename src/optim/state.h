// What an optimizer step works on, and how it is kept on this rank. Bytes per parameter (w weights, g gradients, m all
// moments and the master where the weights have 16 bits; N ranks of the zero group), plus the unit buffers of
// optim/units:
//   ZeRO 0  w + g + m        ZeRO 1  w + g + m / N        ZeRO 2  w + (g + m) / N        ZeRO 3  (w + g + m) / N
// The head's part of a tied table's gradient counts as elements of g (model/parameters.h).
#pragma once
#include <span>
#include <vector>

#include "kernels/common/dtype.h"
#include "kernels/common/error.h"
#include "kernels/common/stream.h"

#include "src/comm/communicator.h"
#include "src/config/run.h"
#include "src/device/buffer.h"
#include "src/optim/ownership.h"

namespace ogrom {

// direct: kernels add into the full gradient buffer over all micro-batches, buckets are reduced in the last one (ZeRO
// 0 and 1, any order of summation). staged: kernels add into a unit's working buffer, which is reduced to its owners
// in each micro-batch (ZeRO 2 and 3; the fixed order at every ZeRO stage).
enum class GradientWay { direct, staged };

struct StepOptions {
    int zero = 0;
    GradientWay way = GradientWay::direct;
    ReduceOrder order = ReduceOrder::any;
    i64 bucket_elements = 1;
    bool overlap = true;  // transfers go on during the passes; off: the same calls in one order, waited for at once
    Regather regather = Regather::micro_batch;
    bool sequence_parallel = false;  // gradients of tensors replicated over tensor ranks are partial sums
};

// This rank's place on the axes over which the step is shared; its place on the tensor axis is the layout's.
struct StepPlace {
    int part = 0, parts = 1;        // of the zero group
    int replica = 0, replicas = 1;  // of the groups that hold the same shards (HSDP)
};

// The communicators of the same axes, each outlives what it is given to, null stands for an axis of one rank; and the
// queue that they are bound to.
struct StepGroups {
    Communicator* shard = nullptr;
    Communicator* replica = nullptr;
    Communicator* tensor = nullptr;
    Communicator* tie = nullptr;  // first and last stage: rank 0 embeds, rank 1 heads
    Stream stream = {};
    Communicator* world = nullptr;  // moves what is under way on the other axes; null: nothing is
    [[nodiscard]] StepPlace place() const;
};

// A buffer that holds some ranges of a flat space, one after another.
template <class T>
class FlatView {
public:
    FlatView() = default;
    FlatView(std::span<T> data, std::vector<FlatRange> ranges);

    [[nodiscard]] std::span<T> data() const { return data_; }
    [[nodiscard]] const std::vector<FlatRange>& ranges() const { return ranges_; }
    [[nodiscard]] bool empty() const { return data_.empty(); }
    // First element of `range`, all of which must be held, in one piece.
    [[nodiscard]] T* locate(FlatRange range) const;

private:
    std::span<T> data_;
    std::vector<FlatRange> ranges_;
};

// What this rank keeps of each state under a ZeRO stage, as ranges of the flat (gradients: gradient) space.
std::vector<FlatRange> weight_ranges(const ParameterLayout& layout, const Ownership& ownership, int zero, int part);
std::vector<FlatRange> gradient_ranges(const ParameterLayout& layout, const Ownership& ownership, int zero, int part);
std::vector<FlatRange> moment_ranges(const ParameterLayout& layout, const Ownership& ownership, int zero, int part);

template <class T>
struct StepState {
    FlatView<T> weights;
    // A moment that the optimizer lacks is empty. moment_ranges are also those that this rank updates.
    FlatView<GradientOf<T>> gradients, moment1, moment2;
    // Of bf16 and fp16: the weights in fp32, which `weights` are rounded from; has the ranges of the moments. Else
    // empty.
    FlatView<GradientOf<T>> master;
};
// The spans must have the sizes of state_bytes; an empty moment or master stays empty.
template <class T>
StepState<T> make_step_state(const ParameterLayout& layout, const Ownership& ownership, int zero, int part,
                             std::span<T> weights, std::span<GradientOf<T>> gradients, std::span<GradientOf<T>> moment1,
                             std::span<GradientOf<T>> moment2, std::span<GradientOf<T>> master = {});

// Initial weights (and master), made on the host: the same bits under every layout and on every device; moments 0.
template <class T>
void start_state(const StepState<T>& state, const ParameterLayout& layout, const HostWindow& window, Stream stream,
                 u64 seed);

// Bytes of the ledger lines "weights", "gradients", and "master", "moment1" and "moment2" (each `moment`);
// weight_bytes and gradient_bytes of an element as stored.
struct StateBytes {
    i64 weights = 0, gradients = 0, moment = 0;
};
StateBytes state_bytes(const ParameterLayout& layout, const Ownership& ownership, int zero, int part, i64 weight_bytes,
                       i64 gradient_bytes);

}  // namespace ogrom
