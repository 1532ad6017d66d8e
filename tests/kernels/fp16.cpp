// The type Fp16 against its definition, and the CPU's way with it: moved and converted, never computed.
#include "kernels/common/fp16.h"

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/common/dtype.h"
#include "kernels/ops/flat.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/optimizer.h"

#include "tests/kernels/support.h"

namespace ogrom {
namespace {

Fp16 of_bits(u32 bits) {
    Fp16 out;
    out.bits = static_cast<std::uint16_t>(bits);
    return out;
}

// What the standard says a code stands for.
double meaning(u32 bits) {
    const int exponent = static_cast<int>(bits >> 10 & 0x1F), fraction = static_cast<int>(bits & 0x3FF);
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31) {
        return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
    }
    return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

TEST(Fp16Type, EveryCodeMeansItsNumberAndComesBack) {
    for (u32 bits = 0; bits < 0x10000; ++bits) {
        const float value = to_float(of_bits(bits));
        const double want = meaning(bits);
        ASSERT_EQ(std::isnan(value), std::isnan(want)) << bits;
        ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
        ASSERT_TRUE(std::isnan(want) || static_cast<double>(value) == want) << bits;
        // A signalling NaN becomes quiet.
        ASSERT_EQ(to_fp16(value).bits, std::isnan(value) ? bits | 0x200 : bits);
    }
    EXPECT_EQ(dtype_of<Fp16>(), Dtype::fp16);
    EXPECT_EQ(size_of(Dtype::fp16), static_cast<i64>(sizeof(Fp16)));
}

// Between each pair of neighbours, subnormal ones too: the middle goes to the even one, the floats beside it to the
// nearer one. Behind the largest finite number stands Inf, as if it were 2^16.
TEST(Fp16Type, RoundsToTheNearestTiesToEven) {
    const auto magnitude = [](u32 code) { return code == 0x7C00 ? 65536.0 : meaning(code); };
    for (u32 low = 0; low < 0x7C00; ++low) {
        const auto middle = static_cast<float>((magnitude(low) + magnitude(low + 1)) / 2);  // exact
        const u32 even = (low & 1) == 0 ? low : low + 1;
        for (const float sign : {1.0F, -1.0F}) {
            const u32 bit = sign < 0 ? 0x8000 : 0;
            const auto rounded = [&](float x) { return u32{to_fp16(sign * x).bits}; };
            ASSERT_EQ(rounded(middle), even | bit) << low;
            ASSERT_EQ(rounded(std::nextafter(middle, 0.0F)), low | bit) << low;
            ASSERT_EQ(rounded(std::nextafter(middle, 1e9F)), (low + 1) | bit) << low;
        }
    }
    EXPECT_EQ(to_fp16(1e30F).bits, 0x7C00);
    EXPECT_EQ(to_fp16(std::numeric_limits<float>::denorm_min()).bits, 0);
}

// Through float the double just above a tie would become the tie, and then the even neighbour below.
TEST(Fp16Type, ADoubleIsRoundedOnce) {
    const auto cast = [](double x) {
        Fp16 y{};
        ops::cast(Stream{}, &y, &x, 1);
        return to_float(y);
    };
    for (const double unit : {1.0, std::ldexp(1.0, -14), std::ldexp(1.0, 10)}) {
        const double tie = unit * (1 + std::ldexp(1.0, -11)), bit = unit * std::ldexp(1.0, -50);
        EXPECT_EQ(cast(tie), unit);
        EXPECT_EQ(cast(tie + bit), unit * (1 + std::ldexp(1.0, -10)));
        EXPECT_EQ(cast(-tie - bit), -unit * (1 + std::ldexp(1.0, -10)));
    }
    EXPECT_EQ(cast(std::ldexp(1.0, -25)), 0.0F);
    EXPECT_EQ(cast(std::ldexp(1.0, -25) + std::ldexp(1.0, -70)), std::ldexp(1.0F, -24));
    EXPECT_EQ(cast(65519.999), 65504.0F);
    EXPECT_EQ(cast(65520.0), std::numeric_limits<float>::infinity());
    EXPECT_EQ(cast(-1e300), -std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(cast(std::nan(""))));
}

// Refused by name, with nothing written.
TEST(Fp16OnTheCpu, IsRefused) {
    std::vector<Fp16> x(16, Fp16(1.0F)), y(16, Fp16(7.0F));
    std::vector<float> f(16, 7.0F);
    const auto refused = [](const auto& call, const std::string& name) {
        try {
            call();
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            EXPECT_EQ(std::string(error.what()), name + ": fp16 needs a GPU");
            return;
        }
        ADD_FAILURE() << name << " was not refused";
    };
    refused([&] { ops::matmul<Fp16>({}, {y.data(), x.data(), x.data(), 4, 4, 4, 4, 4, 4}); }, "matmul");
    refused([&] { ops::matmul<Fp16, float>({}, {f.data(), x.data(), x.data(), 4, 4, 4, 4, 4, 4}); }, "matmul");
    refused([&] { ops::linear_bias<Fp16>({}, {y.data(), x.data(), x.data(), x.data(), 4, 4, 4}); }, "matmul");
    ops::AdamW<Fp16> update{y.data(), f.data(), f.data(), f.data(), 16, {}};
    refused([&] { ops::adamw({}, update); }, "adamw");
    EXPECT_EQ(to_float(y[3]), 7.0F);
    EXPECT_EQ(f[3], 7.0F);
}

}  // namespace
}  // namespace ogrom
