// A small odd model in memory of its own, and batches for it: shared by the tests of model and pipeline.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/common/rng.h"

#include "src/device/arena.h"
#include "src/device/ledger.h"
#include "src/model/parameters.h"
#include "src/model/stage.h"

#include "tests/unit/model/flat_source.h"

namespace ogrom::test {

inline constexpr u32 test_domain = 77;  // of the random numbers made here

inline ModelConfig tiny_config() {
    ModelConfig model;
    model.layers = 2;
    model.hidden = 15;
    model.heads = model.kv_heads = 3;
    model.head_dim = 5;
    model.ffn_hidden = 29;
    model.vocab = 37;
    model.padded_vocab = 40;
    model.sequence = 11;
    model.init_std = 0.3;  // large enough that every path carries a gradient of size
    return model;
}

inline StageSpan whole(const ModelConfig& model) {
    return {.first_layer = 0, .last_layer = model.layers};
}

// The whole model in one chunk on one rank.
inline StageShape whole_shape(const ModelConfig& model, const StageExtents& extents) {
    StageShape shape;
    shape.spans = {whole(model)};
    shape.extents = extents;
    return shape;
}

inline Ledger ledger_with(const Ledger& stage_lines, const ParameterLayout& layout, i64 bytes) {
    Ledger ledger = stage_lines;
    ledger.add("weights", Tier::device, layout.size() * bytes, "P");
    ledger.add("gradients", Tier::device, layout.gradient_size() * bytes, "P + X");
    return ledger;
}

template <class T>
Ledger stage_ledger(const ModelConfig& model, const StageShape& shape) {
    Ledger ledger;
    Stage<T>::declare(ledger, model, shape);
    return ledger;
}

// Samples first ... first + B of a batch of random tokens; every `mask_every`-th target is masked (0: none).
inline Batch make_batch(const ModelConfig& model, i64 first, i64 B, i64 T, i64 mask_every = 0) {
    Batch batch;
    batch.B = B;
    batch.T = T;
    for (i64 b = first; b < first + B; ++b) {
        batch.sample.push_back(b);
        batch.sample_id.push_back(b);
        for (i64 t = 0; t < T; ++t) {
            const auto token = [&](i64 place) {
                const u64 index = static_cast<u64>(b * 1000 + place);
                return static_cast<std::int32_t>(random_word(3, 0, test_domain, index) % static_cast<u32>(model.vocab));
            };
            const bool masked = mask_every > 0 && (b * T + t) % mask_every == 0;
            batch.tokens.push_back(token(t));
            batch.targets.push_back(token(t + 1));
            batch.loss_mask.push_back(masked ? 0 : 1);
            batch.positions.push_back(static_cast<std::int32_t>(t));
            batch.unmasked += masked ? 0 : 1;
        }
    }
    return batch;
}

// Weights: initialise() plus noise on gains and biases by global index, so that none is at a special value.
template <class T>
void fill_weights(std::span<T> weights, const ParameterLayout& layout) {
    initialise<T>(weights, layout, 1234);
    for (const LocalTensor& tensor : layout.tensors()) {
        for (i64 i = 0; tensor.parameter->shape.size() == 1 && i < tensor.count; ++i) {
            const u32 id = static_cast<u32>(tensor.parameter->id);
            weights[static_cast<std::size_t>(tensor.offset + i)] +=
                static_cast<T>(0.1 * normal_at(99, id, static_cast<u64>(tensor.global_index(i))));
        }
    }
}

template <class T>
struct TinyModel {
    TinyModel(const ModelConfig& model_config, const StageExtents& extents)
        : TinyModel(model_config, whole_shape(model_config, extents)) {}
    TinyModel(const ModelConfig& model_config, const StageShape& stage_shape, Communicator* tensor = nullptr)
        : model(model_config),
          shape(stage_shape),
          table(make_parameters(model, dtype_of<T>())),
          layout(table, shape.spans, shape.tensor),
          stage_lines(stage_ledger<T>(model, shape)),
          arena(ledger_with(stage_lines, layout, size_of(dtype_of<T>()))),
          weights(arena.take<T>("weights").first(static_cast<std::size_t>(layout.size()))),
          gradient_space(arena.take<T>("gradients").first(static_cast<std::size_t>(layout.gradient_size()))),
          gradients(gradient_space.first(static_cast<std::size_t>(layout.size()))),
          source(layout, weights, gradient_space),
          stage(std::make_unique<Stage<T>>(model, shape, layout, arena, source, tensor)) {
        fill_weights(weights, layout);
        clear();
    }
    void clear() { std::fill(gradient_space.begin(), gradient_space.end(), T(0)); }
    // The tied head's part of the gradient joins the table's.
    void join() {
        const std::vector<T> flat = joined<T>(layout, gradient_space);
        clear();
        std::copy(flat.begin(), flat.end(), gradients.begin());
    }
    [[nodiscard]] typename Stage<T>::StepInfo info_of(double loss_scale, i64 number = 0) {
        return {.loss_scale = loss_scale, .seed = 5, .step = number, .loss_sum = &loss_sum};
    }
    // The losses that passes have added since the last call.
    double take_loss() { return std::exchange(loss_sum, 0.0); }
    // One forward and backward pass over each micro-batch; returns the loss sum. Gradients are those of loss_scale.
    double step(const std::vector<Batch>& batches, double loss_scale, i64 number = 0) {
        const typename Stage<T>::StepInfo info = info_of(loss_scale, number);
        clear();
        double loss = 0;
        for (const Batch& batch : batches) {
            stage->forward({}, batch, 0, 0, info);
            stage->backward({}, batch, 0, 0, 0, info);
            loss += take_loss();
        }
        join();
        return loss;
    }
    double evaluate(const Batch& batch) {
        stage->forward({}, batch, 0, 0, {.training = false});
        stage->evaluate({}, batch, 0, 0, &loss_sum);
        return take_loss();
    }
    // Fills activations, workspaces and gradients with NaN (a pass with NaN weights): what is read before it was
    // written shows in the next step.
    void poison() {
        const std::vector<T> kept(weights.begin(), weights.end());
        std::fill(weights.begin(), weights.end(), std::numeric_limits<T>::quiet_NaN());
        for (i64 slot = 0; slot < shape.extents.slots[0]; ++slot) {
            const Batch batch = make_batch(model, 0, shape.extents.micro_batch, shape.extents.sequence);
            stage->forward({}, batch, 0, slot, {});
            stage->backward({}, batch, 0, slot, 0, {.loss_sum = &loss_sum});
        }
        take_loss();
        std::copy(kept.begin(), kept.end(), weights.begin());
    }
    [[nodiscard]] std::vector<T> gradient_copy() const { return joined<T>(layout, gradient_space); }

    ModelConfig model;
    StageShape shape;
    ParameterTable table;
    ParameterLayout layout;
    Ledger stage_lines;
    Arena arena;
    std::span<T> weights, gradient_space, gradients;  // [P], [P + X], the space's first P
    FlatSource<T> source;
    std::unique_ptr<Stage<T>> stage;
    double loss_sum = 0;
};

inline i64 unmasked(const std::vector<Batch>& batches) {
    i64 n = 0;
    for (const Batch& batch : batches) {
        n += batch.unmasked;
    }
    return n;
}

template <class T>
double norm_of(std::span<const T> x) {
    double sum = 0;
    for (const T value : x) {
        sum += static_cast<double>(value) * static_cast<double>(value);
    }
    return std::sqrt(sum);
}

// ||a - b|| / ||b||; infinite where a value is not finite.
template <class T>
double relative_difference(std::span<const T> a, std::span<const T> b) {
    double difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
        difference += d * d;
    }
    const double ratio = std::sqrt(difference) / norm_of(b);
    return std::isfinite(ratio) ? ratio : std::numeric_limits<double>::infinity();
}

}  // namespace ogrom::test
