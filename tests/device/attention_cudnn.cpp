// Attention by cuDNN to the contract of kernels/ops/attention.h, and the choice between it and our own.
#include "kernels/cuda/attention.h"

#include "tests/device/attention_support.cuh"

namespace ogrom::device_test {
namespace {

using ops::AttentionChoice;
using ops::AttentionOrder;

template <class S>
class DeviceAttentionCudnn : public OnDeviceTyped<S> {
protected:
    void TearDown() override {
        ops::set_attention_settings({});
        OnDevice::TearDown();
    }

    AttentionOutputs<S> run(AttentionProblem<S>& x, AttentionChoice choice, AttentionOrder order) {
        ops::set_attention_settings({choice, order});
        return run_attention<S>(this->gpu, x, chosen<S>(), 0);
    }
};
TYPED_TEST_SUITE(DeviceAttentionCudnn, Bits16);

const AttentionCase cases[] = {
    {.name = "d64", .batch = 2, .queries = 256, .keys = 256, .heads = 3, .kv_heads = 3, .head_dim = 64, .gap = 8},
    {.name = "d64_odd", .batch = 2, .queries = 203, .keys = 203, .heads = 2, .kv_heads = 2, .head_dim = 64, .gap = 8},
    {.name = "d128", .batch = 1, .queries = 384, .keys = 384, .heads = 2, .kv_heads = 2, .head_dim = 128, .gap = 8},
    {.name = "d80", .batch = 1, .queries = 128, .keys = 128, .heads = 2, .kv_heads = 2, .head_dim = 80, .gap = 0},
    {.name = "groups", .batch = 2, .queries = 192, .keys = 192, .heads = 4, .kv_heads = 2, .head_dim = 64, .gap = 8},
};

TYPED_TEST(DeviceAttentionCudnn, MatchesReference) {
    using S = TypeParam;
    if (!cuda::cudnn_library().found) {
        GTEST_SKIP() << "the GPU machine has no cuDNN: " << cuda::cudnn_library().reason;
    }
    for (const AttentionCase& c : cases) {
        SCOPED_TRACE(c.name);
        AttentionProblem<S> x(c);
        const auto want = x.want();
        const auto got = this->run(x, AttentionChoice::cudnn, AttentionOrder::any);
        // The same roundings as ours: p, the gradients of the scores and the results in 16 bits.
        expect_lse(got.lse, want.lse, bounds_of<S>().lse);
        expect_rows("out", got.out, want.out, x.out, bounds_of<S>().out);
        expect_rows("d_q", got.d_q, want.d_q, x.query, bounds_of<S>().d_q);
        expect_rows("d_k", got.d_k, want.d_k, x.key, bounds_of<S>().d_k);
        expect_rows("d_v", got.d_v, want.d_v, x.value, bounds_of<S>().d_v);
    }
}

// Forward by cuDNN, backward by ours from its lse: twice the same bits, and within the bounds.
TYPED_TEST(DeviceAttentionCudnn, FixedOrderRepeats) {
    using S = TypeParam;
    for (const AttentionCase& c : cases) {
        SCOPED_TRACE(c.name);
        AttentionProblem<S> x(c);
        const auto want = x.want();
        const auto got = this->run(x, AttentionChoice::automatic, AttentionOrder::fixed);
        expect_rows("d_q", got.d_q, want.d_q, x.query, bounds_of<S>().d_q);
        expect_rows("d_k", got.d_k, want.d_k, x.key, bounds_of<S>().d_k);
        expect_rows("d_v", got.d_v, want.d_v, x.value, bounds_of<S>().d_v);
        expect_same(got, this->run(x, AttentionChoice::automatic, AttentionOrder::fixed));
    }
}

TYPED_TEST(DeviceAttentionCudnn, AskedForAndMissingIsRefusedByName) {
    using S = TypeParam;
    if (cuda::cudnn_library().found) {
        GTEST_SKIP() << "it needs a GPU machine without cuDNN; here it is " << cuda::cudnn_library().version;
    }
    AttentionProblem<S> x(cases[0]);
    EXPECT_THROW(this->run(x, AttentionChoice::cudnn, AttentionOrder::any), Error);
}

// Outside what cuDNN takes: dropout, segments, Tq != Tk go to our own whatever was chosen.
TYPED_TEST(DeviceAttentionCudnn, WhatItDoesNotTakeGoesToOurs) {
    using S = TypeParam;
    if (!cuda::cudnn_library().found) {
        GTEST_SKIP() << "the GPU machine has no cuDNN: " << cuda::cudnn_library().reason;
    }
    AttentionCase c = cases[0];
    c.p = 0.2;
    AttentionCase d = cases[0];
    d.segment_length = 50;
    AttentionCase e = cases[0];
    e.keys = 300;
    e.query_offset = 44;
    for (const AttentionCase& other : {c, d, e}) {
        AttentionProblem<S> x(other);
        const auto by_own = this->run(x, AttentionChoice::own, AttentionOrder::any);
        expect_same(by_own, this->run(x, AttentionChoice::cudnn, AttentionOrder::any));
        const auto want = x.want();
        expect_rows("out", by_own.out, want.out, x.out, bounds_of<S>().out);
    }
}

}  // namespace
}  // namespace ogrom::device_test
