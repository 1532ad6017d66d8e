// Extents past 2^31 and 2^32 elements at real size; each case skips where the memory is not there.
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/gelu.h"
#include "kernels/ops/optimizer.h"

#include "tests/device/support.cuh"

namespace ogrom::device_test {
namespace {

class DeviceLarge : public OnDevice {
protected:
    [[nodiscard]] static bool room(double bytes) {
        std::size_t free = 0, total = 0;
        ok(cudaMemGetInfo(&free, &total));
        return static_cast<double>(free) > bytes + 1e9;
    }
    // Repeats the first `period` elements of x[n].
    static void tile(float* x, i64 period, i64 n) {
        for (i64 have = period; have < n; have *= 2) {
            ok(cudaMemcpy(x + have, x, static_cast<std::size_t>(std::min(have, n - have)) * sizeof(float),
                          cudaMemcpyDeviceToDevice));
        }
        ok(cudaDeviceSynchronize());
    }
    static std::vector<float> part(const float* x, i64 first, i64 n) {
        std::vector<float> out(static_cast<std::size_t>(n));
        ok(cudaDeviceSynchronize());
        ok(cudaMemcpy(out.data(), x + first, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
        return out;
    }
};

// B11: 44,032 rows of 50,257 columns are 2.2e9 logits. Rows repeat with period 32, so the last row must give the bits
// of the row that stands at its place in the first period.
TEST_F(DeviceLarge, CrossEntropyBeyond31Bits) {
    constexpr i64 rows = 44032, columns = 50257, period = 32;
    if (!room(4.0 * rows * columns)) {
        GTEST_SKIP() << "needs 9 GB of device memory";
    }
    Array<float> logits(rows * columns);
    const auto first = fresh(period * columns, 9);
    ok(cudaMemcpy(logits.data(), first.data(), first.size() * sizeof(float), cudaMemcpyHostToDevice));
    tile(logits.data(), period * columns, rows * columns);
    std::vector<std::int32_t> to = fresh_integers(period, 0, columns), targets;
    for (i64 r = 0; r < rows; ++r) {
        targets.push_back(to[r % period]);
    }
    Array<std::int32_t> on_targets(targets);
    Array<double> loss(std::vector<double>{0, 0});
    Array<float> alone(first);
    const auto run = [&](float* z, i64 count, double* sum) {
        ops::cross_entropy<float>(
            gpu, {z, on_targets.data(), nullptr, count, columns, columns, columns, 0.5, ops::Gradient::in_place, sum});
    };
    run(logits.data(), rows, loss.data());
    run(alone.data(), period, loss.data() + 1);
    expect_same_bits("last period", part(logits.data(), (rows - period) * columns, period * columns), alone.host());
    const auto got = loss.host();
    EXPECT_NEAR(got[0], got[1] * (rows / period), 1e-12 * got[0]);
}

TEST_F(DeviceLarge, FlatOperationsBeyond32Bits) {
    constexpr i64 n = (i64{1} << 32) + 1027, period = 1 << 20;
    if (!room(12.0 * n)) {
        GTEST_SKIP() << "needs 52 GB of device memory";
    }
    Array<float> u(n), d(n), y(n);
    const auto u0 = fresh(period, 4), d0 = fresh(period);
    ok(cudaMemcpy(u.data(), u0.data(), u0.size() * sizeof(float), cudaMemcpyHostToDevice));
    ok(cudaMemcpy(d.data(), d0.data(), d0.size() * sizeof(float), cudaMemcpyHostToDevice));
    tile(u.data(), period, n);
    tile(d.data(), period, n);
    ops::gelu_backward<float>(gpu, {y.data(), d.data(), u.data(), n});
    expect_same_bits("gelu'", part(y.data(), n - 1027, 1024), part(y.data(), 0, 1024));
    ops::StepScalars s;
    s.lr = 0.1;
    ops::sgd<float>(gpu, {d.data(), nullptr, u.data(), n, s});
    const auto got = part(d.data(), n - 1027, 1024);
    for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i], d0[i] - 0.1F * u0[i], 1e-6);
    }
}

}  // namespace
}  // namespace ogrom::device_test
