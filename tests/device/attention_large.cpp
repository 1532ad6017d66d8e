// Attention past 2^31 elements of each array and 2^32 of the packed q|k|v rows (tests/device/large.cuh), every kernel,
// forward and backward. Samples repeat with a period: the last ones must be the first ones again, bit for bit for our
// own kernels, which are repeatable.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/scratch.h"

#include "tests/device/large.cuh"

namespace ogrom::device_test {
namespace {

using ops::AttentionChoice;
using ops::AttentionOrder;

constexpr i64 period = 7;  // samples
constexpr i64 length = 64;
constexpr i64 beyond = 32'768 + 11;  // samples of `length` x 1024: 2^31 elements and 11 samples

template <class T>
struct Tensors {
    Tensors(i64 batch, i64 heads, i64 depth)
        : width(heads * depth),
          sample(length * width),
          qkv(3 * batch * sample),
          d_qkv(3 * batch * sample),
          out(batch * sample),
          d_out(batch * sample),
          lse(batch * heads * length) {
        shape.batch = batch;
        shape.queries = shape.keys = length;
        shape.heads = shape.kv_heads = heads;
        shape.head_dim = depth;
        shape.query_stride = shape.key_stride = shape.value_stride = 3 * width;
        shape.query_batch_stride = shape.key_batch_stride = shape.value_batch_stride = 3 * sample;
        shape.out_stride = width;
        shape.out_batch_stride = sample;
        shape.scale = 1 / std::sqrt(static_cast<double>(depth));
    }
    ops::AttentionForward<T> forward() {
        return {out.data(), lse.data(), qkv.data(), qkv.data() + width, qkv.data() + 2 * width, shape, nullptr};
    }
    ops::AttentionBackward<T> backward() {
        return {d_qkv.data(), d_qkv.data() + width, d_qkv.data() + 2 * width, d_out.data(), out.data(), lse.data(),
                qkv.data(),   qkv.data() + width,   qkv.data() + 2 * width,   shape,        nullptr};
    }
    i64 width, sample;
    Array<T> qkv, d_qkv, out, d_out;
    Array<StatisticOf<T>> lse;
    ops::AttentionShape shape{};
};

class DeviceLargeAttention : public OnLargeDevice {
protected:
    void TearDown() override {
        ops::set_attention_settings({});
        OnDevice::TearDown();
    }

    static std::vector<Bf16> drawn(i64 n, Bf16) { return fresh_16<Bf16>(n); }
    static std::vector<float> drawn(i64 n, float) { return fresh(n); }

    // The last samples and the one at element 2^31.
    // share: 0 = the same bits, else of the largest value in the sample.
    template <class T>
    void expect_samples(const char* what, const T* x, i64 elements, i64 batch, double share) {
        for (const i64 sample : {(i64{1} << 31) / elements, batch - 3, batch - 2, batch - 1}) {
            const std::vector<T> got = part(x, std::min(sample, batch - 1) * elements, elements);
            const std::vector<T> first = part(x, std::min(sample, batch - 1) % period * elements, elements);
            if (share == 0) {
                ASSERT_NO_FATAL_FAILURE(expect_same_bits(what, got, first)) << what << ", sample " << sample;
            }
            double most = 0;
            for (const T one : first) {
                ASSERT_TRUE(finite(one)) << what;
                most = std::max(most, std::abs(static_cast<double>(static_cast<float>(one))));
            }
            EXPECT_GT(most, 0) << what;
            for (std::size_t i = 0; i < got.size(); ++i) {
                const double difference =
                    static_cast<double>(static_cast<float>(got[i])) - static_cast<double>(static_cast<float>(first[i]));
                ASSERT_TRUE(std::abs(difference) <= share * most) << what << ", sample " << sample << ", element " << i;
            }
        }
    }

    template <class T, class Forward, class Backward>
    void check(i64 depth, i64 batch, double share, const Forward& forward, const Backward& backward) {
        const i64 heads = 1024 / depth;
        if (lacks(static_cast<double>(static_cast<i64>(sizeof(T)) * 8 * 1024 * length * batch) + 6e9)) {
            return;
        }
        Tensors<T> x(batch, heads, depth);
        repeat(x.qkv.data(), drawn(period * 3 * x.sample, T()), 3 * batch * x.sample);
        repeat(x.d_out.data(), drawn(period * x.sample, T()), batch * x.sample);
        forward(x);
        expect_samples("out", x.out.data(), x.sample, batch, share);
        expect_samples("lse", x.lse.data(), heads * length, batch, share);
        backward(x);
        expect_samples("d_qkv", x.d_qkv.data(), 3 * x.sample, batch, share);
    }

    template <class T>
    void check_chosen(i64 depth, i64 batch, AttentionChoice choice, double share) {
        ops::set_attention_settings({choice, AttentionOrder::any});
        check<T>(
            depth, batch, share, [this](Tensors<T>& x) { ops::attention_forward<T>(gpu, x.forward()); },
            [this](Tensors<T>& x) { ops::attention_backward<T>(gpu, x.backward()); });
    }
};

TEST_F(DeviceLargeAttention, Own) {
    for (const i64 depth : {64, 128}) {
        SCOPED_TRACE(depth);
        check_chosen<Bf16>(depth, beyond, AttentionChoice::own, 0);
    }
}

TEST_F(DeviceLargeAttention, Mma) {
    check<Bf16>(
        64, beyond, 0, [this](Tensors<Bf16>& x) { cuda::attention_forward_mma(gpu, x.forward()); },
        [this](Tensors<Bf16>& x) {
            void* const delta = cuda::scratch(gpu, x.shape.batch * x.shape.heads * x.shape.queries * 4);
            cuda::attention_backward_mma(gpu, x.backward(), static_cast<float*>(delta));
        });
}

TEST_F(DeviceLargeAttention, Plain) {
    check_chosen<float>(64, beyond, AttentionChoice::own, 0);
}

// Sums of its backward pass come in no fixed order: a few roundings to bf16 of the largest value. The most that it is
// given; larger ones go to our own, whose samples are equal bit for bit.
TEST_F(DeviceLargeAttention, CudnnUpToItsLimitAndOursBeyond) {
    if (!cuda::cudnn_library().found) {
        GTEST_SKIP() << "the GPU machine has no cuDNN: " << cuda::cudnn_library().reason;
    }
    constexpr i64 limit = (i64{1} << 31) / (3 * 1024 * length);  // samples
    check_chosen<Bf16>(64, limit, AttentionChoice::cudnn, 4 * once<Bf16>);
    check_chosen<Bf16>(64, limit + 1, AttentionChoice::cudnn, 0);
    check_chosen<Bf16>(64, beyond, AttentionChoice::cudnn, 0);
}

}  // namespace
}  // namespace ogrom::device_test
