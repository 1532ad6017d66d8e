// Products of 16 bits with sums in float, the passes that cublasLt takes in, TF32, the search and its text; against the
// CPU in double from the same rounded inputs.
#include "kernels/cuda/products.h"

#include <algorithm>
#include <iostream>
#include <sstream>

#include "kernels/common/error.h"
#include "kernels/ops/gelu.h"
#include "kernels/ops/linear.h"

#include "tests/device/support.cuh"

namespace ogrom::device_test {
namespace {

using ops::Transpose;

class DeviceProducts : public OnDevice {};
template <class S>
class Device16BitProducts : public OnDeviceTyped<S> {};
TYPED_TEST_SUITE(Device16BitProducts, Bits16);

template <class S>
std::vector<float> host_of(Array<S>& x) {
    return values<float>(x.host());
}

struct Extents {
    i64 m, n, k;
};

// Partial sums of k products of at most 1 have size sqrt(k / 9); the tensor cores cut, not round, their addends at
// about 2^-23 of the largest, so that errors add up: up to 2^-20 was seen at k = 512.
constexpr double sum_tolerance = 0x1p-18;

TYPED_TEST(Device16BitProducts, EveryTransposeStrideBetaAndResult) {
    using S = TypeParam;
    constexpr Extents shapes[] = {{1, 1, 1}, {3, 5, 7}, {64, 48, 136}, {129, 513, 64}, {255, 257, 1025}, {7, 9, 0}};
    for (const Extents& e : shapes) {
        for (int kind = 0; kind < 16; ++kind) {
            const Transpose ta = (kind & 1) != 0 ? Transpose::yes : Transpose::no;
            const Transpose tb = (kind & 2) != 0 ? Transpose::yes : Transpose::no;
            const i64 pad = (kind & 4) != 0 ? 3 : 0;
            const float beta = (kind & 8) != 0 ? 1.0F : 0.0F;
            const i64 lda = (ta == Transpose::yes ? e.m : e.k) + pad, ldb = (tb == Transpose::yes ? e.k : e.n) + pad;
            const i64 ldy = e.n + pad;
            const auto a = fresh_16<S>((ta == Transpose::yes ? e.k : e.m) * lda);
            const auto b = fresh_16<S>((tb == Transpose::yes ? e.n : e.k) * ldb);
            auto y = fresh_16<S>(e.m * ldy);
            const auto a64 = values<double>(a), b64 = values<double>(b);
            auto want = values<double>(y);
            ops::matmul<double>(this->cpu, {want.data(), a64.data(), b64.data(), e.m, e.n, e.k, ldy, lda, ldb, ta, tb,
                                            0.75, static_cast<double>(beta)});
            for (i64 i = 0; i < e.m && beta == 0; ++i) {
                std::fill_n(&y[i * ldy], e.n, S(std::nanf("")));
            }
            Array<S> on_a(a), on_b(b), on_y(y);
            Array<float> wide(values<float>(y));
            ops::matmul<S>(this->gpu,
                           {on_y.data(), on_a.data(), on_b.data(), e.m, e.n, e.k, ldy, lda, ldb, ta, tb, 0.75F, beta});
            ops::matmul<S, float>(
                this->gpu, {wide.data(), on_a.data(), on_b.data(), e.m, e.n, e.k, ldy, lda, ldb, ta, tb, 0.75F, beta});
            const double root = std::sqrt(static_cast<double>(e.k) + 1);
            // Beside beta the library may round the product first, then the sum.
            if (beta == 0) {
                expect_close("y", host_of(on_y), want, once<S>, floor_of<S>(root * 1e-3));
            } else {
                expect_close("y added to", host_of(on_y), want, 2 * once<S>, root / 3 + 1);
            }
            expect_close("y in float", wide.host(), want, sum_tolerance, root);
        }
    }
}

// 4096 additions of 2^-14 to a gradient of 1: each is lost in 16 bits, none in float.
TYPED_TEST(Device16BitProducts, SmallContributionsDoNotVanish) {
    using S = TypeParam;
    Array<S> a(std::vector<S>(64, S(0x1p-14F))), b(std::vector<S>(64, S(1.0F / 8)));
    Array<float> y(std::vector<float>(64, 1.0F));
    for (int i = 0; i < 4096; ++i) {
        ops::matmul<S, float>(this->gpu,
                              {y.data(), a.data(), b.data(), 8, 8, 8, 8, 8, 8, Transpose::yes, Transpose::no, 1, 1});
    }
    expect_same_bits("y", y.host(), std::vector<float>(64, 1.25F));
}

TYPED_TEST(Device16BitProducts, BiasGradientAddsInFloat) {
    using S = TypeParam;
    for (const i64 cols : {1, 6, 64, 515, 2304}) {
        for (const i64 rows : {1, 63, 1025, 4099}) {
            for (const i64 pad : {0, 8, 5}) {
                const i64 ldy = cols + pad;
                const auto d_y = fresh_16<S>(rows * ldy);
                const auto start = fresh(cols), d_y_floats = values<float>(d_y);
                const auto d_y64 = values<double>(d_y);
                auto want = cast<double>(start);
                ops::bias_gradient<double>(this->cpu, {want.data(), d_y64.data(), rows, cols, ldy});
                Array<S> on_d_y(d_y);
                Array<float> got(start), again(start);
                ops::bias_gradient<S>(this->gpu, {got.data(), on_d_y.data(), rows, cols, ldy});
                ops::bias_gradient<S>(this->gpu, {again.data(), on_d_y.data(), rows, cols, ldy});
                expect_close("bias", got.host(), want, 12 * roundoff<float>(), std::sqrt(static_cast<double>(rows)));
                expect_same_bits("again", again.host(), got.host());
            }
        }
    }
}

// rows of 8 take the library's epilogues, the others and Fusion::never the separate passes.
struct LinearExtents {
    i64 rows, in, out;
};
constexpr LinearExtents linears[] = {{7, 9, 5}, {129, 64, 72}, {512, 768, 256}, {300, 256, 1032}};

template <class S>
struct LinearCase {
    i64 rows, in, out;
    ops::Fusion fusion;
    std::vector<S> x, w, bias, d_y, u;
    double root_in, root_out;

    LinearCase(const LinearExtents& e, ops::Fusion how)
        : rows(e.rows),
          in(e.in),
          out(e.out),
          fusion(how),
          x(fresh_16<S>(rows * in)),
          w(fresh_16<S>(out * in)),
          bias(fresh_16<S>(out)),
          d_y(fresh_16<S>(rows * out)),
          u(fresh_16<S>(rows * in, 4)),
          root_in(std::sqrt(static_cast<double>(in))),
          root_out(std::sqrt(static_cast<double>(out))) {}
};

// u: rounded once, or twice where the pass is apart, then also against the product, which may be 1 larger. gelu(u): the
// slope of up to 1.13 carries u's roundings.
template <class S>
void check_forward(Stream gpu, Stream cpu, const LinearCase<S>& c) {
    const auto x = values<double>(c.x), w = values<double>(c.w), bias = values<double>(c.bias);
    std::vector<double> want_u(static_cast<std::size_t>(c.rows * c.out)), want_y = want_u;
    ops::linear_bias_gelu<double>(cpu,
                                  {want_y.data(), want_u.data(), x.data(), w.data(), bias.data(), c.rows, c.in, c.out});
    Array<S> on_x(c.x), on_w(c.w), on_bias(c.bias);
    Array<S> y(c.rows * c.out), affine(c.rows * c.out), u(c.rows * c.out), again(c.rows * c.out);
    ops::linear_bias<S>(gpu, {affine.data(), on_x.data(), on_w.data(), on_bias.data(), c.rows, c.in, c.out, c.fusion});
    ops::linear_bias_gelu<S>(
        gpu, {y.data(), u.data(), on_x.data(), on_w.data(), on_bias.data(), c.rows, c.in, c.out, c.fusion});
    expect_close("x w^T + bias", host_of(affine), want_u, 3 * once<S>, c.root_in / 8);
    expect_close("u", host_of(u), want_u, 3 * once<S>, c.root_in / 8);
    expect_close("gelu(u)", host_of(y), want_y, 4 * once<S>, c.root_in / 8);
    ops::gelu_forward<S>(gpu, {again.data(), u.data(), c.rows * c.out});
    if (c.fusion == ops::Fusion::never) {
        expect_same_bits("gelu of the kept u", host_of(again), host_of(y));
    } else {
        expect_close("gelu of the kept u", host_of(again), host_of(y), 3 * once<S>, c.root_in / 8);
    }
}

template <class S>
void check_backward(Stream gpu, Stream cpu, const LinearCase<S>& c) {
    const auto x = values<double>(c.x), w = values<double>(c.w), d_y = values<double>(c.d_y), u = values<double>(c.u);
    const auto start_w = fresh(c.out * c.in), start_b = fresh(c.out);
    std::vector<double> want(static_cast<std::size_t>(c.rows * c.in));
    auto want_w = cast<double>(start_w), want_b = cast<double>(start_b);
    ops::linear_input_gelu<double>(cpu, {want.data(), d_y.data(), w.data(), u.data(), c.rows, c.in, c.out});
    ops::linear_gradients<double>(cpu, {want_w.data(), want_b.data(), d_y.data(), x.data(), c.rows, c.in, c.out});
    Array<S> on_x(c.x), on_w(c.w), on_d_y(c.d_y), on_u(c.u), d_u(c.rows * c.in);
    Array<float> d_w(start_w), d_b(start_b), bare(start_w);
    ops::linear_input_gelu<S>(gpu,
                              {d_u.data(), on_d_y.data(), on_w.data(), on_u.data(), c.rows, c.in, c.out, c.fusion});
    ops::linear_gradients<S>(gpu, {d_w.data(), d_b.data(), on_d_y.data(), on_x.data(), c.rows, c.in, c.out, c.fusion});
    ops::linear_gradients<S>(gpu, {bare.data(), nullptr, on_d_y.data(), on_x.data(), c.rows, c.in, c.out, c.fusion});
    const double root = std::sqrt(static_cast<double>(c.rows));
    expect_close("d_u", host_of(d_u), want, 2 * once<S>, c.root_out / 8);
    expect_close("d_w", d_w.host(), want_w, sum_tolerance, root);
    expect_close("d_w without bias", bare.host(), want_w, sum_tolerance, root);
    expect_close("d_bias", d_b.host(), want_b, sum_tolerance / 8, root);  // exact addends
}

TYPED_TEST(Device16BitProducts, LinearLayersTogetherAndApart) {
    using S = TypeParam;
    for (const LinearExtents& e : linears) {
        for (const ops::Fusion fusion : {ops::Fusion::allowed, ops::Fusion::never}) {
            const LinearCase<S> c(e, fusion);
            check_forward(this->gpu, this->cpu, c);
            check_backward(this->gpu, this->cpu, c);
        }
    }
}

// fp32 holds 2 sqrt(k) roundings of 2^-24; TF32 rounds each factor by up to 2^-11 and must be seen to.
TEST_F(DeviceProducts, Tf32IsAskedForAndTakenBack) {
    constexpr i64 m = 130, n = 260, k = 513;
    const auto a = fresh(m * k), b = fresh(n * k);
    const auto a64 = cast<double>(a), b64 = cast<double>(b);
    std::vector<double> want(static_cast<std::size_t>(m * n));
    ops::matmul<double>(cpu,
                        {want.data(), a64.data(), b64.data(), m, n, k, n, k, k, Transpose::no, Transpose::yes, 1, 0});
    Array<float> on_a(a), on_b(b), y(m * n);
    const auto worst = [&](cuda::FloatProducts how) {
        cuda::set_float_products(how);
        ops::matmul<float>(gpu,
                           {y.data(), on_a.data(), on_b.data(), m, n, k, n, k, k, Transpose::no, Transpose::yes, 1, 0});
        const auto got = y.host();
        double most = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
            most = std::max(most, std::abs(static_cast<double>(got[i]) - want[i]));
        }
        return most;
    };
    const double root = std::sqrt(static_cast<double>(k));
    EXPECT_LT(worst(cuda::FloatProducts::fp32), 2 * root * root * 0x1p-24);
    const double rounded = worst(cuda::FloatProducts::tf32);
    EXPECT_GT(rounded, 2 * root * root * 0x1p-24);
    EXPECT_LT(rounded, 4 * root * 0x1p-11);
    EXPECT_LT(worst(cuda::FloatProducts::fp32), 2 * root * root * 0x1p-24);
}

i64 lines_in(const std::string& text) {
    return std::count(text.begin(), text.end(), '\n') - 1;  // behind the first
}

std::string lines_of(const std::string& text, const std::string& with) {
    std::istringstream in(text);
    std::string line, found;
    while (std::getline(in, line)) {
        found += line.find(with) == std::string::npos ? "" : line + "\n";
    }
    return found;
}

TYPED_TEST(Device16BitProducts, TheSearchKeepsTheAnswersAndItsTextComesBack) {
    using S = TypeParam;
    const LinearCase<S> c({512, 264, 520}, ops::Fusion::allowed);
    check_forward(this->gpu, this->cpu, c);
    check_backward(this->gpu, this->cpu, c);
    std::vector<cuda::ProductShape> shapes;
    for (const cuda::ProductShape& shape : cuda::products_used()) {
        if (shape.operands == dtype_of<S>() && (shape.m == 512 || shape.k == 512)) {
            shapes.push_back(shape);
        }
    }
    ASSERT_GE(shapes.size(), 4U);  // three epilogues and the plain weight gradient at least
    const cuda::ProductSearch found = cuda::search_products(this->gpu, shapes, 20);
    EXPECT_EQ(found.left_out, 0);
    EXPECT_GE(found.products.size(), shapes.size());
    for (const cuda::ProductTime& one : found.products) {
        EXPECT_GT(one.best_seconds, 0);
        EXPECT_GE(one.measured, 1);
        std::cout << "product " << one.shape.m << ' ' << one.shape.n << ' ' << one.shape.k << " epilogue "
                  << static_cast<int>(one.shape.epilogue) << ": first " << one.first_seconds * 1e6 << " us, best "
                  << one.best_seconds * 1e6 << " us of " << one.measured << (one.apart ? ", apart" : "") << '\n';
    }
    check_forward(this->gpu, this->cpu, c);
    check_backward(this->gpu, this->cpu, c);
    const cuda::ProductSearch again = cuda::search_products(this->gpu, shapes, 20);
    EXPECT_TRUE(again.products.empty());
    EXPECT_EQ(again.settled, static_cast<i64>(shapes.size()));

    const std::string text = cuda::export_products(cuda::Choices::measured);
    EXPECT_NE(text.find(cuda::products_key()), std::string::npos);
    const i64 lines = lines_in(text);
    EXPECT_GE(lines, static_cast<i64>(shapes.size()));
    EXPECT_EQ(cuda::import_products(text, cuda::Taken::for_later).taken, lines);
    EXPECT_EQ(cuda::export_products(cuda::Choices::measured), text);
    const std::string other = "ogrom-products 1 | another device, cublasLt 1\nwhatever it says\n";
    EXPECT_EQ(cuda::import_products(other, cuda::Taken::for_later).taken, 0);
    EXPECT_EQ(cuda::import_products(other + text + other, cuda::Taken::for_later).taken, lines);
    EXPECT_THROW(cuda::import_products("nonsense", cuda::Taken::for_later), Error);
    EXPECT_THROW(cuda::import_products(text.substr(0, text.size() - 40), cuda::Taken::for_later), Error);
    check_forward(this->gpu, this->cpu, c);
}

// What a checkpoint keeps: every product made, the library's first choices too, which no later search changes.
TEST_F(DeviceProducts, WhatWasUsedGoesOutAndIsSettledOnceItComesIn) {
    const LinearCase<Bf16> c({336, 72, 136}, ops::Fusion::allowed);
    check_forward(gpu, cpu, c);
    std::vector<cuda::ProductShape> shapes;
    for (const cuda::ProductShape& shape : cuda::products_used()) {
        if (shape.m == 336) {
            shapes.push_back(shape);
        }
    }
    ASSERT_FALSE(shapes.empty());
    const std::string used = cuda::export_products(cuda::Choices::used);
    EXPECT_EQ(lines_in(used), static_cast<i64>(cuda::products_used().size()));
    const std::string mine = lines_of(used, " 336 72 136 ") + lines_of(used, " 336 136 72 ");
    EXPECT_GE(lines_in("head\n" + mine), static_cast<i64>(shapes.size()));
    EXPECT_EQ(lines_of(cuda::export_products(cuda::Choices::measured), " 336 "), "");
    const std::string head = used.substr(0, used.find('\n') + 1);
    EXPECT_GT(cuda::import_products(head + mine, cuda::Taken::as_used).taken, 0);
    const cuda::ProductSearch search = cuda::search_products(gpu, shapes, 20);
    EXPECT_TRUE(search.products.empty());
    EXPECT_EQ(search.settled, static_cast<i64>(shapes.size()));
    EXPECT_EQ(cuda::export_products(cuda::Choices::used), used);
}

}  // namespace
}  // namespace ogrom::device_test
