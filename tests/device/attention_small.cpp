// Each attention kernel once at a size that compute-sanitizer's racecheck gets through (tests/device/sanitize.sh): more
// than one tile of queries and of keys, one head, against the reference.
#include "tests/device/attention_support.cuh"

namespace ogrom::device_test {
namespace {

const AttentionCase small_case{
    .name = "small", .batch = 1, .queries = 150, .keys = 150, .heads = 1, .kv_heads = 1, .head_dim = 64, .gap = packed};

class DeviceAttentionSmall : public OnDevice {
protected:
    void TearDown() override {
        ops::set_attention_settings({});
        OnDevice::TearDown();
    }
    template <class T>
    void check(const AttentionKernels<T>& kernels) {
        AttentionProblem<T> x(small_case);
        const auto want = x.want();
        const auto got = run_attention<T>(gpu, x, kernels, 0);
        // fp32 is held to a bound of its own in tests/device/attention.cpp; here to that of bf16.
        constexpr AttentionBounds bounds = bounds_of<T>();
        expect_lse(got.lse, want.lse, 1e-5);
        expect_rows("out", got.out, want.out, x.out, bounds.out);
        expect_rows("d_q", got.d_q, want.d_q, x.query, bounds.d_q);
        expect_rows("d_k", got.d_k, want.d_k, x.key, bounds.d_k);
        expect_rows("d_v", got.d_v, want.d_v, x.value, bounds.d_v);
    }
};

TEST_F(DeviceAttentionSmall, Plain) {
    check<float>(chosen<float>());
}

TEST_F(DeviceAttentionSmall, Mma) {
    check<Bf16>(mma<Bf16>());
    check<Fp16>(mma<Fp16>());
}

TEST_F(DeviceAttentionSmall, Wgmma) {
    AttentionProblem<Bf16> x(small_case);
    const ops::AttentionForward<Bf16> op{nullptr,       nullptr, x.on_q.data(), x.on_k.data(),
                                         x.on_v.data(), x.shape, nullptr};
    if (!cuda::attention_takes_wgmma(op)) {
        GTEST_SKIP() << "it needs a GPU with wgmma (compute capability 9.0)";
    }
    check<Bf16>(wgmma<Bf16>());
    check<Fp16>(wgmma<Fp16>());
}

}  // namespace
}  // namespace ogrom::device_test
