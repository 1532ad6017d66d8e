#include "src/plan/rate.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>
#include <type_traits>

#include "kernels/ops/flat.h"
#include "kernels/ops/matmul.h"

#include "src/base/timer.h"
#include "src/device/arena.h"
#include "src/device/buffer.h"

namespace ogrom {

namespace {

struct Extents {
    i64 m, n, k;
};

template <class T>
Extents extents_of(const Device& device) {
    constexpr i64 large = std::is_same_v<T, double> ? 4096 : 8192;
    return device.is_gpu() ? Extents{large, large, large} : Extents{1024, 3072, 768};
}

}  // namespace

template <class T>
double measure_matmul_rate(const Device& device, Stream stream) {
    const auto [m, n, k] = extents_of<T>(device);
    constexpr double budget_s = 0.1;
    Ledger ledger;
    const i64 size = static_cast<i64>(sizeof(T));
    ledger.add("a", Tier::device, m * k * size, "m k");
    ledger.add("b", Tier::device, n * k * size, "n k");
    ledger.add("y", Tier::device, m * n * size, "m n");
    Arena arena(ledger, device);
    const std::span<T> y = arena.take<T>("y");
    ops::Matmul<T> op;
    op.y = y.data();
    const auto filled = [&](const char* line, float value) {
        const std::span<T> data = arena.take<T>(line);
        ops::fill(stream, data.data(), static_cast<T>(value), static_cast<i64>(data.size()));
        return data.data();
    };
    op.a = filled("a", 0.5F);
    op.b = filled("b", 0.25F);
    op.m = m;
    op.n = n;
    op.k = k;
    op.ldy = n;
    op.lda = k;
    op.ldb = k;
    op.transpose_b = ops::Transpose::yes;
    ops::matmul(stream, op);
    wait(stream);
    double best_s = 1e30;
    const Timer whole;
    for (int repetition = 0; repetition < 2 || whole.seconds() < budget_s; ++repetition) {
        const Timer timer;
        ops::matmul(stream, op);
        wait(stream);
        best_s = std::min(best_s, timer.seconds());
    }
    T first{};
    copy_bytes(stream, &first, y.data(), size);
    wait(stream);
    OGROM_ASSERT(static_cast<double>(static_cast<StatisticOf<T>>(first)) == 0.125 * static_cast<double>(k));
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / best_s;
}

double measure_matmul_rate(Dtype type, const Device& device, Stream stream) {
    switch (type) {
        case Dtype::fp64:
            return measure_matmul_rate<double>(device, stream);
        case Dtype::bf16:
            return measure_matmul_rate<Bf16>(device, stream);
        case Dtype::fp16:
            return measure_matmul_rate<Fp16>(device, stream);
        default:
            return measure_matmul_rate<float>(device, stream);
    }
}

CopyRates measure_copy_rates(const Device& device, Stream stream) {
    if (!device.is_gpu()) {
        return {};
    }
    constexpr i64 bytes = i64{256} << 20;
    constexpr double budget_s = 0.1;
    Ledger ledger;
    ledger.add("there", Tier::device, bytes, "256 MiB");
    ledger.add("here", Tier::host, bytes, "256 MiB");
    Arena arena(ledger, device);
    std::byte* const there = arena.take<std::byte>("there").data();
    std::byte* const here = arena.take<std::byte>("here").data();
    const auto best_rate = [&](void* to, const void* from) {
        copy_bytes(stream, to, from, bytes);
        wait(stream);
        double best_s = 1e30;
        const Timer whole;
        for (int repetition = 0; repetition < 2 || whole.seconds() < budget_s; ++repetition) {
            const Timer timer;
            copy_bytes(stream, to, from, bytes);
            wait(stream);
            best_s = std::min(best_s, timer.seconds());
        }
        return static_cast<double>(bytes) / best_s;
    };
    return {best_rate(there, here), best_rate(here, there)};
}

namespace {

double reduce_seconds(Communicator& dp, std::span<float> data, std::span<float> scratch, ReduceOrder order,
                      Stream stream) {
    double best = 1e30;
    for (int repetition = 0; repetition < 3; ++repetition) {
        dp.barrier("order cost").wait();
        const Timer timer;
        dp.all_reduce(data.data(), static_cast<i64>(data.size()), Dtype::fp32, ReduceOp::sum, order, scratch.data(),
                      "order cost")
            .wait();
        wait(stream);
        best = std::min(best, timer.seconds());
    }
    return best;
}

}  // namespace

std::string order_cost(Communicator& dp, i64 elements, const Device& device, Stream stream) {
    if (dp.size() == 1) {
        return {};
    }
    Ledger ledger;
    const i64 size = static_cast<i64>(sizeof(float));
    ledger.add("data", Tier::device, elements * size, "a bucket");
    ledger.add("scratch", Tier::device, fixed_order_scratch(elements, dp.size()) * size, "contributions");
    Arena arena(ledger, device);
    const std::span<float> data = arena.take<float>("data"), scratch = arena.take<float>("scratch");
    set_zero(stream, data);
    const double any = reduce_seconds(dp, data, scratch, ReduceOrder::any, stream);
    const double fixed = reduce_seconds(dp, data, scratch, ReduceOrder::fixed, stream);
    return fmt::format(
        "numerics.deterministic: a bucket takes {:.2f} ms in rank order, {:.2f} ms in any order ({:.2f}x)", fixed * 1e3,
        any * 1e3, fixed / any);
}

template double measure_matmul_rate<float>(const Device&, Stream);
template double measure_matmul_rate<double>(const Device&, Stream);
template double measure_matmul_rate<Bf16>(const Device&, Stream);
template double measure_matmul_rate<Fp16>(const Device&, Stream);

}  // namespace ogrom
