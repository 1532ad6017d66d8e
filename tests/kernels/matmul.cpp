// Products and bias sums against plain double loops, at odd sizes and strides.
#include "kernels/ops/matmul.h"

#include <memory>

#include "tests/kernels/matmul_support.h"

namespace ogrom::test {
namespace {

template <class T>
class MatmulKernel : public ::testing::Test {};
TYPED_TEST_SUITE(MatmulKernel, Precisions);

constexpr Extents sizes[] = {{1, 1, 1},   {7, 5, 3},      {1, 67, 129}, {65, 1, 33},
                             {33, 71, 1}, {131, 97, 257}, {64, 64, 64}};

TYPED_TEST(MatmulKernel, MatchesReference) {
    for (const Extents& e : sizes) {
        for_each_transpose([&](Transpose a, Transpose b) {
            for (const double beta : {0.0, 1.0, -0.5}) {
                Product<TypeParam> product(e, a, b, static_cast<TypeParam>(1.5), static_cast<TypeParam>(beta));
                product.run_and_check();
            }
        });
    }
}

// The gradient's use: dw += dy^T x twice is twice dy^T x.
TYPED_TEST(MatmulKernel, AddsToWhatIsThere) {
    Product<TypeParam> product({19, 23, 40}, Transpose::yes, Transpose::no, 1, 1);
    product.run_and_check();
}

TYPED_TEST(MatmulKernel, EmptyExtents) {
    for (const double beta : {0.0, 0.5}) {
        Product<TypeParam> product({4, 6, 0}, Transpose::no, Transpose::no, 1, static_cast<TypeParam>(beta));
        ops::matmul<TypeParam>({}, product.op);
        product.check();
        Product<TypeParam> no_alpha({4, 6, 5}, Transpose::no, Transpose::no, 0, static_cast<TypeParam>(beta));
        ops::matmul<TypeParam>({}, no_alpha.op);
        no_alpha.check();
    }
    Product<TypeParam> none({0, 6, 5}, Transpose::no, Transpose::no, 1, 1);
    ops::matmul<TypeParam>({}, none.op);
}

// A linear layer whose rank holds no row, and one with a row or a few: forward, data gradient, weight gradient, bias.
TYPED_TEST(MatmulKernel, LinearLayersOfFewRows) {
    constexpr i64 in = 37;
    constexpr i64 out = 29;
    for (const i64 rows : {0, 1, 2, 5}) {
        Product<TypeParam> forward({rows, out, in}, Transpose::no, Transpose::yes, 1, 0);
        Product<TypeParam> data({rows, in, out}, Transpose::no, Transpose::no, 1, 0);
        Product<TypeParam> weight({out, in, rows}, Transpose::yes, Transpose::no, 1, 1);
        for (Product<TypeParam>* product : {&forward, &data, &weight}) {
            if (rows > 0) {
                product->run_and_check();
            } else {
                ops::matmul<TypeParam>({}, product->op);
                product->check();
            }
        }
        const std::vector<TypeParam> d_y = random_values<TypeParam>(rows * out, 5);
        std::vector<TypeParam> bias = random_values<TypeParam>(out, 6);
        const ops::BiasGradient<TypeParam> op{bias.data(), d_y.data(), rows, out, out};
        std::vector<double> want;
        for (i64 j = 0; j < out; ++j) {
            want.push_back(reference::bias_gradient_element(op, bias[static_cast<std::size_t>(j)], j));
        }
        ops::bias_gradient({}, op);
        expect_near(bias, want, 2 * roundoff<TypeParam>());  // the sum rounded, and its addition
    }
}

// Extents above the int of CBLAS are cut; a small limit cuts an ordinary product the same way.
TYPED_TEST(MatmulKernel, CutIntoPieces) {
    for_each_transpose([&](Transpose a, Transpose b) {
        for (const double beta : {0.0, 2.0}) {
            Product<TypeParam> product({23, 31, 50}, a, b, 1, static_cast<TypeParam>(beta));
            cpu::matmul_in_pieces(product.op, 7);
            product.check();
        }
    });
}

TYPED_TEST(MatmulKernel, InsideAParallelRegion) {
    std::vector<std::unique_ptr<Product<TypeParam>>> products;
    for (int i = 0; i < 4; ++i) {
        products.push_back(
            std::make_unique<Product<TypeParam>>(Extents{61, 47, 90}, Transpose::no, Transpose::yes, 1, 0));
    }
    for (const auto& path : paths<TypeParam>()) {
        SCOPED_TRACE(path.name);
        for (const auto& product : products) {
            product->y = product->before;
        }
#pragma omp parallel for num_threads(4)
        for (int i = 0; i < 4; ++i) {
            path.run(products[static_cast<std::size_t>(i)]->op);
        }
        for (const auto& product : products) {
            product->check();
        }
    }
}

TYPED_TEST(MatmulKernel, RefusesWrongStrides) {
    Product<TypeParam> product({4, 6, 5}, Transpose::no, Transpose::no, 1, 0);
    ops::Matmul<TypeParam> narrow = product.op;
    narrow.lda = 4;
    EXPECT_THROW(ops::matmul<TypeParam>({}, narrow), Error);
    ops::Matmul<TypeParam> wide = product.op;
    wide.ldb = i64{1} << 31;
    EXPECT_THROW(ops::matmul<TypeParam>({}, wide), Error);
}

// Sums are in double, so only the last rounding and the addition to what was there remain: 2 roundoffs of the result.
TYPED_TEST(MatmulKernel, BiasGradient) {
    using T = TypeParam;
    for (const Extents& e : {Extents{1, 1, 0}, Extents{77, 3, 2}, Extents{5, 200, 0}, Extents{333, 131, 7}}) {
        const auto [rows, cols, gap] = e;
        const std::vector<T> d_y = random_values<T>(rows * (cols + gap), 1);
        const std::vector<T> before = random_values<T>(cols, 2);
        std::vector<T> first;
        for (const int count : {1, 2, 3}) {
            const Threads threads(count);
            std::vector<T> d_bias = before;
            const ops::BiasGradient<T> op{d_bias.data(), d_y.data(), rows, cols, cols + gap};
            ops::bias_gradient<T>({}, op);
            std::vector<double> want(static_cast<std::size_t>(cols));
            for (i64 j = 0; j < cols; ++j) {
                want[static_cast<std::size_t>(j)] =
                    reference::bias_gradient_element(op, before[static_cast<std::size_t>(j)], j);
            }
            expect_near(d_bias, want, 2 * roundoff<T>() + 1e-15 * static_cast<double>(rows), 1.0);
            first = count == 1 ? d_bias : first;
            EXPECT_EQ(first, d_bias) << "with " << count << " threads";
        }
    }
}

}  // namespace
}  // namespace ogrom::test
