// A linear layer in fp8: the products of its operands as fp8 has them, and how far they are from the layer itself.
#include "kernels/ops/linear_fp8.h"

#include <bit>
#include <cmath>

#include "kernels/ops/gelu.h"

#include "tests/kernels/support.h"

namespace ogrom {
namespace {

struct Extents {
    i64 rows, in, out;
};
constexpr Extents shapes[] = {{16, 16, 16}, {48, 32, 80}, {64, 96, 48}, {3, 5, 7}};

// Roundings of a sum of k terms, which do not cancel beyond their root.
template <class T>
double of_sum(i64 k) {
    return 2 * (1 + std::sqrt(static_cast<double>(k))) * test::roundoff<T>();
}

// x as its codes have it: rounded with the factor of the whole tensor.
template <class T>
std::vector<double> rounded(const std::vector<T>& x, Dtype type) {
    float largest = 0;
    for (const T one : x) {
        largest = std::max(largest, std::abs(static_cast<float>(one)));
    }
    const float factor = fp8_format(type).largest / largest, inverse = 1 / factor;
    std::vector<double> out;
    for (const T one : x) {
        out.push_back(static_cast<double>(from_fp8(to_fp8(static_cast<float>(one) * factor, type), type)) *
                      static_cast<double>(inverse));
    }
    return out;
}

// y[m,n] = sum_k a(i,k) b(j,k)
template <class A, class B>
std::vector<double> product(i64 m, i64 n, i64 k, const A& a, const B& b) {
    std::vector<double> y;
    for (i64 i = 0; i < m; ++i) {
        for (i64 j = 0; j < n; ++j) {
            double sum = 0;
            for (i64 l = 0; l < k; ++l) {
                sum += a(i, l) * b(j, l);
            }
            y.push_back(sum);
        }
    }
    return y;
}

template <class T>
class LinearFp8 : public ::testing::Test {};
TYPED_TEST_SUITE(LinearFp8, test::Precisions);

template <class T>
struct Layer {
    Extents e;
    std::vector<T> x = test::random_values<T>(e.rows * e.in, 1);
    std::vector<T> w = test::random_values<T>(e.out * e.in, 2, 0.1);
    std::vector<T> bias = test::random_values<T>(e.out, 3);
    std::vector<T> d_y = test::random_values<T>(e.rows * e.out, 4, 1e-4);
    std::vector<T> u = test::random_values<T>(e.rows * e.in, 5, 4);
    std::vector<unsigned char> memory = std::vector<unsigned char>(
        static_cast<std::size_t>(ops::linear_fp8_workspace(e.rows, e.in, e.out) + 256), 0xFF);
    ops::LinearFp8Scales scales{};

    void* workspace() {
        const auto start = std::bit_cast<std::uintptr_t>(memory.data());
        return memory.data() + (256 - start % 256) % 256;
    }
    void forward(T* y, T* u_out, const T* b) {
        ops::linear_fp8_forward<T>({}, {y, u_out, x.data(), w.data(), b, e.rows, e.in, e.out, workspace(), &scales});
    }
    void backward(T* d_x, T* d_w, T* d_b, const T* through) {
        ops::linear_fp8_backward<T>(
            {}, {d_x, d_w, d_b, d_y.data(), x.data(), w.data(), through, e.rows, e.in, e.out, workspace(), &scales});
    }
};

TYPED_TEST(LinearFp8, ForwardIsTheProductOfRoundedOperands) {
    using T = TypeParam;
    for (const Extents& e : shapes) {
        Layer<T> layer{e};
        const auto x = rounded(layer.x, Dtype::fp8_e4m3), w = rounded(layer.w, Dtype::fp8_e4m3);
        auto want = product(
            e.rows, e.out, e.in, [&](i64 i, i64 k) { return x[i * e.in + k]; },
            [&](i64 j, i64 k) { return w[j * e.in + k]; });
        auto y = test::poisoned<T>(e.rows * e.out), u = y, affine = y, gelu = y, again = y;
        layer.forward(y.data(), nullptr, nullptr);
        test::expect_near(y, want, of_sum<T>(e.in));
        for (i64 i = 0; i < e.rows * e.out; ++i) {
            want[i] += static_cast<double>(layer.bias[i % e.out]);
        }
        layer.forward(affine.data(), nullptr, layer.bias.data());
        layer.forward(gelu.data(), u.data(), layer.bias.data());
        test::expect_near(affine, want, of_sum<T>(e.in));
        EXPECT_TRUE(test::same_bits(u, affine));
        ops::gelu_forward<T>({}, {again.data(), u.data(), e.rows * e.out});
        EXPECT_TRUE(test::same_bits(gelu, again));
    }
}

TYPED_TEST(LinearFp8, BackwardIsTheProductsOfRoundedOperands) {
    using T = TypeParam;
    for (const Extents& e : shapes) {
        Layer<T> layer{e};
        auto y = test::poisoned<T>(e.rows * e.out), d_x = test::poisoned<T>(e.rows * e.in), d_u = d_x, gelu = d_x;
        layer.forward(y.data(), nullptr, nullptr);
        const auto start_w = test::random_values<T>(e.out * e.in, 6), start_b = test::random_values<T>(e.out, 7);
        auto d_w = start_w, d_b = start_b, apart_w = start_w, bare = start_w;
        layer.backward(d_x.data(), d_w.data(), d_b.data(), nullptr);

        const auto x = rounded(layer.x, Dtype::fp8_e4m3), w = rounded(layer.w, Dtype::fp8_e4m3),
                   d_y = rounded(layer.d_y, Dtype::fp8_e5m2);
        const auto want = product(
            e.rows, e.in, e.out, [&](i64 i, i64 k) { return d_y[i * e.out + k]; },
            [&](i64 j, i64 k) { return w[k * e.in + j]; });
        test::expect_near(d_x, want, of_sum<T>(e.out), 1e-4);
        auto want_w = product(
            e.out, e.in, e.rows, [&](i64 i, i64 k) { return d_y[k * e.out + i]; },
            [&](i64 j, i64 k) { return x[k * e.in + j]; });
        auto want_b = test::to_double(start_b);
        for (i64 i = 0; i < e.out * e.in; ++i) {
            want_w[i] += static_cast<double>(start_w[i]);
        }
        for (i64 i = 0; i < e.rows * e.out; ++i) {
            want_b[i % e.out] += static_cast<double>(layer.d_y[i]);  // not rounded
        }
        test::expect_near(d_w, want_w, of_sum<T>(e.rows));
        test::expect_near(d_b, want_b, of_sum<T>(e.rows));

        // One half at a time, and through a gelu.
        layer.backward(nullptr, apart_w.data(), nullptr, nullptr);
        EXPECT_TRUE(test::same_bits(apart_w, d_w));
        layer.backward(gelu.data(), nullptr, nullptr, nullptr);
        EXPECT_TRUE(test::same_bits(gelu, d_x));
        layer.backward(d_u.data(), bare.data(), nullptr, layer.u.data());
        ops::gelu_backward<T>({}, {gelu.data(), d_x.data(), layer.u.data(), e.rows * e.in});
        EXPECT_TRUE(test::same_bits(d_u, gelu));
        EXPECT_TRUE(test::same_bits(bare, d_w));
    }
}

// Relative error of a sum of n products whose factors are off by up to 2^-4 and 2^-3, evenly, of independent signs: a
// factor of the format's uniform rounding error, 2^-4 / sqrt(3) x 0.72 (mean over a binade), each; measured 0.027 and
// 0.045 of the root of the sum of squares.
TEST(LinearFp8Error, IsThatOfTheRoundings) {
    Layer<double> layer{{128, 256, 192}};
    auto y = test::poisoned<double>(128 * 192), d_x = test::poisoned<double>(128 * 256);
    layer.forward(y.data(), nullptr, nullptr);
    layer.backward(d_x.data(), nullptr, nullptr, nullptr);
    const auto share = [](const std::vector<double>& got, const std::vector<double>& want) {
        double error = 0, size = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
            error += (got[i] - want[i]) * (got[i] - want[i]);
            size += want[i] * want[i];
        }
        return std::sqrt(error / size);
    };
    const auto exact = product(
        128, 192, 256, [&](i64 i, i64 k) { return layer.x[i * 256 + k]; },
        [&](i64 j, i64 k) { return layer.w[j * 256 + k]; });
    const auto exact_d = product(
        128, 256, 192, [&](i64 i, i64 k) { return layer.d_y[i * 192 + k]; },
        [&](i64 j, i64 k) { return layer.w[k * 256 + j]; });
    EXPECT_GT(share(y, exact), 0.01);
    EXPECT_LT(share(y, exact), 0.05);
    EXPECT_GT(share(d_x, exact_d), 0.02);
    EXPECT_LT(share(d_x, exact_d), 0.08);
}

TEST(LinearFp8Shape, WantsMultiplesOf16) {
    EXPECT_TRUE(ops::linear_fp8_fits(16, 32, 48));
    EXPECT_FALSE(ops::linear_fp8_fits(8, 32, 48));
    EXPECT_FALSE(ops::linear_fp8_fits(16, 33, 48));
    EXPECT_FALSE(ops::linear_fp8_fits(16, 32, 40));
    EXPECT_FALSE(ops::linear_fp8_fits(0, 32, 48));
    EXPECT_GE(ops::linear_fp8_workspace(64, 32, 128), 2 * 64 * 128 + 128 * 32);
}

}  // namespace
}  // namespace ogrom
