// What attention on the device promises beside its values: a NaN shows, bits repeat when the device is full.
#include "tests/device/attention_support.cuh"

namespace ogrom::device_test {
namespace {

template <class T>
class DeviceAttentionNan : public OnDeviceTyped<T> {};
TYPED_TEST_SUITE(DeviceAttentionNan, Precisions);
template <class S>
class DeviceAttentionProperties : public OnDeviceTyped<S> {};
TYPED_TEST_SUITE(DeviceAttentionProperties, Bits16);

// A NaN in one query: its row of out, lse and d_q, and the gradients of the keys it sees; no other row.
template <class T>
void expect_nan_spreads(Stream stream, const AttentionKernels<T>& kernels) {
    const AttentionCase c{
        .name = "", .batch = 1, .queries = 150, .keys = 150, .heads = 1, .kv_heads = 1, .head_dim = 64, .gap = packed};
    constexpr i64 bad = 131;
    AttentionProblem<T> x(c);
    ok(cudaMemset(x.on_q.data() + bad * x.query.stride + 7, 0xFF, sizeof(T)));
    const AttentionOutputs<T> got = run_attention(stream, x, kernels, 0);
    for (i64 i = 0; i < c.queries; ++i) {
        const auto at = static_cast<std::size_t>(i * x.query.stride);
        ASSERT_EQ(std::isnan(number(got.out[at])), i == bad) << i;
        ASSERT_EQ(std::isnan(static_cast<double>(got.lse[static_cast<std::size_t>(i)])), i == bad) << i;
        ASSERT_EQ(std::isnan(number(got.d_q[at])), i == bad) << i;
        const bool seen = i <= bad;
        ASSERT_TRUE(!seen || std::isnan(number(got.d_v[static_cast<std::size_t>(i * x.value.stride)]))) << i;
        ASSERT_TRUE(!seen || std::isnan(number(got.d_k[static_cast<std::size_t>(i * x.key.stride)]))) << i;
    }
}

TYPED_TEST(DeviceAttentionNan, IsNotHidden) {
    expect_nan_spreads<TypeParam>(this->gpu, chosen<TypeParam>());
}

TYPED_TEST(DeviceAttentionProperties, NanIsNotHidden) {
    using S = TypeParam;
    expect_nan_spreads<S>(this->gpu, mma<S>());
    cudaDeviceProp device{};
    ok(cudaGetDeviceProperties(&device, 0));
    if (device.major == 9) {
        expect_nan_spreads<S>(this->gpu, wgmma<S>());
    }
}

// More blocks than the device holds at once: the order of dq must hold when blocks come and go.
TYPED_TEST(DeviceAttentionProperties, ManyBlocksRepeat) {
    using S = TypeParam;
    const AttentionCase c{.name = "",
                          .batch = 8,
                          .queries = 1024,
                          .keys = 1024,
                          .heads = 8,
                          .kv_heads = 4,
                          .head_dim = 64,
                          .gap = packed};
    ops::set_attention_settings({ops::AttentionChoice::own, ops::AttentionOrder::fixed});
    AttentionProblem<S> x(c);
    const AttentionOutputs<S> once = run_attention(this->gpu, x, chosen<S>(), 0);
    for (int again = 0; again < 3; ++again) {
        expect_same(once, run_attention(this->gpu, x, chosen<S>(), 0));
    }
    const AttentionOutputs<S> by_mma = run_attention(this->gpu, x, mma<S>(), 0);
    std::vector<double> want;
    for (const S value : by_mma.d_q) {
        want.push_back(number(value));
    }
    // Two kernels, each within the bound of the reference.
    expect_rows("d_q", once.d_q, want, x.query, {2 * bounds_of<S>().d_q.whole, 2 * bounds_of<S>().d_q.element});
    ops::set_attention_settings({});
}

}  // namespace
}  // namespace ogrom::device_test
