// Tensors and products in fp8 on a GPU against the CPU: codes and scales in their bits, products from the same codes in
// double, whole linear layers, and the search of their algorithms.
#include "kernels/ops/fp8.h"

#include <iostream>

#include "kernels/cuda/device.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/products.h"
#include "kernels/ops/linear_fp8.h"

#include "tests/device/support.cuh"

namespace ogrom::device_test {
namespace {

class DeviceFp8 : public OnDevice {
protected:
    void SetUp() override {
        OnDevice::SetUp();
        if (!IsSkipped()) {
            const cuda::Device& device = cuda::list_devices().devices.front();
            if (10 * device.major + device.minor < 89) {
                GTEST_SKIP() << "fp8 needs compute capability 8.9, " << device.name << " is older";
            }
        }
    }
};

constexpr Dtype formats[] = {Dtype::fp8_e4m3, Dtype::fp8_e5m2};

struct Shape {
    i64 rows, cols;
};

// What the CPU makes of x.
struct Expected {
    std::vector<Fp8Code> codes, transposed;
    Fp8Scale scale{};

    Expected(const std::vector<Bf16>& x, Shape s, Dtype format) : codes(x.size()), transposed(x.size()) {
        const auto numbers = values<float>(x);
        ops::quantise<float>({}, {codes.data(), transposed.data(), &scale, numbers.data(), s.rows, s.cols, format});
    }
};

enum class Copies { rows, columns, both };

void check_quantised(Stream gpu, const std::vector<Bf16>& x, Shape s, Dtype format, Copies copies, i64 shift,
                     bool with_sums) {
    SCOPED_TRACE(std::to_string(s.rows) + " x " + std::to_string(s.cols) + " copies " +
                 std::to_string(static_cast<int>(copies)) + " shift " + std::to_string(shift));
    const Expected want(x, s, format);
    const auto start = fresh(s.cols);
    auto want_sums = cast<double>(start);
    const auto x64 = values<double>(x);
    ops::bias_gradient<double>({}, {want_sums.data(), x64.data(), s.rows, s.cols, s.cols});
    Array<Bf16> on_x(x, shift);
    Array<Fp8Code> codes(s.rows * s.cols), transposed(s.rows * s.cols);
    Array<Fp8Scale> scale(1);
    Array<float> sums(start);
    ops::Quantise<Bf16> op{copies != Copies::columns ? codes.data() : nullptr,
                           copies != Copies::rows ? transposed.data() : nullptr,
                           scale.data(),
                           on_x.data(),
                           s.rows,
                           s.cols,
                           format};
    op.column_sums = with_sums ? sums.data() : nullptr;
    ops::quantise(gpu, op);
    const auto compare = [&] {
        const std::vector<Fp8Code> poison(x.size(), 0xFF);
        EXPECT_EQ(codes.host(), copies != Copies::columns ? want.codes : poison);
        EXPECT_EQ(transposed.host(), copies != Copies::rows ? want.transposed : poison);
        EXPECT_EQ(scale.host()[0].largest, want.scale.largest);
        EXPECT_EQ(scale.host()[0].inverse, want.scale.inverse);
    };
    compare();
    if (with_sums) {
        expect_close("sums", sums.host(), want_sums, 12 * roundoff<float>(),
                     std::sqrt(static_cast<double>(s.rows)) * 3);
    } else {
        expect_same_bits("sums not asked for", sums.host(), start);
    }
    op.largest = ops::Largest::given;
    op.column_sums = nullptr;
    ops::quantise(gpu, op);
    compare();
}

TEST_F(DeviceFp8, CodesAndScalesAreThoseOfTheCpu) {
    constexpr Shape shapes[] = {{1, 1},     {3, 5},     {16, 8},    {128, 128}, {16, 1032}, {129, 257},
                                {272, 520}, {144, 136}, {256, 640}, {1040, 72}, {48, 4096}};
    for (const Dtype format : formats) {
        for (const Shape& s : shapes) {
            const auto x = fresh_16<Bf16>(s.rows * s.cols, 3);
            for (const Copies copies : {Copies::rows, Copies::columns, Copies::both}) {
                for (const i64 shift : {0, 1}) {
                    check_quantised(gpu, x, s, format, copies, shift, copies == Copies::both);
                }
            }
        }
    }
}

// All 65,536 numbers of bf16 that are finite, by factors that are no powers of two.
TEST_F(DeviceFp8, EveryNumberIsRoundedAsOnTheCpu) {
    for (const float largest : {3.0e38F, 1.7F, 5.3e-4F, 1e-38F}) {
        std::vector<Bf16> x;
        for (u32 bits = 0; bits < 0x10000; ++bits) {
            Bf16 one;
            one.bits = static_cast<std::uint16_t>(bits);
            const float value = to_float(one);
            x.push_back(std::isfinite(value) && std::abs(value) <= largest ? one : to_bf16(0));
        }
        for (const Dtype format : formats) {
            check_quantised(gpu, x, {256, 256}, format, Copies::both, 0, false);
            check_quantised(gpu, x, {65536, 1}, format, Copies::both, 0, false);
        }
    }
}

TEST_F(DeviceFp8, ZerosStayAndANanIsSeen) {
    for (const Dtype format : formats) {
        check_quantised(gpu, std::vector<Bf16>(64 * 64, to_bf16(0)), {64, 64}, format, Copies::both, 0, true);
        for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
            for (const bool sums : {false, true}) {
                auto x = fresh_16<Bf16>(64 * 64);
                x[777] = to_bf16(-bad);
                Array<Bf16> on_x(x);
                Array<Fp8Code> codes(64 * 64);
                Array<Fp8Scale> scale(1);
                Array<float> columns(64);
                ops::quantise<Bf16>(gpu, {codes.data(), nullptr, scale.data(), on_x.data(), 64, 64, format,
                                          ops::Largest::measured, sums ? columns.data() : nullptr});
                EXPECT_TRUE(std::isnan(scale.host()[0].inverse));
                EXPECT_EQ(codes.host(), std::vector<Fp8Code>(64 * 64, 0x7F));
            }
        }
    }
}

// A matrix of the CPU's making, on both sides.
struct Operand {
    std::vector<Fp8Code> codes;
    Fp8Scale scale;
    Dtype format;
    Array<Fp8Code> on_codes;
    Array<Fp8Scale> on_scale;

    static Expected made(i64 rows, i64 cols, Dtype type, double size) {
        return {fresh_16<Bf16>(rows * cols, size), {rows, cols}, type};
    }
    Operand(i64 rows, i64 cols, Dtype type, double size) : Operand(made(rows, cols, type, size), type) {}
    Operand(const Expected& e, Dtype type)
        : codes(e.codes), scale(e.scale), format(type), on_codes(codes), on_scale(std::vector<Fp8Scale>{scale}) {}
    [[nodiscard]] ops::Fp8Matrix here() const { return {codes.data(), &scale, format}; }
    ops::Fp8Matrix there() { return {on_codes.data(), on_scale.data(), format}; }
};

// The operands are exact, what is left are the sums of k products of size 1, relative to a sum of size sqrt(k). A step
// of the tensor cores of sm_90 cuts 32 products and the partial sum towards zero, at 14 bits of the largest of them
// (rates of elements beyond a bound on an H200 are those of that model): 33 cuts of independent signs and the tails of
// the sums, 2^-12 a step, and steps add up. Fast: the partial sum is the whole one. Full: of 128 products, then added
// in fp32.
double sum_loss(ops::ProductSums sums, i64 k) {
    const double steps = 1 + static_cast<double>(k) / 32;
    const double shorter = sums == ops::ProductSums::full
                               ? std::sqrt(static_cast<double>(std::min<i64>(k, 128)) / static_cast<double>(k))
                               : 1;
    return steps * 0x1p-12 * shorter;
}

TEST_F(DeviceFp8, ProductsAreThoseOfTheCodes) {
    struct Extents {
        i64 m, n, k;
    };
    for (const Extents& e : {Extents{16, 16, 16}, {48, 80, 32}, {256, 144, 1040}, {512, 768, 4096}}) {
        for (const auto& [fa, fb] : {std::pair{Dtype::fp8_e4m3, Dtype::fp8_e4m3}, {Dtype::fp8_e5m2, Dtype::fp8_e4m3}}) {
            for (const ops::ProductSums sums : {ops::ProductSums::full, ops::ProductSums::fast}) {
                Operand a(e.m, e.k, fa, 3), b(e.n, e.k, fb, 0.25);
                const auto start = fresh(e.m * e.n);
                std::vector<double> want(static_cast<std::size_t>(e.m * e.n)), added = cast<double>(start);
                ops::fp8_matmul<double>(cpu, {want.data(), a.here(), b.here(), e.m, e.n, e.k});
                ops::fp8_matmul<double>(cpu, {added.data(), a.here(), b.here(), e.m, e.n, e.k, sums, 1});
                Array<Bf16> y(e.m * e.n), shifted(e.m * e.n, 1);
                Array<float> wide(e.m * e.n), sum(start), unaligned(start, 1);
                const auto call = [&](auto* to, float beta) {
                    using Y = std::remove_pointer_t<decltype(to)>;
                    ops::fp8_matmul<Y>(gpu, {to, a.there(), b.there(), e.m, e.n, e.k, sums, beta});
                };
                call(y.data(), 0);
                call(wide.data(), 0);
                call(sum.data(), 1);
                call(shifted.data(), 0);
                call(unaligned.data(), 1);
                const double size =
                    std::sqrt(static_cast<double>(e.k)) / 4;  // operands of 3 / sqrt(3) and 0.25 / sqrt(3)
                const double bound = sum_loss(sums, e.k);
                const std::string name = sums == ops::ProductSums::full ? "full" : "fast";
                expect_close(("bf16, " + name).c_str(), values<float>(y.host()), want, once<Bf16> + bound, size);
                expect_close(("fp32, " + name).c_str(), wide.host(), want, bound, size);
                expect_close(("added, " + name).c_str(), sum.host(), added, bound, size);
                expect_same_bits("unaligned", values<float>(shifted.host()), values<float>(y.host()));
                expect_close(("unaligned, " + name).c_str(), unaligned.host(), added, bound, size);
            }
        }
    }
}

struct LinearExtents {
    i64 rows, in, out;
};

struct Layer {
    LinearExtents e;
    std::vector<Bf16> x, w, bias, d_y, u;
    Array<Bf16> on_x, on_w, on_bias, on_d_y, on_u;
    Array<unsigned char> memory;
    Array<ops::LinearFp8Scales> scales{1};
    std::vector<double> host_memory;
    ops::LinearFp8Scales host_scales{};

    explicit Layer(const LinearExtents& extents)
        : e(extents),
          x(fresh_16<Bf16>(e.rows * e.in)),
          w(fresh_16<Bf16>(e.out * e.in, 0.25)),
          bias(fresh_16<Bf16>(e.out)),
          d_y(fresh_16<Bf16>(e.rows * e.out, 1e-3)),
          u(fresh_16<Bf16>(e.rows * e.in, 4)),
          on_x(x),
          on_w(w),
          on_bias(bias),
          on_d_y(d_y),
          on_u(u),
          memory(ops::linear_fp8_workspace(e.rows, e.in, e.out)),
          host_memory(static_cast<std::size_t>(ops::linear_fp8_workspace(e.rows, e.in, e.out) / 8 + 1)) {}

    void forward(Stream gpu, Bf16* y, Bf16* to_u, const Bf16* b, ops::Fusion fusion) {
        ops::linear_fp8_forward<Bf16>(
            gpu, {y, to_u, on_x.data(), on_w.data(), b, e.rows, e.in, e.out, memory.data(), scales.data(), fusion});
    }
    void backward(Stream gpu, Bf16* d_x, float* d_w, float* d_b, const Bf16* through, ops::Fusion fusion) {
        ops::linear_fp8_backward<Bf16>(gpu, {d_x, d_w, d_b, on_d_y.data(), on_x.data(), on_w.data(), through, e.rows,
                                             e.in, e.out, memory.data(), scales.data(), fusion});
    }
};

// u rounded twice at most, y once more; the sums as above, of products of size 1/4.
void check_forward(Stream gpu, Layer& l, ops::Fusion fusion) {
    const LinearExtents& e = l.e;
    const auto x = values<double>(l.x), w = values<double>(l.w), bias = values<double>(l.bias);
    std::vector<double> want_u(static_cast<std::size_t>(e.rows * e.out)), want_y = want_u, bare = want_u;
    ops::linear_fp8_forward<double>({}, {want_y.data(), want_u.data(), x.data(), w.data(), bias.data(), e.rows, e.in,
                                         e.out, l.host_memory.data(), &l.host_scales});
    ops::linear_fp8_forward<double>({}, {bare.data(), nullptr, x.data(), w.data(), nullptr, e.rows, e.in, e.out,
                                         l.host_memory.data(), &l.host_scales});
    Array<Bf16> y(e.rows * e.out), u(e.rows * e.out), affine(e.rows * e.out), plain(e.rows * e.out);
    l.forward(gpu, plain.data(), nullptr, nullptr, fusion);
    l.forward(gpu, affine.data(), nullptr, l.on_bias.data(), fusion);
    l.forward(gpu, y.data(), u.data(), l.on_bias.data(), fusion);
    const double root = std::sqrt(static_cast<double>(e.in)) / 4;
    expect_close("x w^T", values<float>(plain.host()), bare, 2 * once<Bf16>, root / 4);
    expect_close("x w^T + bias", values<float>(affine.host()), want_u, 3 * once<Bf16>, root / 2);
    expect_close("u", values<float>(u.host()), want_u, 3 * once<Bf16>, root / 2);
    expect_close("gelu(u)", values<float>(y.host()), want_y, 4 * once<Bf16>, root / 2);
}

void check_backward(Stream gpu, Layer& l, ops::Fusion fusion) {
    const LinearExtents& e = l.e;
    const auto x = values<double>(l.x), w = values<double>(l.w), d_y = values<double>(l.d_y), u = values<double>(l.u);
    const auto start_w = fresh(e.out * e.in), start_b = fresh(e.out);
    std::vector<double> want(static_cast<std::size_t>(e.rows * e.in)), want_u = want;
    auto want_w = cast<double>(start_w), want_b = cast<double>(start_b);
    const auto reference = [&](std::vector<double>& d_x, double* d_w, double* d_b, const double* through) {
        ops::linear_fp8_backward<double>({}, {d_x.data(), d_w, d_b, d_y.data(), x.data(), w.data(), through, e.rows,
                                              e.in, e.out, l.host_memory.data(), &l.host_scales});
    };
    reference(want, want_w.data(), want_b.data(), nullptr);
    reference(want_u, nullptr, nullptr, u.data());
    Array<Bf16> d_x(e.rows * e.in), d_u(e.rows * e.in), half(e.rows * e.in);
    Array<float> d_w(start_w), d_b(start_b), half_w(start_w);
    l.backward(gpu, d_x.data(), d_w.data(), d_b.data(), nullptr, fusion);
    l.backward(gpu, nullptr, half_w.data(), nullptr, nullptr, fusion);
    l.backward(gpu, half.data(), nullptr, nullptr, nullptr, fusion);
    l.backward(gpu, d_u.data(), nullptr, nullptr, l.on_u.data(), fusion);
    const double root_out = std::sqrt(static_cast<double>(e.out)) * 1e-3 / 4;
    expect_close("d_x", values<float>(d_x.host()), want, 2 * once<Bf16>, root_out / 4);
    expect_close("d_u", values<float>(d_u.host()), want_u, 3 * once<Bf16>, root_out / 2);
    // d_y of 1e-3 / sqrt(3) and x of 1 / sqrt(3), added to numbers below 1 in fp32.
    expect_close("d_w", d_w.host(), want_w,
                 sum_loss(ops::ProductSums::full, e.rows) * 1e-3 / 3 * std::sqrt(static_cast<double>(e.rows)) +
                     2 * roundoff<float>());
    expect_close("d_bias", d_b.host(), want_b, 12 * roundoff<float>(), 1);
    expect_same_bits("d_w apart", half_w.host(), d_w.host());
    expect_same_bits("d_x apart", values<float>(half.host()), values<float>(d_x.host()));
}

TEST_F(DeviceFp8, LinearLayersTogetherAndApart) {
    for (const LinearExtents& e : {LinearExtents{16, 16, 16}, {144, 64, 80}, {512, 768, 256}, {304, 256, 1040}}) {
        for (const ops::Fusion fusion : {ops::Fusion::allowed, ops::Fusion::never}) {
            Layer layer(e);
            check_forward(gpu, layer, fusion);
            check_backward(gpu, layer, fusion);
        }
    }
}

TEST_F(DeviceFp8, ANanReachesEveryResult) {
    Layer layer({64, 128, 96});
    layer.d_y[5] = to_bf16(std::nanf(""));
    Array<Bf16> d_y(layer.d_y), y(64 * 96), d_x(64 * 128);
    Array<float> d_w(std::vector<float>(96 * 128, 0));
    layer.forward(gpu, y.data(), nullptr, layer.on_bias.data(), ops::Fusion::allowed);
    ops::linear_fp8_backward<Bf16>(
        gpu, {d_x.data(), d_w.data(), nullptr, d_y.data(), layer.on_x.data(), layer.on_w.data(), nullptr, 64, 128, 96,
              layer.memory.data(), layer.scales.data()});
    for (const float one : values<float>(y.host())) {
        ASSERT_TRUE(std::isfinite(one));
    }
    for (const float one : d_w.host()) {
        ASSERT_TRUE(std::isnan(one));
    }
    for (const float one : values<float>(d_x.host())) {
        ASSERT_TRUE(std::isnan(one));
    }
}

TEST_F(DeviceFp8, TheSearchKeepsTheAnswersAndItsTextComesBack) {
    Layer layer({512, 272, 528});
    check_forward(gpu, layer, ops::Fusion::allowed);
    check_backward(gpu, layer, ops::Fusion::allowed);
    std::vector<cuda::ProductShape> shapes;
    for (const cuda::ProductShape& shape : cuda::products_used()) {
        if (is_fp8(shape.operands) && (shape.m == 512 || shape.k == 512)) {
            shapes.push_back(shape);
        }
    }
    ASSERT_GE(shapes.size(), 3U);
    const cuda::ProductSearch found = cuda::search_products(gpu, shapes, 20);
    EXPECT_EQ(found.left_out, 0);
    EXPECT_GE(found.products.size(), shapes.size());
    for (const cuda::ProductTime& one : found.products) {
        EXPECT_GT(one.best_seconds, 0);
        std::cout << "fp8 product " << one.shape.m << ' ' << one.shape.n << ' ' << one.shape.k << " epilogue "
                  << static_cast<int>(one.shape.epilogue) << ": first " << one.first_seconds * 1e6 << " us, best "
                  << one.best_seconds * 1e6 << " us of " << one.measured << (one.apart ? ", apart" : "") << '\n';
    }
    check_forward(gpu, layer, ops::Fusion::allowed);
    check_backward(gpu, layer, ops::Fusion::allowed);
    const std::string text = cuda::export_products(cuda::Choices::measured);
    EXPECT_NE(text.find("e4m3.e4m3 bf16 fast"), std::string::npos);
    EXPECT_NE(text.find("e5m2.e4m3 fp32 fp32"), std::string::npos);
    EXPECT_EQ(cuda::import_products(text, cuda::Taken::for_later).taken,
              std::count(text.begin(), text.end(), '\n') - 1);
    EXPECT_EQ(cuda::export_products(cuda::Choices::measured), text);
}

}  // namespace
}  // namespace ogrom::device_test
