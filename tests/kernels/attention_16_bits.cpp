// What attention says about types of 16 bits and devices where no device is needed to say it.
#include <gtest/gtest.h>

#include "kernels/ops/attention.h"

namespace ogrom::test {
namespace {

ops::AttentionShape small_shape() {
    ops::AttentionShape shape{};
    shape.batch = 1;
    shape.queries = shape.keys = 4;
    shape.heads = shape.kv_heads = 2;
    shape.head_dim = 8;
    shape.query_stride = shape.key_stride = shape.value_stride = shape.out_stride = 16;
    return shape;
}

template <class Call>
std::string refusal(const Call& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.code() == ExitCode::usage ? error.what() : "wrong exit code";
    }
    return "no refusal";
}

template <class T>
void expect_refused(const std::string& type) {
    ops::AttentionForward<T> forward{};
    forward.shape = small_shape();
    EXPECT_EQ(refusal([&] { ops::attention_forward({}, forward); }), "attention_forward: " + type + " needs a GPU");
    ops::AttentionBackward<T> backward{};
    backward.shape = small_shape();
    EXPECT_EQ(refusal([&] { ops::attention_backward({}, backward); }), "attention_backward: " + type + " needs a GPU");
}

TEST(AttentionOf16Bits, IsRefusedByNameOnTheCpu) {
    expect_refused<Bf16>("bf16");
    expect_refused<Fp16>("fp16");
}

TEST(AttentionWorkspace, IsTheCpusOrNone) {
    const ops::AttentionShape shape = small_shape();
    EXPECT_EQ(ops::attention_workspace(shape, Backend::cpu, 3), ops::attention_workspace(shape, 3));
    EXPECT_GT(ops::attention_workspace(shape, Backend::cpu, 1), 0);
    EXPECT_EQ(ops::attention_workspace(shape, Backend::cuda, 3), 0);
}

TEST(AttentionSettings, AreKept) {
    EXPECT_EQ(ops::attention_settings().choice, ops::AttentionChoice::automatic);
    EXPECT_EQ(ops::attention_settings().backward, ops::AttentionOrder::any);
    ops::set_attention_settings({ops::AttentionChoice::own, ops::AttentionOrder::fixed});
    EXPECT_EQ(ops::attention_settings().choice, ops::AttentionChoice::own);
    EXPECT_EQ(ops::attention_settings().backward, ops::AttentionOrder::fixed);
    ops::set_attention_settings({});
}

}  // namespace
}  // namespace ogrom::test
