// What an operation costs: floating-point operations and bytes of memory traffic at least (each tensor once in, once
// out, caches assumed to hold what is read again within the call). Benchmarks, metrics and the planner call the same
// functions. A multiply-add is 2 flops; an exponential, division or square root is 1. `size` = bytes of an element.
// Counts are doubles: exact to 2^53 (9e15), within 1e-16 relative beyond.
#pragma once
#include "kernels/common/extents.h"

namespace ogrom::cost {

struct Cost {
    double flops = 0;
    double bytes = 0;
};

namespace detail {
constexpr double product(i64 a, i64 b) {
    return static_cast<double>(a) * static_cast<double>(b);
}
constexpr double product(i64 a, i64 b, i64 c) {
    return product(a, b) * static_cast<double>(c);
}
}  // namespace detail

// y[m,n] = a[m,k] b[k,n]; `accumulates`: y is read too (beta != 0).
enum class Output { overwritten, accumulated };
constexpr Cost matmul(i64 m, i64 n, i64 k, i64 size, Output output = Output::overwritten) {
    const double y = detail::product(m, n) * (output == Output::accumulated ? 2 : 1);
    return {2 * detail::product(m, n, k),
            static_cast<double>(size) * (detail::product(m, k) + detail::product(k, n) + y)};
}

constexpr Cost bias_gradient(i64 rows, i64 cols, i64 size) {
    return {detail::product(rows, cols), static_cast<double>(size) * detail::product(rows, cols)};
}

constexpr Cost add_bias(i64 rows, i64 cols, i64 size) {
    return {detail::product(rows, cols), 2 * static_cast<double>(size) * detail::product(rows, cols)};
}

// Two table rows in (the token's and the position's), one row out.
constexpr Cost embedding_forward(i64 rows, i64 C, i64 size) {
    return {2 * detail::product(rows, C), 3 * static_cast<double>(size) * detail::product(rows, C)};
}

// One row in, two table rows read and written.
constexpr Cost embedding_backward(i64 rows, i64 C, i64 size) {
    return {2 * detail::product(rows, C), 5 * static_cast<double>(size) * detail::product(rows, C)};
}

// y in and out, one table row in.
constexpr Cost position_forward(i64 rows, i64 C, i64 size) {
    return {2 * detail::product(rows, C), 3 * static_cast<double>(size) * detail::product(rows, C)};
}

constexpr Cost layernorm_forward(i64 rows, i64 C, i64 size) {
    return {8 * detail::product(rows, C), 2 * static_cast<double>(size) * detail::product(rows, C)};
}

// x and dy in, dx out, or in and out where it is added to.
constexpr Cost layernorm_backward(i64 rows, i64 C, i64 size, Output d_x = Output::overwritten) {
    const double passes = d_x == Output::accumulated ? 4 : 3;
    return {14 * detail::product(rows, C), passes * static_cast<double>(size) * detail::product(rows, C)};
}

// u (8 flops with the bias), one exponential, one division; x in and out, y out.
constexpr Cost bias_gelu_forward(i64 rows, i64 F, i64 size) {
    return {8 * detail::product(rows, F), 3 * static_cast<double>(size) * detail::product(rows, F)};
}

// The same without the bias: u in, y out.
constexpr Cost gelu_forward(i64 n, i64 size) {
    return {7 * static_cast<double>(n), 2 * static_cast<double>(size) * static_cast<double>(n)};
}

constexpr Cost gelu_backward(i64 n, i64 size) {
    return {16 * static_cast<double>(n), 3 * static_cast<double>(size) * static_cast<double>(n)};
}

// x and branch in, y out.
constexpr Cost residual_forward(i64 rows, i64 C, i64 size) {
    return {3 * detail::product(rows, C), 3 * static_cast<double>(size) * detail::product(rows, C)};
}

constexpr Cost dropout_backward(i64 rows, i64 C, i64 size) {
    return {detail::product(rows, C), 2 * static_cast<double>(size) * detail::product(rows, C)};
}

// Logits in, gradient out.
constexpr Cost cross_entropy(i64 rows, i64 V, i64 size) {
    return {5 * detail::product(rows, V), 2 * static_cast<double>(size) * detail::product(rows, V)};
}

// The three stages of one rank with V of the columns; the exponentials replace the logits where the gradient is asked
// for, so that both later stages read and write them.
constexpr Cost cross_entropy_max(i64 rows, i64 V, i64 size) {
    return {detail::product(rows, V), static_cast<double>(size) * detail::product(rows, V)};
}
constexpr Cost cross_entropy_sum(i64 rows, i64 V, i64 size) {
    return {3 * detail::product(rows, V), 2 * static_cast<double>(size) * detail::product(rows, V)};
}
constexpr Cost cross_entropy_finish(i64 rows, i64 V, i64 size) {
    return {detail::product(rows, V), 2 * static_cast<double>(size) * detail::product(rows, V)};
}

// weight, m, v in and out, gradient in: 28 bytes in fp32.
constexpr Cost adamw(i64 n, i64 size) {
    return {12 * static_cast<double>(n), 7 * static_cast<double>(size) * static_cast<double>(n)};
}

constexpr Cost sgd(i64 n, i64 size) {
    return {6 * static_cast<double>(n), 5 * static_cast<double>(size) * static_cast<double>(n)};
}

constexpr Cost sum_of_squares(i64 n, i64 size) {
    return {2 * static_cast<double>(n), static_cast<double>(size) * static_cast<double>(n)};
}

constexpr Cost block_squares(i64 n, i64 size) {
    return sum_of_squares(n, size);
}

// y in and out, x in.
constexpr Cost add(i64 n, i64 size) {
    return {static_cast<double>(n), 3 * static_cast<double>(size) * static_cast<double>(n)};
}
constexpr Cost copy(i64 n, i64 size) {
    return {0, 2 * static_cast<double>(size) * static_cast<double>(n)};
}

// Pairs (query, key) of one sequence of T: causal, and all.
constexpr double causal_pairs(i64 T) {
    return detail::product(T, T + 1) / 2;
}
constexpr double square_pairs(i64 T) {
    return detail::product(T, T);
}

// `pairs` summed over the batch, per head D wide: scores and values forward (2 products of 2 D flops a pair); backward
// 5 products, as the scores are made again. q, k, v, out (and their gradients) once each.
constexpr Cost attention_forward(double pairs, i64 rows, i64 heads, i64 kv_heads, i64 D, i64 size) {
    return {4 * pairs * detail::product(heads, D),
            static_cast<double>(size) * 2 * detail::product(rows, heads + kv_heads, D)};
}
constexpr Cost attention_backward(double pairs, i64 rows, i64 heads, i64 kv_heads, i64 D, i64 size) {
    return {10 * pairs * detail::product(heads, D),
            static_cast<double>(size) * 4 * detail::product(rows, heads + kv_heads, D)};
}

// ---- FLOPs of a model per token (contracts.md, FLOPs) ------------------------------------------------------------
// Products of the linear layers and of attention only: 2 per multiply-add forward, backward twice that. The head's
// product counts with the true vocabulary V; embedding look-ups, norms, activations and the optimizer do not count.

struct Model {
    i64 layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
    i64 ffn = 0, vocab = 0, sequence = 0;
    i64 mlp_products = 2;  // up and down; 3 with a gate
};

enum class Recompute { none, selective, full };  // selective = norms and GELU output: no products

// Multiply-adds of one layer's matrices per token = their weights.
constexpr double layer_weights(const Model& m) {
    const double attention = detail::product(m.hidden, m.head_dim, 2 * m.heads + 2 * m.kv_heads);
    return attention + detail::product(m.mlp_products, m.hidden, m.ffn);
}

// Forward FLOPs per token of all layers, `pairs` (query, key) pairs a sequence.
constexpr double layers_forward_flops(const Model& m, double pairs) {
    const double per_token_pairs = pairs / static_cast<double>(m.sequence);
    return static_cast<double>(m.layers) *
           (2 * layer_weights(m) + 4 * per_token_pairs * detail::product(m.heads, m.head_dim));
}

constexpr double head_forward_flops(const Model& m) {
    return 2 * detail::product(m.hidden, m.vocab);
}

// Useful FLOPs per trained token, causal pairs T (T + 1) / 2: the one every ratio uses.
constexpr double model_flops(const Model& m) {
    return 3 * (layers_forward_flops(m, causal_pairs(m.sequence)) + head_forward_flops(m));
}

// The same with T^2 pairs (Megatron's count: Korthikanti et al. 2022).
constexpr double model_flops_square(const Model& m) {
    return 3 * (layers_forward_flops(m, square_pairs(m.sequence)) + head_forward_flops(m));
}

// What the device does, causal: blocked attention makes the scores again in backward (2 D flops a pair), and full
// recomputation runs the layers' forward once more.
constexpr double hardware_flops(const Model& m, Recompute recompute) {
    const double score_flops = static_cast<double>(m.layers) * 2 * causal_pairs(m.sequence) /
                               static_cast<double>(m.sequence) * detail::product(m.heads, m.head_dim);
    const double again = recompute == Recompute::full ? layers_forward_flops(m, causal_pairs(m.sequence)) : 0;
    return model_flops(m) + score_flops + again;
}

}  // namespace ogrom::cost
