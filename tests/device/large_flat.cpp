// Flat operations past 2^32 elements (tests/device/large.cuh).
#include "kernels/common/exact_sum.h"
#include "kernels/ops/flat.h"
#include "kernels/ops/gelu.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/optimizer.h"

#include "tests/device/large.cuh"

namespace ogrom::device_test {
namespace {

constexpr i64 n = (i64{1} << 32) + 1027;
constexpr i64 period = 1'000'003;

class DeviceLargeFlat : public OnLargeDevice {
protected:
    template <class T>
    static void expect_all(const char* what, const T* x) {
        expect_flat_repeats(what, x, n, period);
    }
};

TEST_F(DeviceLargeFlat, Gelu) {
    if (lacks(6.0 * n)) {
        return;
    }
    Array<Bf16> u(n), d(n), y(n);
    repeat(u.data(), fresh_16<Bf16>(period, 4), n);
    repeat(d.data(), fresh_16<Bf16>(period), n);
    ops::gelu_forward<Bf16>(gpu, {y.data(), u.data(), n});
    expect_all("gelu", y.data());
    ok(cudaMemset(y.data(), 0xFF, n * sizeof(Bf16)));
    ops::gelu_backward<Bf16>(gpu, {y.data(), d.data(), u.data(), n});
    expect_all("gelu'", y.data());
}

TEST_F(DeviceLargeFlat, AddCopyFillCast) {
    if (lacks(4.0 * n + 4.0 * n)) {
        return;
    }
    Array<Bf16> x(n), y(n);
    Array<float> wide(n);
    repeat(x.data(), fresh_16<Bf16>(period), n);
    ops::copy<Bf16>(gpu, y.data(), x.data(), n);
    expect_all("copy", y.data());
    ops::cast<float, Bf16>(gpu, wide.data(), x.data(), n);
    expect_all("cast to float", wide.data());
    ops::add<float, Bf16>(gpu, wide.data(), x.data(), n);
    expect_all("add", wide.data());
    EXPECT_EQ(part(wide.data(), n - 1, 1)[0], 2 * to_float(part(x.data(), n - 1, 1)[0]));
    ok(cudaMemset(y.data(), 0xFF, n * sizeof(Bf16)));
    ops::cast<Bf16, float>(gpu, y.data(), wide.data(), n);
    expect_all("cast to bf16", y.data());
    ok(cudaMemset(y.data(), 0xFF, n * sizeof(Bf16)));
    ops::fill<Bf16>(gpu, y.data(), to_bf16(3.0F), n);
    expect_all("fill", y.data());
    EXPECT_EQ(to_float(part(y.data(), n - 1, 1)[0]), 3.0F);
}

TEST_F(DeviceLargeFlat, AdamWAndSgd) {
    if (lacks(2.0 * n + 16.0 * n)) {
        return;
    }
    Array<Bf16> weight(n);
    Array<float> master(n), m(n), v(n), gradient(n);
    const auto start = [&] {
        ok(cudaMemset(weight.data(), 0xFF, n * sizeof(Bf16)));
        repeat(master.data(), fresh(period), n);
        repeat(m.data(), fresh(period), n);
        repeat(v.data(), std::vector<float>(period, 0.3F), n);
        repeat(gradient.data(), fresh(period), n);
    };
    start();
    ops::StepScalars s;
    s.lr = 0.1;
    s.correction1 = 0.1;
    s.correction2 = 0.05;
    ops::AdamW<Bf16> adamw{weight.data(), m.data(), v.data(), gradient.data(), n, s, 1, 0.1};
    adamw.master = master.data();
    const float before = part(master.data(), n - 1, 1)[0];
    ops::adamw<Bf16>(gpu, adamw);
    expect_all("adamw weight", weight.data());
    expect_all("adamw master", master.data());
    expect_all("adamw m", m.data());
    expect_all("adamw v", v.data());
    EXPECT_NE(part(master.data(), n - 1, 1)[0], before);
    start();
    s.momentum = 0.9;
    ops::Sgd<Bf16> sgd{weight.data(), m.data(), gradient.data(), n, s};
    sgd.master = master.data();
    ops::sgd<Bf16>(gpu, sgd);
    expect_all("sgd weight", weight.data());
    expect_all("sgd master", master.data());
    expect_all("sgd m", m.data());
}

// Sums of exact numbers, with one element of each kind past each border.
TEST_F(DeviceLargeFlat, NormAndFinite) {
    if (lacks(4.0 * n)) {
        return;
    }
    Array<float> x(n);
    repeat(x.data(), {0.5F}, n);
    const auto set = [&](i64 at, float value) { ok(cudaMemcpy(x.data() + at, &value, 4, cudaMemcpyHostToDevice)); };
    set((i64{1} << 31) + 5, 3);
    set((i64{1} << 32) + 7, 5);
    set(n - 1, 4);
    const double want = 0.25 * static_cast<double>(n - 3) + 9 + 25 + 16;
    EXPECT_EQ(ops::sum_of_squares<float>(gpu, x.data(), n), want);
    Array<ExactSum> sum(1);
    ok(cudaMemset(sum.data(), 0, sizeof(ExactSum)));
    ops::block_squares<float>(gpu, x.data(), n, *sum.data());
    EXPECT_EQ(sum.host()[0].value(), want);
    EXPECT_TRUE(ops::all_finite<float>(gpu, x.data(), n));
    Array<u64> key(std::vector<u64>{0});
    ops::last_nonfinite<float>(gpu, key.data(), x.data(), n, 100);
    EXPECT_EQ(key.host()[0], 0U);
    set((i64{1} << 32) + 9, std::nanf(""));
    EXPECT_FALSE(ops::all_finite<float>(gpu, x.data(), n));
    ops::last_nonfinite<float>(gpu, key.data(), x.data(), n, 100);
    EXPECT_EQ(key.host()[0], 100U + 1 + (u64{1} << 32) + 9);
}

}  // namespace
}  // namespace ogrom::device_test
