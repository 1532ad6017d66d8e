// The type Bf16 against its definition, and the CPU's way with it: moved and converted, never computed.
#include "kernels/common/bf16.h"

#include <bit>
#include <cmath>

#include "kernels/common/dtype.h"
#include "kernels/ops/flat.h"
#include "kernels/ops/layernorm.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/optimizer.h"

#include "tests/kernels/support.h"

namespace ogrom {
namespace {

Bf16 of_bits(u32 bits) {
    Bf16 out;
    out.bits = static_cast<std::uint16_t>(bits);
    return out;
}

TEST(Bf16Type, EveryNumberComesBack) {
    for (u32 bits = 0; bits < 0x10000; ++bits) {
        const float value = to_float(of_bits(bits));
        EXPECT_EQ(std::isnan(value), (bits & 0x7FFF) > 0x7F80) << bits;
        const Bf16 back = to_bf16(value);
        // A signalling NaN becomes quiet.
        EXPECT_EQ(back.bits, std::isnan(value) ? bits | 0x40 : bits);
    }
    EXPECT_EQ(dtype_of<Bf16>(), Dtype::bf16);
    EXPECT_EQ(size_of(Dtype::bf16), static_cast<i64>(sizeof(Bf16)));
}

// Between each pair of neighbours: the middle goes to the even one, what lies beside it to the nearer one.
TEST(Bf16Type, RoundsToTheNearestTiesToEven) {
    for (u32 low = 0; low < 0x7F80; ++low) {
        for (const u32 sign : {0U, 0x80000000U}) {
            const u32 middle = (low << 16) | 0x8000U | sign;
            const u32 even = (low & 1) == 0 ? low : low + 1;  // above the largest finite number: Inf
            const auto rounded = [](u32 bits) { return u32{to_bf16(std::bit_cast<float>(bits)).bits}; };
            ASSERT_EQ(rounded(middle), even | sign >> 16) << low;
            ASSERT_EQ(rounded(middle - 1), low | sign >> 16) << low;
            ASSERT_EQ(rounded(middle + 1), (low + 1) | sign >> 16) << low;
        }
    }
}

// Through float the double just above a tie would become the tie, and then the even neighbour below.
TEST(Bf16Type, ADoubleIsRoundedOnce) {
    const double tie = 1.0 + std::ldexp(1.0, -8);
    const auto cast = [](double x) {
        Bf16 y{};
        ops::cast(Stream{}, &y, &x, 1);
        return to_float(y);
    };
    EXPECT_EQ(cast(tie), 1.0F);
    EXPECT_EQ(cast(tie + std::ldexp(1.0, -50)), 1.0F + std::ldexp(1.0F, -7));
    EXPECT_EQ(cast(-tie - std::ldexp(1.0, -50)), -1.0F - std::ldexp(1.0F, -7));
    EXPECT_EQ(cast(3 * tie), 3 + std::ldexp(1.0F, -6));
    EXPECT_EQ(cast(3 * tie - std::ldexp(1.0, -50)), 3 + std::ldexp(1.0F, -6));
    EXPECT_EQ(cast(1e300), std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(cast(std::nan(""))));
    EXPECT_EQ(cast(0.0), 0.0F);
}

// Refused by name, with nothing written.
TEST(Bf16OnTheCpu, IsRefused) {
    std::vector<Bf16> x(16, Bf16(1.0F)), y(16, Bf16(7.0F));
    std::vector<float> f(16, 7.0F);
    const auto refused = [](const auto& call, const std::string& name) {
        try {
            call();
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            EXPECT_EQ(std::string(error.what()), name + ": bf16 needs a GPU");
            return;
        }
        ADD_FAILURE() << name << " was not refused";
    };
    refused([&] { ops::matmul<Bf16>({}, {y.data(), x.data(), x.data(), 4, 4, 4, 4, 4, 4}); }, "matmul");
    refused([&] { ops::matmul<Bf16, float>({}, {f.data(), x.data(), x.data(), 4, 4, 4, 4, 4, 4}); }, "matmul");
    refused(
        [&] {
            ops::layernorm_forward<Bf16>({}, {y.data(), nullptr, nullptr, x.data(), x.data(), nullptr, 4, 4, 1e-5});
        },
        "layernorm_forward");
    refused([&] { ops::linear_bias<Bf16>({}, {y.data(), x.data(), x.data(), x.data(), 4, 4, 4}); }, "matmul");
    ops::AdamW<Bf16> update{y.data(), f.data(), f.data(), f.data(), 16, {}};
    refused([&] { ops::adamw({}, update); }, "adamw");
    EXPECT_EQ(to_float(y[3]), 7.0F);
    EXPECT_EQ(f[3], 7.0F);
}

}  // namespace
}  // namespace ogrom
