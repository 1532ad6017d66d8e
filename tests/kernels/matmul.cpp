// Products and bias sums against plain double loops, at odd sizes and strides.
#include "kernels/ops/matmul.h"

#include <cstring>
#include <memory>

#include "kernels/cpu/matmul.h"

#include "tests/kernels/support.h"
#include "tests/reference/matmul.h"

namespace ogrom::test {
namespace {

template <class T>
class MatmulKernel : public ::testing::Test {};
TYPED_TEST_SUITE(MatmulKernel, Precisions);

using ops::Transpose;

struct Extents {
    i64 m, n, k;
};

template <class T>
struct Product {
    std::vector<T> a, b, before, y;
    ops::Matmul<T> op;

    Product(Extents e, Transpose transpose_a, Transpose transpose_b, T alpha, T beta) {
        const i64 columns_a = transpose_a == Transpose::yes ? e.m : e.k;
        const i64 columns_b = transpose_b == Transpose::yes ? e.k : e.n;
        op = {.y = nullptr,
              .a = nullptr,
              .b = nullptr,
              .m = e.m,
              .n = e.n,
              .k = e.k,
              .ldy = e.n + 3,
              .lda = columns_a + 5,
              .ldb = columns_b + 1,
              .transpose_a = transpose_a,
              .transpose_b = transpose_b,
              .alpha = alpha,
              .beta = beta};
        a = random_values<T>((transpose_a == Transpose::yes ? e.k : e.m) * op.lda, 1);
        b = random_values<T>((transpose_b == Transpose::yes ? e.n : e.k) * op.ldb, 2);
        before = beta == T(0) ? poisoned<T>(e.m * op.ldy) : random_values<T>(e.m * op.ldy, 3);
        y = before;
        op.y = y.data();
        op.a = a.data();
        op.b = b.data();
    }
    Product(const Product&) = delete;
    Product& operator=(const Product&) = delete;

    // k additions, each half a roundoff of a partial sum of size up to sqrt(k), as a random walk: sqrt(k) sqrt(k) / 2
    // roundoffs; alpha and the tail of the walk make it 2 k, and 8 covers the ends of short sums.
    void check() const {
        const double bound = (2 * static_cast<double>(op.k) + 8) * roundoff<T>();
        for (i64 i = 0; i < op.m; ++i) {
            for (i64 j = 0; j < op.ldy; ++j) {
                const auto at = static_cast<std::size_t>(i * op.ldy + j);
                if (j >= op.n) {
                    ASSERT_EQ(std::memcmp(&y[at], &before[at], sizeof(T)), 0) << "written between rows";
                    continue;
                }
                const double want = reference::matmul_element(op, before.data(), i, j);
                ASSERT_TRUE(std::abs(static_cast<double>(y[at]) - want) <= bound)
                    << "row " << i << " column " << j << ": got " << y[at] << ", want " << want;
            }
        }
    }
};

template <class Function>
void for_each_transpose(const Function& function) {
    for (const Transpose a : {Transpose::no, Transpose::yes}) {
        for (const Transpose b : {Transpose::no, Transpose::yes}) {
            SCOPED_TRACE(::testing::Message() << "transposes " << (a == Transpose::yes) << (b == Transpose::yes));
            function(a, b);
        }
    }
}

constexpr Extents sizes[] = {{1, 1, 1},   {7, 5, 3},      {1, 67, 129}, {65, 1, 33},
                             {33, 71, 1}, {131, 97, 257}, {64, 64, 64}};

TYPED_TEST(MatmulKernel, MatchesReference) {
    for (const Extents& e : sizes) {
        for_each_transpose([&](Transpose a, Transpose b) {
            for (const double beta : {0.0, 1.0, -0.5}) {
                Product<TypeParam> product(e, a, b, static_cast<TypeParam>(1.5), static_cast<TypeParam>(beta));
                ops::matmul<TypeParam>({}, product.op);
                product.check();
            }
        });
    }
}

// The gradient's use: dw += dy^T x twice is twice dy^T x.
TYPED_TEST(MatmulKernel, AddsToWhatIsThere) {
    Product<TypeParam> product({19, 23, 40}, Transpose::yes, Transpose::no, 1, 1);
    ops::matmul<TypeParam>({}, product.op);
    product.check();
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
#pragma omp parallel for num_threads(4)
    for (int i = 0; i < 4; ++i) {
        ops::matmul<TypeParam>({}, products[static_cast<std::size_t>(i)]->op);
    }
    for (const auto& product : products) {
        product->check();
    }
}

TYPED_TEST(MatmulKernel, RefusesWrongStridesAndCuda) {
    Product<TypeParam> product({4, 6, 5}, Transpose::no, Transpose::no, 1, 0);
    EXPECT_THROW(ops::matmul<TypeParam>({Backend::cuda, nullptr}, product.op), Error);
    EXPECT_THROW(ops::bias_gradient<TypeParam>({Backend::cuda, nullptr}, {}), Error);
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
