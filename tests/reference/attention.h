// Reference attention: the formulas of ops/attention.h in double, one full row of probabilities at a time.
#pragma once
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/rng.h"
#include "kernels/ops/attention.h"

namespace ogrom::reference {

struct AttentionResult {
    std::vector<double> out, lse;       // out as the caller's rows; lse [batch, heads, Tq]
    std::vector<double> d_q, d_k, d_v;  // as the caller's rows
};

class Attention {
public:
    Attention(const ops::AttentionShape& shape, std::vector<double> q, std::vector<double> k, std::vector<double> v)
        : s_(shape), q_(std::move(q)), k_(std::move(k)), v_(std::move(v)) {}

    // `d_out` empty: forward only. out_elements = size of the caller's out buffer.
    AttentionResult run(std::size_t out_elements, const std::vector<double>& d_out) const {
        AttentionResult result;
        result.out.assign(out_elements, 0.0);
        result.lse.assign(at(s_.batch * s_.heads * s_.queries), 0.0);
        if (!d_out.empty()) {
            result.d_q.assign(q_.size(), 0.0);
            result.d_k.assign(k_.size(), 0.0);
            result.d_v.assign(v_.size(), 0.0);
        }
        for (i64 b = 0; b < s_.batch; ++b) {
            for (i64 h = 0; h < s_.heads; ++h) {
                for (i64 i = 0; i < s_.queries; ++i) {
                    row(b, h, i, d_out, result);
                }
            }
        }
        return result;
    }

private:
    static std::size_t at(i64 index) { return static_cast<std::size_t>(index); }
    i64 query(i64 b, i64 h, i64 i) const { return b * s_.query_batch_stride + i * s_.query_stride + h * s_.head_dim; }
    i64 key(i64 b, i64 h, i64 j) const { return b * s_.key_batch_stride + j * s_.key_stride + group(h) * s_.head_dim; }
    i64 value(i64 b, i64 h, i64 j) const {
        return b * s_.value_batch_stride + j * s_.value_stride + group(h) * s_.head_dim;
    }
    i64 out(i64 b, i64 h, i64 i) const { return b * s_.out_batch_stride + i * s_.out_stride + h * s_.head_dim; }
    i64 group(i64 h) const { return h / (s_.heads / s_.kv_heads); }

    bool allowed(i64 b, i64 i, i64 j) const {
        if (s_.query_offset + i < s_.key_offset + j) {
            return false;
        }
        return s_.query_segments == nullptr ||
               s_.query_segments[b * s_.queries + i] == s_.key_segments[b * s_.keys + j];
    }

    // 0 or 1 / (1 - p), one number drawn per pair.
    double factor(i64 b, i64 h, i64 i, i64 j) const {
        if (s_.dropout.p == 0) {
            return 1;
        }
        const u64 heads = static_cast<u64>(s_.heads_total > 0 ? s_.heads_total : s_.heads);
        const u64 queries = static_cast<u64>(s_.queries_total > 0 ? s_.queries_total : s_.queries);
        const u64 keys = static_cast<u64>(s_.keys_total > 0 ? s_.keys_total : s_.keys);
        const u64 head = static_cast<u64>(s_.sample[b]) * heads + static_cast<u64>(s_.head0 + h);
        const u64 element =
            (head * queries + static_cast<u64>(s_.query_offset + i)) * keys + static_cast<u64>(s_.key_offset + j);
        const u32 word = random_word(s_.dropout.seed, s_.dropout.site, s_.dropout.step, element);
        return uniform(word) >= s_.dropout.p ? 1.0 / (1.0 - s_.dropout.p) : 0.0;
    }

    void row(i64 b, i64 h, i64 i, const std::vector<double>& d_out, AttentionResult& result) const {
        constexpr double infinity = std::numeric_limits<double>::infinity();
        std::vector<double> p(at(s_.keys), -infinity);
        double top = -infinity;
        for (i64 j = 0; j < s_.keys; ++j) {
            if (allowed(b, i, j)) {
                p[at(j)] = s_.scale * dot(q_, query(b, h, i), k_, key(b, h, j));
                top = std::max(top, p[at(j)]);
            }
        }
        double sum = 0;
        for (i64 j = 0; j < s_.keys; ++j) {
            p[at(j)] = allowed(b, i, j) ? std::exp(p[at(j)] - top) : 0.0;
            sum += p[at(j)];
        }
        result.lse[at((b * s_.heads + h) * s_.queries + i)] = sum == 0 ? -infinity : top + std::log(sum);
        for (i64 j = 0; j < s_.keys; ++j) {
            p[at(j)] = sum == 0 ? 0.0 : p[at(j)] / sum;
            for (i64 d = 0; d < s_.head_dim && p[at(j)] != 0; ++d) {
                result.out[at(out(b, h, i) + d)] += factor(b, h, i, j) * p[at(j)] * v_[at(value(b, h, j) + d)];
            }
        }
        if (!d_out.empty()) {
            row_gradient(b, h, i, p, d_out, result);
        }
    }

    // softmax: ds_j = p_j (g_j - sum_l p_l g_l) with g_j = factor_j do . v_j
    void row_gradient(i64 b, i64 h, i64 i, const std::vector<double>& p, const std::vector<double>& d_out,
                      AttentionResult& result) const {
        std::vector<double> gradient(at(s_.keys), 0.0);
        double mean = 0;
        for (i64 j = 0; j < s_.keys; ++j) {
            if (allowed(b, i, j)) {
                gradient[at(j)] = factor(b, h, i, j) * dot(d_out, out(b, h, i), v_, value(b, h, j));
                mean += p[at(j)] * gradient[at(j)];
            }
        }
        for (i64 j = 0; j < s_.keys; ++j) {
            if (!allowed(b, i, j)) {
                continue;
            }
            const double ds = s_.scale * p[at(j)] * (gradient[at(j)] - mean);
            for (i64 d = 0; d < s_.head_dim; ++d) {
                result.d_v[at(value(b, h, j) + d)] += factor(b, h, i, j) * p[at(j)] * d_out[at(out(b, h, i) + d)];
                result.d_q[at(query(b, h, i) + d)] += ds * k_[at(key(b, h, j) + d)];
                result.d_k[at(key(b, h, j) + d)] += ds * q_[at(query(b, h, i) + d)];
            }
        }
    }

    double dot(const std::vector<double>& x, i64 first_x, const std::vector<double>& y, i64 first_y) const {
        double sum = 0;
        for (i64 d = 0; d < s_.head_dim; ++d) {
            sum += x[at(first_x + d)] * y[at(first_y + d)];
        }
        return sum;
    }

    ops::AttentionShape s_;
    std::vector<double> q_, k_, v_;
};

}  // namespace ogrom::reference
