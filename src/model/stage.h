// The layers of one pipeline rank over one micro-batch at a time: all its chunks, on its place of the tensor axis.
// forward saves activations in a slot of the chunk, backward reads them. Explicit forward and backward per layer, no
// tape. The loss and its gradient are one pass over chunks of logits at the start of the last chunk's backward, so that
// full logits never exist.
// Comes in: a BatchView (whole on every rank), a unit's parameters when it is used. Goes out: gradients added to the
// unit's; unmasked losses added to a sum, where the head is. Between chunks and ranks: activation_in / activation_out
// of a slot, and gradient(buffer), which holds d(output) of the chunk before a backward pass and d(input) behind it.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "kernels/common/stream.h"

#include "src/config/run.h"
#include "src/data/batch.h"
#include "src/device/arena.h"
#include "src/device/ledger.h"
#include "src/model/tensor_group.h"
#include "src/model/unit.h"

namespace ogrom {

struct StageExtents {
    i64 micro_batch = 0, sequence = 0, logits_rows = 0;  // sequence: all positions of a sample
    int threads = 1;
    std::vector<i64> slots = {1};  // activation slots of each chunk
    i64 gradient_buffers = 1;
    i64 weight_slots = 0;  // split backward passes whose weight half may wait
};

// Everything that decides the memory and the work of a stage.
struct StageShape {
    std::vector<StageSpan> spans;  // of each chunk, in order of the forward pass; spans[i].chunk == i
    StageExtents extents;
    TensorPart tensor;
    Sequence sequence = Sequence::whole;
    Recompute recompute = Recompute::none;
    i64 recompute_interval = 1;  // full: layers 0, n, 2n ... of the model
    ReduceOrder reduce_order = ReduceOrder::any;
    LinearProducts linears = LinearProducts::compute;
    Backend backend = Backend::cpu;  // a GPU's attention takes no workspace of the stage
};
// What backward makes again of a layer of the model.
Recompute recompute_of(const StageShape& shape, i64 layer);

// The linear layers of a block on one of `tensor` ranks, w[out, in], in the order of the forward pass.
struct BlockLinear {
    const char* name;
    i64 in, out;
};
std::array<BlockLinear, 4> block_linears(const ModelConfig& model, int tensor);

template <class T>
class Stage {
public:
    // Adds the stage's lines (activations per slot, workspaces) to the ledger; plan and run call the same function.
    static void declare(Ledger& ledger, const ModelConfig& model, const StageShape& shape);
    // `layout`, `source` and `tensor` (null with one tensor rank) must outlive the stage.
    Stage(const ModelConfig& model, const StageShape& shape, const ParameterLayout& layout, Arena& arena,
          UnitSource<T>& source, Communicator* tensor);
    ~Stage();

    struct StepInfo {
        double loss_scale = 1;  // 1 / unmasked targets of the global batch
        u64 seed = 0;           // dropout
        i64 step = 0;
        bool training = true;                   // false: no dropout
        double* loss_sum = nullptr;             // where the kernels run; the head adds the micro-batch's losses to it
        const double* loss_scale_at = nullptr;  // where the kernels run: overrides loss_scale
        const u32* step_at = nullptr;           // the same of step
    };
    // Forward of one micro-batch through a chunk. The embedding's chunk makes its own input, another reads
    // activation_in(chunk, slot).
    void forward(Stream stream, const BatchView& batch, i64 chunk, i64 slot, const StepInfo& info);
    // Backward of the micro-batch in `slot`, gradient(buffer) in place. Where the chunk holds the head, the unmasked
    // losses (not scaled) are added to *info.loss_sum; equal on all tensor ranks.
    void backward(Stream stream, const BatchView& batch, i64 chunk, i64 slot, i64 buffer, const StepInfo& info);
    // The same in two halves, with the same bits: the second may come any time later while slot and weight slot stand.
    void backward_input(Stream stream, const BatchView& batch, i64 chunk, i64 slot, i64 buffer, i64 weight_slot,
                        const StepInfo& info);
    void backward_weight(Stream stream, const BatchView& batch, i64 chunk, i64 slot, i64 weight_slot,
                         const StepInfo& info);
    // After forward with info.training = false: adds the unmasked losses to *loss_sum where the chunk holds the head.
    void evaluate(Stream stream, const BatchView& batch, i64 chunk, i64 slot, double* loss_sum);

    // [micro_batch, T or T/tp, C]: what passes between chunks. The output stays in its slot until the next forward.
    [[nodiscard]] i64 boundary_elements() const;
    [[nodiscard]] T* activation_in(i64 chunk, i64 slot) const;
    [[nodiscard]] T* activation_out(i64 chunk, i64 slot) const;
    [[nodiscard]] T* gradient(i64 buffer) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Text generation with a key-value cache (model/generate). One token in, logits [vocab] of the next out; true
// vocabulary only.
template <class T>
class Generator {
public:
    Generator(const ModelConfig& model, const ParameterLayout& layout, std::span<const T> weights, int threads);
    ~Generator();
    void reset();
    std::span<const T> feed(std::span<const std::int32_t> tokens);  // appends; throws beyond model.sequence

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ogrom
