// B11: rows x vocabulary passes 2^31 and 2^32 elements. The offsets are checked as numbers, and the last row is run in
// address space of which only the touched pages exist.
#include <type_traits>

#include "kernels/common/extents.h"
#include "kernels/cpu/dropout.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/residual.h"

#include "tests/kernels/sparse_memory.h"
#include "tests/kernels/support.h"

namespace ogrom {
namespace {

TEST(Offsets, Are64BitsWide) {
    static_assert(std::is_same_v<decltype(row_offset(1, 1)), i64>);
    static_assert(row_offset(44031, 50257) == 2212865967);
    static_assert(row_offset(44032, 50257) > (i64{1} << 31));
    static_assert(row_offset(131072, 50304) > (i64{1} << 32));
    const i64 sample = 50000000;
    EXPECT_EQ(cpu::dropout_row_element(&sample, 1023, 1024, 12288), (50000000LL * 1024 + 1023) * 12288);
    EXPECT_EQ(round_up((i64{1} << 33) + 1, 64), (i64{1} << 33) + 64);
    EXPECT_EQ(ceil_div(i64{1} << 40, 3), ((i64{1} << 40) + 2) / 3);
}

// Loss and gradient of a row that starts `stride` elements after the first one, against that row alone.
void check_last_row(i64 stride) {
    constexpr i64 V = 50257;
    const test::SparseMemory memory((stride + V) * 4);
    if (!memory.valid()) {
        GTEST_SKIP() << "this machine gives no " << stride * 4 << " bytes of address space";
    }
    auto* logits = memory.as<float>();
    auto alone = test::random_values<float>(V, 1, 4);
    std::copy(alone.begin(), alone.end(), logits);
    std::copy(alone.rbegin(), alone.rend(), logits + stride);
    std::reverse(alone.begin(), alone.end());
    const std::vector<std::int32_t> targets{3, static_cast<std::int32_t>(V - 1)};
    const std::vector<std::uint8_t> last{0, 1};
    double loss = 0;
    double loss_alone = 0;
    ops::cross_entropy<float>(
        {}, {logits, targets.data(), last.data(), 2, V, V, stride, 0.5, ops::Gradient::in_place, &loss});
    ops::cross_entropy<float>(
        {}, {alone.data(), &targets[1], nullptr, 1, V, V, V, 0.5, ops::Gradient::in_place, &loss_alone});
    EXPECT_GT(loss, 1);
    EXPECT_EQ(loss, loss_alone);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), logits + stride));
}

TEST(Offsets, B11LastRowOf44032By50257) {
    check_last_row(row_offset(44031, 50257));
}
TEST(Offsets, B11LastRowBeyond2To32) {
    check_last_row((i64{1} << 32) + 12345);
}

// All rows of the real shape, of which only the last is unmasked: without a gradient the masked ones are not read.
TEST(Offsets, B11LossOfTheLastOf44032Rows) {
    constexpr i64 V = 50257;
    constexpr i64 rows = 44032;
    const test::SparseMemory memory(rows * V * 4);
    if (!memory.valid()) {
        GTEST_SKIP() << "this machine gives no " << rows * V * 4 << " bytes of address space";
    }
    auto row = test::random_values<float>(V, 2, 4);
    std::copy(row.begin(), row.end(), memory.as<float>() + row_offset(rows - 1, V));
    std::vector<std::int32_t> targets(rows, 0);
    std::vector<std::uint8_t> mask(rows, 0);
    mask.back() = 1;
    double loss = 0;
    double alone = 0;
    ops::cross_entropy<float>(
        {}, {memory.as<float>(), targets.data(), mask.data(), rows, V, V, V, 1.0, ops::Gradient::none, &loss});
    ops::cross_entropy<float>({}, {row.data(), targets.data(), nullptr, 1, V, V, V, 1.0, ops::Gradient::none, &alone});
    EXPECT_EQ(loss, alone);
}

TEST(Offsets, B11AddBiasBeyond2To32) {
    constexpr i64 stride = (i64{1} << 32) + 999;
    const test::SparseMemory memory((stride + 7) * 4);
    if (!memory.valid()) {
        GTEST_SKIP() << "this machine gives no " << stride * 4 << " bytes of address space";
    }
    const auto bias = test::random_values<float>(7, 3);
    ops::add_bias<float>({}, {memory.as<float>(), bias.data(), 2, 7, stride});
    EXPECT_TRUE(std::equal(bias.begin(), bias.end(), memory.as<float>() + stride));
}

// The last row of a token table of 2^31 + elements (a table of 2^21 words, 1031 wide).
TEST(Offsets, B11EmbeddingTableBeyond2To31) {
    constexpr i64 words = i64{1} << 21;
    constexpr i64 C = 1031;
    const test::SparseMemory memory(words * C * 4);
    if (!memory.valid()) {
        GTEST_SKIP() << "this machine gives no " << words * C * 4 << " bytes of address space";
    }
    const auto row = test::random_values<float>(C, 4);
    std::copy(row.begin(), row.end(), memory.as<float>() + row_offset(words - 1, C));
    const std::int32_t token = static_cast<std::int32_t>(words - 1);
    const std::int32_t position = 0;
    auto y = test::poisoned<float>(C);
    ops::embedding_forward<float>({}, {y.data(), memory.as<float>(), nullptr, &token, &position, 1, 1, C, nullptr, {}});
    EXPECT_EQ(y, row);
    ops::embedding_backward<float>(
        {}, {memory.as<float>(), nullptr, row.data(), &token, &position, 1, 1, C, words, nullptr, {}});
    EXPECT_EQ(memory.as<float>()[row_offset(words - 1, C) + C - 1], 2 * row[C - 1]);
}

// A gradient buffer of more than 2^31 elements whose pages are all the shared page of zeros, except the last.
TEST(Offsets, B11NormOfMoreThan2To31Elements) {
    constexpr i64 n = (i64{1} << 31) + 5000;
    const test::SparseMemory memory(n * 4);
    if (!memory.valid()) {
        GTEST_SKIP() << "this machine gives no " << n * 4 << " bytes of address space";
    }
    memory.as<float>()[n - 1] = 3;
    EXPECT_EQ(ops::sum_of_squares(Stream{}, memory.as<const float>(), n), 9.0);
}

}  // namespace
}  // namespace ogrom
