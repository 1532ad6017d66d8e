// Cases of the attention tests on a device: rows with gaps that hold NaN, inputs rounded to T, poisoned outputs, the
// double reference on the rounded inputs, errors relative to the whole tensor and to each element.
#pragma once
#include <functional>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/scratch.h"

#include "tests/device/support.cuh"
#include "tests/reference/attention.h"

namespace ogrom::device_test {

inline constexpr i64 packed = 8;  // a gap that keeps rows at 16 bytes

struct AttentionCase {
    const char* name;
    i64 batch, queries, keys, heads, kv_heads, head_dim;
    i64 query_offset = 0, key_offset = 0;
    double p = 0;
    i64 segment_length = 0;  // documents of this length, packed; 0 = no segment ids
    double score_scale = 1;  // multiplies 1 / sqrt(head_dim)
    i64 gap = 3;             // unused elements behind each row; a multiple of 8 keeps rows at 16 bytes
    i64 shift = 0;           // elements past an aligned address
};

// Rows of one tensor: `columns` used of every `stride` elements, samples `batch_stride` apart.
struct TensorRows {
    i64 batch, rows, columns, stride, batch_stride;
    TensorRows(i64 batch_, i64 rows_, i64 columns_, i64 gap)
        : batch(batch_),
          rows(rows_),
          columns(columns_),
          stride(columns_ + gap),
          batch_stride(rows_ * stride + 2 * gap) {}
    [[nodiscard]] i64 elements() const { return batch * batch_stride; }
    [[nodiscard]] bool used(i64 index) const {
        const i64 inside = index % batch_stride;
        return inside / stride < rows && inside % stride < columns;
    }
};

template <class T>
double number(T value) {
    return static_cast<double>(static_cast<float>(value));
}
template <>
inline double number(double value) {
    return value;
}

template <class T>
class AttentionProblem {
public:
    explicit AttentionProblem(const AttentionCase& c)
        : query(c.batch, c.queries, c.heads * c.head_dim, c.gap),
          key(c.batch, c.keys, c.kv_heads * c.head_dim, c.gap),
          value(c.batch, c.keys, c.kv_heads * c.head_dim, 2 * c.gap),
          out(c.batch, c.queries, c.heads * c.head_dim, c.gap),
          q(inputs(query)),
          k(inputs(key)),
          v(inputs(value)),
          d_out(inputs(out)),
          on_q(q, c.shift),
          on_k(k, c.shift),
          on_v(v, c.shift),
          on_d_out(d_out, c.shift),
          on_sample(samples(c)),
          on_query_segments(segments(c, c.queries, c.query_offset)),
          on_key_segments(segments(c, c.keys, c.key_offset)) {
        shape.batch = c.batch;
        shape.queries = c.queries;
        shape.keys = c.keys;
        shape.heads = c.heads;
        shape.kv_heads = c.kv_heads;
        shape.head_dim = c.head_dim;
        shape.query_offset = c.query_offset;
        shape.key_offset = c.key_offset;
        shape.query_stride = query.stride;
        shape.query_batch_stride = query.batch_stride;
        shape.key_stride = key.stride;
        shape.key_batch_stride = key.batch_stride;
        shape.value_stride = value.stride;
        shape.value_batch_stride = value.batch_stride;
        shape.out_stride = out.stride;
        shape.out_batch_stride = out.batch_stride;
        shape.scale = c.score_scale / std::sqrt(static_cast<double>(c.head_dim));
        shape.heads_total = c.heads + 2;
        shape.head0 = 1;
        shape.dropout = {c.p, 99, 5, 17};
        host_shape = shape;
        host_sample = samples(c);
        host_query_segments = segments(c, c.queries, c.query_offset);
        host_key_segments = segments(c, c.keys, c.key_offset);
        shape.sample = on_sample.data();
        host_shape.sample = host_sample.data();
        if (c.segment_length > 0) {
            shape.query_segments = on_query_segments.data();
            shape.key_segments = on_key_segments.data();
            host_shape.query_segments = host_query_segments.data();
            host_shape.key_segments = host_key_segments.data();
        }
    }
    AttentionProblem(const AttentionProblem&) = delete;
    AttentionProblem& operator=(const AttentionProblem&) = delete;

    [[nodiscard]] reference::AttentionResult want() const {
        const auto in_double = [](const std::vector<T>& x) {
            std::vector<double> y;
            for (const T value_ : x) {
                y.push_back(number(value_));
            }
            return y;
        };
        const reference::Attention attention(host_shape, in_double(q), in_double(k), in_double(v));
        return attention.run(d_out.size(), in_double(d_out));
    }

    TensorRows query, key, value, out;
    std::vector<T> q, k, v, d_out;
    Array<T> on_q, on_k, on_v, on_d_out;
    Array<i64> on_sample;
    Array<std::int32_t> on_query_segments, on_key_segments;
    std::vector<i64> host_sample;
    std::vector<std::int32_t> host_query_segments, host_key_segments;
    ops::AttentionShape shape{}, host_shape{};

private:
    static std::vector<T> inputs(const TensorRows& rows) {
        const std::vector<float> drawn = fresh(rows.elements());
        std::vector<T> values;
        for (i64 i = 0; i < rows.elements(); ++i) {
            const float x = rows.used(i) ? drawn[static_cast<std::size_t>(i)] : std::nanf("");
            values.push_back(static_cast<T>(x));
        }
        return values;
    }
    static std::vector<i64> samples(const AttentionCase& c) {
        std::vector<i64> sample;
        for (i64 b = 0; b < c.batch; ++b) {
            sample.push_back(7 * b + 3);
        }
        return sample;
    }
    static std::vector<std::int32_t> segments(const AttentionCase& c, i64 count, i64 offset) {
        std::vector<std::int32_t> segment;
        const i64 length = std::max<i64>(c.segment_length, 1);
        for (i64 b = 0; b < c.batch; ++b) {
            for (i64 i = 0; i < count; ++i) {
                segment.push_back(static_cast<std::int32_t>((offset + i + b) / length));
            }
        }
        return segment;
    }
};

// Which kernels run.
template <class T>
struct AttentionKernels {
    std::function<void(Stream, const ops::AttentionForward<T>&)> forward;
    std::function<void(Stream, const ops::AttentionBackward<T>&)> backward;
};

// By ops::attention_settings(); one of our own alone.
template <class T>
AttentionKernels<T> chosen() {
    return {[](Stream stream, const ops::AttentionForward<T>& op) { ops::attention_forward(stream, op); },
            [](Stream stream, const ops::AttentionBackward<T>& op) { ops::attention_backward(stream, op); }};
}

template <class T>
AttentionKernels<T> mma() {
    return {cuda::attention_forward_mma<T>, [](Stream stream, const ops::AttentionBackward<T>& op) {
                const i64 rows = op.shape.batch * op.shape.heads * op.shape.queries;
                cuda::attention_backward_mma(stream, op, static_cast<float*>(cuda::scratch(stream, rows * 4)));
            }};
}

template <class T>
AttentionKernels<T> wgmma() {
    return {[](Stream stream, const ops::AttentionForward<T>& op) {
                ASSERT_TRUE(cuda::attention_takes_wgmma(op));
                cuda::attention_forward_wgmma(stream, op);
            },
            [](Stream stream, const ops::AttentionBackward<T>& op) {
                ASSERT_TRUE(cuda::attention_takes_wgmma(op));
                cuda::attention_backward_wgmma(stream, op,
                                               cuda::scratch(stream, cuda::attention_wgmma_bytes(op.shape)));
            }};
}

template <class T>
struct AttentionOutputs {
    std::vector<T> out, d_q, d_k, d_v;
    std::vector<StatisticOf<T>> lse;
};

// Forward, then backward from what it left, into poisoned memory.
template <class T>
AttentionOutputs<T> run_attention(Stream stream, AttentionProblem<T>& x, const AttentionKernels<T>& kernels,
                                  i64 shift) {
    Array<T> out(x.out.elements(), shift), d_q(x.query.elements(), shift), d_k(x.key.elements(), shift),
        d_v(x.value.elements(), shift);
    Array<StatisticOf<T>> lse(x.shape.batch * x.shape.heads * x.shape.queries);
    kernels.forward(stream, {out.data(), lse.data(), x.on_q.data(), x.on_k.data(), x.on_v.data(), x.shape, nullptr});
    kernels.backward(stream, {d_q.data(), d_k.data(), d_v.data(), x.on_d_out.data(), out.data(), lse.data(),
                              x.on_q.data(), x.on_k.data(), x.on_v.data(), x.shape, nullptr});
    return {out.host(), d_q.host(), d_k.host(), d_v.host(), lse.host()};
}

// Bounds of one tensor: the error of the whole, ||got - want|| / ||want||, and of an element against the larger of its
// value and the root mean square of the tensor.
struct TensorBound {
    double whole, element;
};

struct AttentionBounds {
    TensorBound out, d_q, d_k, d_v;
    double lse;
};

// bf16: out carries p rounded (2^-9) and its own rounding (2^-9), 2^-8.5 / sqrt 3 of the whole; gradients of scores are
// differences of two terms of that size, each rounded again. The errors of the first rows are those of numbers near 1
// beside a mean of some 0.05: 20 to 50 times the bound of the whole for one element.
// fp16 has three bits more.
template <class T>
constexpr AttentionBounds bounds_of() {
    constexpr double part = std::is_same_v<T, Fp16> ? 1.0 / 8 : 1;
    return {{4e-3 * part, 0.08 * part},
            {6e-3 * part, 0.2 * part},
            {6e-3 * part, 0.2 * part},
            {4e-3 * part, 0.15 * part},
            1e-6};
}

// Gaps must still hold the poison; a NaN anywhere else fails.
template <class T>
void expect_rows(const char* what, const std::vector<T>& got, const std::vector<double>& want, const TensorRows& rows,
                 TensorBound bound) {
    double error = 0, norm = 0, worst = 0;
    i64 used = 0;
    for (i64 i = 0; i < rows.elements(); ++i) {
        const double w = rows.used(i) ? want[static_cast<std::size_t>(i)] : 0;
        norm += w * w;
        used += rows.used(i) ? 1 : 0;
    }
    // Inputs are of size 1: what cancels to (almost) nothing is held against 1e-3.
    const auto count = static_cast<double>(std::max<i64>(used, 1));
    const double mean = std::max(std::sqrt(norm / count), 1e-3);
    for (i64 i = 0; i < rows.elements(); ++i) {
        const double g = number(got[static_cast<std::size_t>(i)]), w = want[static_cast<std::size_t>(i)];
        if (!rows.used(i)) {
            ASSERT_TRUE(std::isnan(g)) << what << ": element " << i << " lies between rows and was written";
            continue;
        }
        ASSERT_TRUE(std::isfinite(g)) << what << ", element " << i << ": got " << g << ", want " << w << ", seed "
                                      << run_seed();
        error += (g - w) * (g - w);
        worst = std::max(worst, g == w ? 0 : std::abs(g - w) / std::max(mean, std::abs(w)));
    }
    EXPECT_LE(std::sqrt(error / count), bound.whole * mean) << what << ", seed " << run_seed();
    EXPECT_LE(worst, bound.element) << what << ", seed " << run_seed();
    note_share(std::string(what) + ", whole", std::sqrt(error / count) / mean / bound.whole);
    note_share(std::string(what) + ", element", worst / bound.element);
}

template <class S>
void expect_lse(const std::vector<S>& got, const std::vector<double>& want, double tolerance) {
    ASSERT_EQ(got.size(), want.size());
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double g = static_cast<double>(got[i]);
        if (std::isinf(want[i])) {
            ASSERT_EQ(g, want[i]) << "lse, element " << i;
            continue;
        }
        const double error = std::abs(g - want[i]) / std::max(1.0, std::abs(want[i]));
        ASSERT_TRUE(error <= tolerance) << "lse, element " << i << ": got " << g << ", want " << want[i];
        worst = std::max(worst, error / tolerance);
    }
    note_share("lse", worst);
}

template <class T>
void expect_same(const AttentionOutputs<T>& a, const AttentionOutputs<T>& b) {
    const auto same = [](const auto& x, const auto& y) {
        return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(x[0])) == 0;
    };
    EXPECT_TRUE(same(a.out, b.out)) << "out differs";
    EXPECT_TRUE(same(a.lse, b.lse)) << "lse differs";
    EXPECT_TRUE(same(a.d_q, b.d_q)) << "d_q differs";
    EXPECT_TRUE(same(a.d_k, b.d_k)) << "d_k differs";
    EXPECT_TRUE(same(a.d_v, b.d_v)) << "d_v differs";
}

}  // namespace ogrom::device_test
