// Attention on the device against the double reference: each kernel, at odd sizes and strides, poisoned outputs.
#include "kernels/cuda/attention.h"

#include "tests/device/attention_support.cuh"

namespace ogrom::device_test {
namespace {

const AttentionCase odd_cases[] = {
    {.name = "one", .batch = 1, .queries = 1, .keys = 1, .heads = 1, .kv_heads = 1, .head_dim = 1},
    {.name = "head_dim_5", .batch = 2, .queries = 37, .keys = 37, .heads = 3, .kv_heads = 3, .head_dim = 5},
    {.name = "head_dim_33", .batch = 1, .queries = 130, .keys = 130, .heads = 2, .kv_heads = 2, .head_dim = 33},
    {.name = "head_dim_64", .batch = 2, .queries = 203, .keys = 203, .heads = 3, .kv_heads = 3, .head_dim = 64},
    {.name = "head_dim_80", .batch = 1, .queries = 97, .keys = 97, .heads = 2, .kv_heads = 1, .head_dim = 80},
    {.name = "head_dim_128", .batch = 1, .queries = 301, .keys = 301, .heads = 2, .kv_heads = 2, .head_dim = 128},
    {.name = "head_dim_200", .batch = 1, .queries = 141, .keys = 141, .heads = 2, .kv_heads = 1, .head_dim = 200},
    {.name = "head_dim_256", .batch = 1, .queries = 101, .keys = 101, .heads = 1, .kv_heads = 1, .head_dim = 256},
    {.name = "groups", .batch = 2, .queries = 99, .keys = 99, .heads = 6, .kv_heads = 2, .head_dim = 16},
    {.name = "cache",
     .batch = 2,
     .queries = 1,
     .keys = 111,
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 33,
     .query_offset = 110},
    {.name = "later_chunk",
     .batch = 1,
     .queries = 45,
     .keys = 210,
     .heads = 2,
     .kv_heads = 2,
     .head_dim = 24,
     .query_offset = 160},
    {.name = "keys_begin_later",
     .batch = 1,
     .queries = 130,
     .keys = 60,
     .heads = 2,
     .kv_heads = 1,
     .head_dim = 9,
     .query_offset = 3,
     .key_offset = 50},
    {.name = "no_key_seen",
     .batch = 1,
     .queries = 30,
     .keys = 60,
     .heads = 2,
     .kv_heads = 1,
     .head_dim = 12,
     .query_offset = 3,
     .key_offset = 50},
    {.name = "all_allowed",
     .batch = 1,
     .queries = 50,
     .keys = 131,
     .heads = 1,
     .kv_heads = 1,
     .head_dim = 12,
     .query_offset = 1000},
    {.name = "segments",
     .batch = 2,
     .queries = 215,
     .keys = 215,
     .heads = 2,
     .kv_heads = 2,
     .head_dim = 10,
     .segment_length = 23},
    {.name = "segments_packed",
     .batch = 1,
     .queries = 401,
     .keys = 401,
     .heads = 1,
     .kv_heads = 1,
     .head_dim = 64,
     .segment_length = 131,
     .gap = packed},
    {.name = "segments_apart",
     .batch = 1,
     .queries = 40,
     .keys = 60,
     .heads = 1,
     .kv_heads = 1,
     .head_dim = 6,
     .query_offset = 70,
     .segment_length = 33},
    {.name = "dropout", .batch = 2, .queries = 107, .keys = 107, .heads = 4, .kv_heads = 2, .head_dim = 20, .p = 0.3},
    {.name = "dropout_64",
     .batch = 2,
     .queries = 150,
     .keys = 150,
     .heads = 2,
     .kv_heads = 2,
     .head_dim = 64,
     .p = 0.1,
     .gap = packed},
    {.name = "dropout_128",
     .batch = 1,
     .queries = 150,
     .keys = 150,
     .heads = 2,
     .kv_heads = 1,
     .head_dim = 104,
     .p = 0.2,
     .gap = packed},
    {.name = "dropout_256",
     .batch = 1,
     .queries = 71,
     .keys = 71,
     .heads = 2,
     .kv_heads = 1,
     .head_dim = 170,
     .p = 0.2},
    {.name = "dropout_segments",
     .batch = 1,
     .queries = 61,
     .keys = 99,
     .heads = 1,
     .kv_heads = 1,
     .head_dim = 11,
     .query_offset = 38,
     .p = 0.1,
     .segment_length = 40},
    {.name = "shifted",
     .batch = 1,
     .queries = 77,
     .keys = 77,
     .heads = 2,
     .kv_heads = 2,
     .head_dim = 32,
     .gap = packed,
     .shift = 1},
};

// What the wgmma kernels take; tiles are 128 or 64 rows.
const AttentionCase packed_cases[] = {
    {.name = "one", .batch = 1, .queries = 1, .keys = 1, .heads = 1, .kv_heads = 1, .head_dim = 8, .gap = packed},
    {.name = "small", .batch = 2, .queries = 37, .keys = 37, .heads = 3, .kv_heads = 3, .head_dim = 40, .gap = packed},
    {.name = "d64", .batch = 2, .queries = 128, .keys = 128, .heads = 2, .kv_heads = 2, .head_dim = 64, .gap = packed},
    {.name = "d64_long",
     .batch = 2,
     .queries = 803,
     .keys = 803,
     .heads = 3,
     .kv_heads = 3,
     .head_dim = 64,
     .gap = packed},
    {.name = "d64_dense", .batch = 3, .queries = 520, .keys = 520, .heads = 2, .kv_heads = 2, .head_dim = 64, .gap = 0},
    {.name = "d128",
     .batch = 2,
     .queries = 256,
     .keys = 256,
     .heads = 2,
     .kv_heads = 2,
     .head_dim = 128,
     .gap = packed},
    {.name = "d128_long",
     .batch = 1,
     .queries = 701,
     .keys = 701,
     .heads = 3,
     .kv_heads = 3,
     .head_dim = 128,
     .gap = packed},
    {.name = "d104",
     .batch = 1,
     .queries = 331,
     .keys = 331,
     .heads = 2,
     .kv_heads = 1,
     .head_dim = 104,
     .gap = packed},
    {.name = "groups",
     .batch = 2,
     .queries = 399,
     .keys = 399,
     .heads = 6,
     .kv_heads = 2,
     .head_dim = 64,
     .gap = packed},
    {.name = "groups_128",
     .batch = 2,
     .queries = 299,
     .keys = 299,
     .heads = 4,
     .kv_heads = 1,
     .head_dim = 128,
     .gap = packed},
    {.name = "cache",
     .batch = 2,
     .queries = 1,
     .keys = 711,
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 64,
     .query_offset = 710,
     .gap = packed},
    {.name = "later_chunk",
     .batch = 1,
     .queries = 145,
     .keys = 610,
     .heads = 2,
     .kv_heads = 2,
     .head_dim = 64,
     .query_offset = 460,
     .gap = packed},
    {.name = "keys_begin_later",
     .batch = 1,
     .queries = 430,
     .keys = 360,
     .heads = 2,
     .kv_heads = 1,
     .head_dim = 128,
     .query_offset = 3,
     .key_offset = 150,
     .gap = packed},
    {.name = "no_key_seen",
     .batch = 1,
     .queries = 230,
     .keys = 360,
     .heads = 2,
     .kv_heads = 1,
     .head_dim = 64,
     .query_offset = 3,
     .key_offset = 350,
     .gap = packed},
    {.name = "all_allowed",
     .batch = 1,
     .queries = 250,
     .keys = 331,
     .heads = 1,
     .kv_heads = 1,
     .head_dim = 128,
     .query_offset = 5000,
     .gap = packed},
    {.name = "sharp",
     .batch = 1,
     .queries = 320,
     .keys = 320,
     .heads = 1,
     .kv_heads = 1,
     .head_dim = 64,
     .score_scale = 20,
     .gap = packed},
};

template <class T>
void compare(Stream stream, const AttentionCase& c, const AttentionKernels<T>& kernels, const AttentionBounds& bounds) {
    SCOPED_TRACE(c.name);
    AttentionProblem<T> x(c);
    const AttentionOutputs<T> got = run_attention(stream, x, kernels, c.shift);
    const auto want = x.want();
    expect_lse(got.lse, want.lse, bounds.lse);
    expect_rows("out", got.out, want.out, x.out, bounds.out);
    expect_rows("d_q", got.d_q, want.d_q, x.query, bounds.d_q);
    expect_rows("d_k", got.d_k, want.d_k, x.key, bounds.d_k);
    expect_rows("d_v", got.d_v, want.d_v, x.value, bounds.d_v);
    expect_same(got, run_attention(stream, x, kernels, c.shift));
}

template <class T>
class DeviceAttention : public OnDeviceTyped<T> {};
TYPED_TEST_SUITE(DeviceAttention, Precisions);

TYPED_TEST(DeviceAttention, MatchesReferenceAndRepeats) {
    using T = TypeParam;
    // In roundoffs: scores of size 2 carry some 4, p the same relative error, sums of 100 terms a few more; gradients
    // of scores are differences of two such terms. In double the reference has errors of the same size: the whole is
    // within 9, an element within 80 of it.
    const double u = roundoff<T>();
    const AttentionBounds bounds{{20 * u, 100 * u}, {20 * u, 250 * u}, {20 * u, 250 * u}, {20 * u, 250 * u}, 16 * u};
    for (const AttentionCase& c : odd_cases) {
        compare<T>(this->gpu, c, chosen<T>(), bounds);
    }
}

template <class S>
class DeviceAttention16Bits : public OnDeviceTyped<S> {};
TYPED_TEST_SUITE(DeviceAttention16Bits, Bits16);

TYPED_TEST(DeviceAttention16Bits, MmaMatchesReferenceAndRepeats) {
    using S = TypeParam;
    for (const AttentionCase& c : odd_cases) {
        compare<S>(this->gpu, c, mma<S>(), bounds_of<S>());
    }
    for (const AttentionCase& c : packed_cases) {
        compare<S>(this->gpu, c, mma<S>(), bounds_of<S>());
    }
}

TYPED_TEST(DeviceAttention16Bits, WgmmaMatchesReferenceAndRepeats) {
    using S = TypeParam;
    cudaDeviceProp device{};
    ok(cudaGetDeviceProperties(&device, 0));
    if (device.major != 9) {
        GTEST_SKIP() << "it needs a GPU of compute capability 9.0 (wgmma), this one has " << device.major << '.'
                     << device.minor;
    }
    for (const AttentionCase& c : packed_cases) {
        compare<S>(this->gpu, c, wgmma<S>(), bounds_of<S>());
    }
}

TYPED_TEST(DeviceAttention16Bits, OwnTakesEverything) {
    using S = TypeParam;
    ops::set_attention_settings({ops::AttentionChoice::own, ops::AttentionOrder::fixed});
    for (const AttentionCase& c : odd_cases) {
        compare<S>(this->gpu, c, chosen<S>(), bounds_of<S>());
    }
    ops::set_attention_settings({});
}

}  // namespace
}  // namespace ogrom::device_test
