// The layers of one pipeline stage (here: the whole model) over one micro-batch: forward saves activations in a slot,
// backward reads them. Explicit forward and backward per layer, no tape. The last stage's loss and its gradient are one
// pass over chunks of logits at the start of backward, so that full logits never exist.
// Comes in: a Batch. Goes out: the sum of its unmasked losses, gradients added to the flat gradient buffer.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/common/stream.h"

#include "src/config/run.h"
#include "src/data/batch.h"
#include "src/device/arena.h"
#include "src/device/ledger.h"
#include "src/model/parameters.h"

namespace ogrom {

struct StageExtents {  // everything that decides the size of activations
    i64 micro_batch = 0, sequence = 0, slots = 1, logits_rows = 0;
    int threads = 1;
};

// Called by the stage, supplied by train (nothing lower names anything higher).
struct StageHooks {
    std::function<void(i64 first, i64 last)> parameters_wanted;  // flat element range about to be read (ZeRO-3)
    std::function<void(i64 first, i64 last)>
        gradient_ready;  // flat element range whose gradient of this micro-batch is final
};

template <class T>
class Stage {
public:
    // Adds the stage's lines (activations per slot, workspaces) to the ledger; plan and run call the same function.
    static void declare(Ledger& ledger, const ModelConfig& model, const StageSpan& span, const StageExtents& extents);
    Stage(const ModelConfig& model, const StageSpan& span, const StageExtents& extents, const ParameterLayout& layout,
          Arena& arena, std::span<T> weights, std::span<T> gradients, StageHooks hooks);
    ~Stage();

    struct StepInfo {
        double loss_scale = 1;  // 1 / unmasked targets of the global batch
        u64 seed = 0;           // dropout
        i64 step = 0;
        bool training = true;  // false: no dropout
    };
    // Forward of one micro-batch into `slot`.
    void forward(Stream stream, const Batch& batch, i64 slot, const StepInfo& info);
    // Loss and gradient of the micro-batch in `slot`; returns the sum of its unmasked losses (not scaled).
    double backward(Stream stream, const Batch& batch, i64 slot, const StepInfo& info);
    // Forward and loss only (evaluation); returns the sum of unmasked losses. Uses slot 0.
    double evaluate(Stream stream, const Batch& batch);

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
