#include "kernels/common/cost.h"

#include <gtest/gtest.h>

namespace ogrom {
namespace {

TEST(Cost, OperationsByHand) {
    EXPECT_EQ(cost::matmul(2, 3, 5, 4).flops, 60);
    EXPECT_EQ(cost::matmul(2, 3, 5, 4).bytes, 4 * (10 + 15 + 6));
    EXPECT_EQ(cost::matmul(2, 3, 5, 8, cost::Output::accumulated).bytes, 8 * (10 + 15 + 12));
    EXPECT_EQ(cost::layernorm_forward(7, 11, 4).flops, 8 * 77);
    EXPECT_EQ(cost::layernorm_backward(7, 11, 4).flops, 14 * 77);
    EXPECT_EQ(cost::layernorm_backward(7, 11, 4, cost::Output::accumulated).bytes, 4 * 4 * 77);
    EXPECT_EQ(cost::cross_entropy(4096, 50257, 4).flops, 5.0 * 4096 * 50257);
    const double staged = cost::cross_entropy_max(7, 11, 4).flops + cost::cross_entropy_sum(7, 11, 4).flops +
                          cost::cross_entropy_finish(7, 11, 4).flops;
    EXPECT_EQ(staged, cost::cross_entropy(7, 11, 4).flops);
    EXPECT_EQ(cost::cross_entropy_max(7, 11, 4).bytes, 4 * 77);
    EXPECT_EQ(cost::cross_entropy_sum(7, 11, 8).bytes, 8 * 2 * 77);
    EXPECT_EQ(cost::cross_entropy_finish(7, 11, 8).bytes, 8 * 2 * 77);
    EXPECT_EQ(cost::position_forward(7, 11, 4).flops, 2 * 77);
    EXPECT_EQ(cost::position_forward(7, 11, 4).bytes, 3 * 4 * 77);
    EXPECT_EQ(cost::gelu_forward(100, 4).flops, 700);
    EXPECT_EQ(cost::gelu_forward(100, 4).bytes, 800);
    EXPECT_EQ(cost::block_squares(100, 8).flops, 200);
    EXPECT_EQ(cost::block_squares(100, 8).bytes, 800);
    EXPECT_EQ(cost::add(100, 4).flops, 100);
    EXPECT_EQ(cost::add(100, 4).bytes, 1200);
    EXPECT_EQ(cost::copy(100, 4).bytes, 800);
    EXPECT_EQ(cost::adamw(1000, 4).bytes, 28000);
    EXPECT_EQ(cost::adamw(1000, 4).flops, 12000);
    EXPECT_EQ(cost::attention_forward(cost::causal_pairs(3), 3, 2, 2, 5, 4).flops, 4 * 6 * 2 * 5);
    EXPECT_EQ(cost::attention_backward(cost::causal_pairs(3), 3, 2, 2, 5, 4).flops, 10 * 6 * 2 * 5);
    EXPECT_EQ(cost::attention_forward(6, 3, 2, 1, 5, 4).bytes, 4 * (30 + 30 + 15 + 15));
}

TEST(Cost, ProductsPass2To63WithoutWrapping) {
    EXPECT_NEAR(cost::matmul(i64{1} << 22, i64{1} << 22, i64{1} << 22, 2).flops, 0x1p67, 1);
}

// 2 layers, C 4, 2 heads of 3 with 1 key head, F 10, V 7, T 3, counted on paper. Weights of a layer: q 4*6, k 4*3,
// v 4*3, out 6*4, up and down 2*4*10: 152. Pairs 6 causal, 9 square; per token and layer 4*6*(pairs/3).
TEST(Cost, SmallModelByHand) {
    const cost::Model m{2, 4, 2, 1, 3, 10, 7, 3};
    EXPECT_EQ(cost::layer_weights(m), 152);
    EXPECT_EQ(cost::model_flops(m), 3 * (2 * (304 + 48) + 56));
    EXPECT_EQ(cost::model_flops_square(m), 3 * (2 * (304 + 72) + 56));
    EXPECT_EQ(cost::hardware_flops(m, cost::Recompute::none), 3 * (2 * (304 + 48) + 56) + 2 * 24);
    EXPECT_EQ(cost::hardware_flops(m, cost::Recompute::full), 3 * (2 * (304 + 48) + 56) + 2 * 24 + 2 * (304 + 48));
}

// B58: ffn = 3 x hidden, and a vocabulary of 200,000 over 2 layers, where the logits dominate.
TEST(Cost, B58NarrowFfnAndWideVocabulary) {
    const cost::Model narrow{12, 768, 12, 12, 64, 3 * 768, 50257, 1024};
    // 12 (4 C^2 + 2 C 3C) = 120 C^2 weights; pairs (T+1)/2 = 512.5 a token.
    const double by_hand = 6.0 * 120 * 768 * 768 + 12 * 12.0 * 512.5 * 768 + 6.0 * 768 * 50257;
    EXPECT_EQ(cost::model_flops(narrow), by_hand);
    const cost::Model wide{2, 256, 4, 4, 64, 1024, 200000, 512};
    EXPECT_EQ(cost::model_flops(wide), 6.0 * 2 * 12 * 65536 + 2 * 12.0 * 256.5 * 256 + 6.0 * 256 * 200000);
    EXPECT_GT(3 * cost::head_forward_flops(wide) / cost::model_flops(wide), 0.96);
}

// B58: recomputation is not useful work.
TEST(Cost, B58RecomputationCountsInHardwareFlopsOnly) {
    const cost::Model m{12, 768, 12, 12, 64, 3072, 50257, 1024};
    const double none = cost::hardware_flops(m, cost::Recompute::none);
    EXPECT_EQ(cost::hardware_flops(m, cost::Recompute::selective), none);
    EXPECT_EQ(cost::hardware_flops(m, cost::Recompute::full) - none,
              cost::layers_forward_flops(m, cost::causal_pairs(1024)));
    EXPECT_GT(none, cost::model_flops(m));
}

// Megatron's formula (Korthikanti et al. 2022): 72 L s h^2 (1 + s / 6h + V / 12 L h) a sequence.
TEST(Cost, SquareCountEqualsMegatronsFormula) {
    const cost::Model m{24, 2048, 16, 16, 128, 8192, 51200, 2048};
    const double L = 24;
    const double h = 2048;
    const double s = 2048;
    const double formula = 72 * L * h * h * (1 + s / (6 * h) + 51200 / (12 * L * h));
    EXPECT_NEAR(cost::model_flops_square(m) / formula, 1, 1e-14);
}

}  // namespace
}  // namespace ogrom
