// One optimizer step written straight down: the same kernels in the same order as train/step, without mesh, ledger,
// schedule, flight record, checks or stop votes. What the machinery costs is the difference.
#pragma once
#include <cstdint>
#include <vector>

#include "src/config/run.h"

namespace ogrom::peers {

class PlainStep {
public:
    PlainStep(const ModelConfig& model, const OptimizerConfig& optimizer, i64 B, i64 T, i64 logits_rows);
    PlainStep(PlainStep&&) = default;  // pointers into the pool stay
    PlainStep(const PlainStep&) = delete;
    // All weights, one tensor after another in the order of model/parameters.
    std::vector<float>& weights() { return weights_; }
    // One step on tokens, targets [B, T]; the mean loss.
    double run(const std::int32_t* tokens, const std::int32_t* targets, const std::int32_t* positions);

private:
    struct Layer {
        float *in, *n1, *m1, *r1, *qkv, *att, *lse, *mid, *n2, *m2, *r2, *up, *act;
    };
    void forward(const std::int32_t* tokens, const std::int32_t* positions);
    double head(const std::int32_t* targets);
    void backward(i64 layer);
    void update();
    float* w(i64 layer, i64 at) { return weights_.data() + first_ + layer * block_ + at; }
    float* g(i64 layer, i64 at) { return gradients_.data() + first_ + layer * block_ + at; }

    ModelConfig model_;
    OptimizerConfig optimizer_;
    i64 B_, T_, rows_, logits_rows_, C_ = 0, F_ = 0, step_ = 0;
    // Offsets of a block's tensors, of the blocks, of the final norm, and the size of the flat buffers.
    i64 n1_, qkv_, qkvb_, out_, outb_, n2_, up_, upb_, down_, downb_, block_, first_, final_, size_;
    std::vector<float> weights_, gradients_, m_, v_;
    std::vector<Layer> layers_;
    std::vector<std::vector<float>> pool_;
    float *norm_, *mean_, *rstd_, *logits_, *d_, *narrow_, *wide_, *workspace_;
};

}  // namespace ogrom::peers
