#include "tests/peers/plain_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/ops/attention.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/gelu.h"
#include "kernels/ops/layernorm.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/optimizer.h"
#include "kernels/ops/residual.h"

namespace ogrom::peers {
namespace {
const Stream s{};
using ops::Transpose;
// y = x w^T ; dw += dy^T x, db += sum dy, dx = dy w
void product(float* y, const float* x, const float* w, i64 rows, i64 out, i64 in, i64 ldy) {
    ops::matmul<float>(s, {y, x, w, rows, out, in, ldy, in, in, Transpose::no, Transpose::yes});
}
void gradients(float* dx, float* dw, float* db, const float* dy, const float* x, const float* w, i64 rows, i64 out,
               i64 in, i64 ldy) {
    ops::bias_gradient<float>(s, {db, dy, rows, out, ldy});
    ops::matmul<float>(s, {dw, dy, x, out, in, rows, in, ldy, in, Transpose::yes, Transpose::no, 1, 1});
    ops::matmul<float>(s, {dx, dy, w, rows, in, out, in, ldy, in});
}
}  // namespace

PlainStep::PlainStep(const ModelConfig& model, const OptimizerConfig& optimizer, i64 B, i64 T, i64 logits_rows)
    : model_(model), optimizer_(optimizer), B_(B), T_(T), rows_(B * T), logits_rows_(logits_rows) {
    C_ = model.hidden, F_ = model.ffn_hidden;
    i64 at = 0;
    const auto take = [&](i64 n) { return std::exchange(at, at + n); };
    n1_ = take(2 * C_), qkv_ = take(3 * C_ * C_), qkvb_ = take(3 * C_), out_ = take(C_ * C_), outb_ = take(C_);
    n2_ = take(2 * C_), up_ = take(F_ * C_), upb_ = take(F_), down_ = take(C_ * F_), downb_ = take(C_), block_ = at;
    first_ = (model.padded_vocab + model.sequence) * C_;
    final_ = first_ + model.layers * block_, size_ = final_ + 2 * C_;
    for (std::vector<float>* flat : {&weights_, &gradients_, &m_, &v_}) {
        flat->assign(static_cast<std::size_t>(size_), 0.0F);
    }
    const auto sized = [&](i64 n) { return pool_.emplace_back(static_cast<std::size_t>(n)).data(); };
    for (i64 l = 0; l <= model.layers; ++l) {
        layers_.push_back({sized(rows_ * C_), sized(rows_ * C_), sized(rows_), sized(rows_), sized(rows_ * 3 * C_),
                           sized(rows_ * C_), sized(rows_ * model.heads), sized(rows_ * C_), sized(rows_ * C_),
                           sized(rows_), sized(rows_), sized(rows_ * F_), sized(rows_ * F_)});
    }
    norm_ = sized(rows_ * C_), mean_ = sized(rows_), rstd_ = sized(rows_), d_ = sized(rows_ * C_),
    narrow_ = sized(rows_ * C_), wide_ = sized(rows_ * F_);
    logits_ = sized(logits_rows * model.padded_vocab), workspace_ = sized(1 << 22);
}

ops::AttentionShape shape_of(const ModelConfig& model, i64 B, i64 T) {
    ops::AttentionShape shape{};
    shape.batch = B, shape.queries = shape.keys = T, shape.heads = shape.kv_heads = model.heads;
    shape.head_dim = model.head_dim;
    shape.query_stride = shape.key_stride = shape.value_stride = 3 * model.hidden, shape.out_stride = model.hidden;
    shape.query_batch_stride = shape.key_batch_stride = shape.value_batch_stride = 3 * T * model.hidden;
    shape.out_batch_stride = T * model.hidden, shape.scale = 1 / std::sqrt(static_cast<double>(model.head_dim));
    return shape;
}

void PlainStep::forward(const std::int32_t* tokens, const std::int32_t* positions) {
    const float* const positions_table = weights_.data() + model_.padded_vocab * C_;
    ops::embedding_forward<float>(
        s, {layers_[0].in, weights_.data(), positions_table, tokens, positions, B_, T_, C_, nullptr, {}});
    for (i64 l = 0; l < model_.layers; ++l) {
        Layer& a = layers_[static_cast<std::size_t>(l)];
        float* const next = layers_[static_cast<std::size_t>(l + 1)].in;
        ops::layernorm_forward<float>(
            s, {a.n1, a.m1, a.r1, a.in, w(l, n1_), w(l, n1_ + C_), rows_, C_, model_.norm_epsilon});
        product(a.qkv, a.n1, w(l, qkv_), rows_, 3 * C_, C_, 3 * C_);
        ops::add_bias<float>(s, {a.qkv, w(l, qkvb_), rows_, 3 * C_, 3 * C_});
        ops::attention_forward<float>(
            s, {a.att, a.lse, a.qkv, a.qkv + C_, a.qkv + 2 * C_, shape_of(model_, B_, T_), workspace_});
        product(a.mid, a.att, w(l, out_), rows_, C_, C_, C_);
        ops::residual_forward<float>(s, {a.mid, a.in, a.mid, w(l, outb_), B_, T_, C_, nullptr, {}});
        ops::layernorm_forward<float>(
            s, {a.n2, a.m2, a.r2, a.mid, w(l, n2_), w(l, n2_ + C_), rows_, C_, model_.norm_epsilon});
        product(a.up, a.n2, w(l, up_), rows_, F_, C_, F_);
        ops::bias_gelu_forward<float>(s, {a.act, a.up, w(l, upb_), rows_, F_});
        product(next, a.act, w(l, down_), rows_, C_, F_, C_);
        ops::residual_forward<float>(s, {next, a.mid, next, w(l, downb_), B_, T_, C_, nullptr, {}});
    }
}

double PlainStep::head(const std::int32_t* targets) {
    const float* const x = layers_.back().in;
    ops::layernorm_forward<float>(s, {norm_, mean_, rstd_, x, weights_.data() + final_, weights_.data() + final_ + C_,
                                      rows_, C_, model_.norm_epsilon});
    double loss = 0;
    for (i64 r = 0; r < rows_; r += logits_rows_) {
        const i64 n = std::min(logits_rows_, rows_ - r);
        product(logits_, norm_ + r * C_, weights_.data(), n, model_.vocab, C_, model_.padded_vocab);
        ops::cross_entropy<float>(
            s, {logits_, targets + r, nullptr, n, model_.vocab, model_.padded_vocab, model_.padded_vocab,
                1.0 / static_cast<double>(rows_), ops::Gradient::in_place, &loss});
        ops::matmul<float>(s, {gradients_.data(), logits_, norm_ + r * C_, model_.vocab, C_, n, C_, model_.padded_vocab,
                               C_, Transpose::yes, Transpose::no, 1, 1});
        ops::matmul<float>(s,
                           {d_ + r * C_, logits_, weights_.data(), n, C_, model_.vocab, C_, model_.padded_vocab, C_});
    }
    ops::layernorm_backward<float>(s, {d_, gradients_.data() + final_, gradients_.data() + final_ + C_, d_, x,
                                       weights_.data() + final_, mean_, rstd_, rows_, C_, ops::Accumulate::overwrite});
    return loss / static_cast<double>(rows_);
}

void PlainStep::backward(i64 l) {
    Layer& a = layers_[static_cast<std::size_t>(l)];
    gradients(wide_, g(l, down_), g(l, downb_), d_, a.act, w(l, down_), rows_, C_, F_, C_);
    ops::gelu_backward<float>(s, {wide_, wide_, a.up, rows_ * F_});
    gradients(narrow_, g(l, up_), g(l, upb_), wide_, a.n2, w(l, up_), rows_, F_, C_, F_);
    ops::layernorm_backward<float>(
        s, {d_, g(l, n2_), g(l, n2_ + C_), narrow_, a.mid, w(l, n2_), a.m2, a.r2, rows_, C_, ops::Accumulate::add});
    gradients(narrow_, g(l, out_), g(l, outb_), d_, a.att, w(l, out_), rows_, C_, C_, C_);
    ops::attention_backward<float>(s, {wide_, wide_ + C_, wide_ + 2 * C_, narrow_, a.att, a.lse, a.qkv, a.qkv + C_,
                                       a.qkv + 2 * C_, shape_of(model_, B_, T_), workspace_});
    gradients(narrow_, g(l, qkv_), g(l, qkvb_), wide_, a.n1, w(l, qkv_), rows_, 3 * C_, C_, 3 * C_);
    ops::layernorm_backward<float>(
        s, {d_, g(l, n1_), g(l, n1_ + C_), narrow_, a.in, w(l, n1_), a.m1, a.r1, rows_, C_, ops::Accumulate::add});
}

void PlainStep::update() {
    const double norm = std::sqrt(ops::sum_of_squares<float>(s, gradients_.data(), size_));
    const double t = static_cast<double>(++step_);
    ops::StepScalars scalars{optimizer_.lr, norm > optimizer_.clip_norm ? optimizer_.clip_norm / norm : 1,
                             optimizer_.beta1, optimizer_.beta2};
    scalars.correction1 = 1 - std::pow(optimizer_.beta1, t), scalars.correction2 = 1 - std::pow(optimizer_.beta2, t);
    ops::adamw<float>(
        s, {weights_.data(), m_.data(), v_.data(), gradients_.data(), size_, scalars, 1, optimizer_.weight_decay});
}

double PlainStep::run(const std::int32_t* tokens, const std::int32_t* targets, const std::int32_t* positions) {
    std::fill(gradients_.begin(), gradients_.end(), 0.0F);
    forward(tokens, positions);
    const double loss = head(targets);
    for (i64 l = model_.layers - 1; l >= 0; --l) {
        backward(l);
    }
    float* const d_positions = gradients_.data() + model_.padded_vocab * C_;
    ops::embedding_backward<float>(
        s, {gradients_.data(), d_positions, d_, tokens, positions, B_, T_, C_, model_.vocab, nullptr, {}});
    update();
    return loss;
}

}  // namespace ogrom::peers
