// A linear layer with its pass gives the bits of the two operations, and the numbers of the formula.
#include "kernels/ops/linear.h"

#include "kernels/ops/gelu.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/residual.h"

#include "tests/kernels/support.h"

namespace ogrom {
namespace {

using ops::Transpose;

template <class T>
class LinearTest : public ::testing::Test {};
TYPED_TEST_SUITE(LinearTest, test::Precisions);

struct Extents {
    i64 rows, in, out;
};
constexpr Extents shapes[] = {{1, 1, 1}, {5, 7, 3}, {33, 65, 129}, {64, 96, 48}};

template <class T>
struct Case {
    Extents e;
    std::vector<T> x = test::random_values<T>(e.rows * e.in, 1);
    std::vector<T> w = test::random_values<T>(e.out * e.in, 2);
    std::vector<T> bias = test::random_values<T>(e.out, 3);
    std::vector<T> d_y = test::random_values<T>(e.rows * e.out, 4);

    // x w^T + bias in the order of the formula.
    [[nodiscard]] std::vector<double> affine() const {
        std::vector<double> y(static_cast<std::size_t>(e.rows * e.out));
        for (i64 r = 0; r < e.rows; ++r) {
            for (i64 o = 0; o < e.out; ++o) {
                double sum = static_cast<double>(bias[o]);
                for (i64 i = 0; i < e.in; ++i) {
                    sum += static_cast<double>(x[r * e.in + i]) * static_cast<double>(w[o * e.in + i]);
                }
                y[r * e.out + o] = sum;
            }
        }
        return y;
    }
    [[nodiscard]] ops::Matmul<T> forward(T* y) const {
        return {y, x.data(), w.data(), e.rows, e.out, e.in, e.out, e.in, e.in, Transpose::no, Transpose::yes};
    }
    // Partial sums have size sqrt(in), and sqrt(in) of their roundings do not cancel.
    [[nodiscard]] double root() const { return std::sqrt(static_cast<double>(e.in)); }
    [[nodiscard]] double tolerance() const { return root() * test::roundoff<T>(); }
};

TYPED_TEST(LinearTest, BiasIsAdded) {
    using T = TypeParam;
    for (const Extents& e : shapes) {
        const Case<T> in{e};
        auto y = test::poisoned<T>(e.rows * e.out), two = y, bare = y;
        ops::linear_bias<T>({}, {y.data(), in.x.data(), in.w.data(), in.bias.data(), e.rows, e.in, e.out});
        test::expect_near(y, in.affine(), in.tolerance(), in.root());
        ops::matmul({}, in.forward(two.data()));
        ops::linear_bias<T>({}, {bare.data(), in.x.data(), in.w.data(), nullptr, e.rows, e.in, e.out});
        EXPECT_TRUE(test::same_bits(bare, two));
        ops::add_bias<T>({}, {two.data(), in.bias.data(), e.rows, e.out, e.out});
        EXPECT_TRUE(test::same_bits(y, two));
    }
}

TYPED_TEST(LinearTest, BiasAndGeluKeepTheInput) {
    using T = TypeParam;
    for (const Extents& e : shapes) {
        const Case<T> in{e};
        auto y = test::poisoned<T>(e.rows * e.out), u = y, two_y = y, two_u = y, again = y;
        ops::linear_bias_gelu<T>({},
                                 {y.data(), u.data(), in.x.data(), in.w.data(), in.bias.data(), e.rows, e.in, e.out});
        test::expect_near(u, in.affine(), in.tolerance(), in.root());
        ops::matmul({}, in.forward(two_u.data()));
        ops::bias_gelu_forward<T>({}, {two_y.data(), two_u.data(), in.bias.data(), e.rows, e.out});
        EXPECT_TRUE(test::same_bits(u, two_u));
        EXPECT_TRUE(test::same_bits(y, two_y));
        ops::gelu_forward<T>({}, {again.data(), u.data(), e.rows * e.out});
        EXPECT_TRUE(test::same_bits(again, y));
    }
}

TYPED_TEST(LinearTest, InputGradientGoesThroughTheGelu) {
    using T = TypeParam;
    for (const Extents& e : shapes) {
        const Case<T> in{e};
        auto got = test::poisoned<T>(e.rows * e.in), two = got;
        ops::linear_input_gelu<T>({}, {got.data(), in.d_y.data(), in.w.data(), in.x.data(), e.rows, e.in, e.out});
        ops::matmul<T>({}, {two.data(), in.d_y.data(), in.w.data(), e.rows, e.in, e.out, e.in, e.out, e.in});
        ops::gelu_backward<T>({}, {two.data(), two.data(), in.x.data(), e.rows * e.in});
        EXPECT_TRUE(test::same_bits(got, two));
    }
}

TYPED_TEST(LinearTest, GradientsAreAdded) {
    using T = TypeParam;
    for (const Extents& e : shapes) {
        const Case<T> in{e};
        auto d_w = test::random_values<T>(e.out * e.in, 5), d_b = test::random_values<T>(e.out, 6);
        auto two_w = d_w, two_b = d_b, bare = d_w;
        ops::linear_gradients<T>({}, {d_w.data(), d_b.data(), in.d_y.data(), in.x.data(), e.rows, e.in, e.out});
        ops::linear_gradients<T>({}, {bare.data(), nullptr, in.d_y.data(), in.x.data(), e.rows, e.in, e.out});
        ops::matmul<T>({}, {two_w.data(), in.d_y.data(), in.x.data(), e.out, e.in, e.rows, e.in, e.out, e.in,
                            Transpose::yes, Transpose::no, 1, 1});
        ops::bias_gradient<T>({}, {two_b.data(), in.d_y.data(), e.rows, e.out, e.out});
        EXPECT_TRUE(test::same_bits(d_w, two_w));
        EXPECT_TRUE(test::same_bits(bare, two_w));
        EXPECT_TRUE(test::same_bits(d_b, two_b));
    }
}

}  // namespace
}  // namespace ogrom
