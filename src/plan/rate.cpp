#include "src/plan/rate.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "kernels/ops/matmul.h"

#include "src/base/timer.h"
#include "src/device/arena.h"

namespace ogrom {

template <class T>
double measure_matmul_rate(Stream stream) {
    constexpr i64 m = 1024;
    constexpr i64 n = 3072;
    constexpr i64 k = 768;
    constexpr double budget_s = 0.1;
    Ledger ledger;
    const i64 size = static_cast<i64>(sizeof(T));
    ledger.add("a", Tier::device, m * k * size, "m k");
    ledger.add("b", Tier::device, n * k * size, "n k");
    ledger.add("y", Tier::device, m * n * size, "m n");
    Arena arena(ledger);
    const std::span<T> a = arena.take<T>("a");
    const std::span<T> b = arena.take<T>("b");
    const std::span<T> y = arena.take<T>("y");
    std::fill(a.begin(), a.end(), T(0.5));
    std::fill(b.begin(), b.end(), T(0.25));
    ops::Matmul<T> op;
    op.y = y.data();
    op.a = a.data();
    op.b = b.data();
    op.m = m;
    op.n = n;
    op.k = k;
    op.ldy = n;
    op.lda = k;
    op.ldb = k;
    op.transpose_b = ops::Transpose::yes;
    ops::matmul(stream, op);
    double best_s = 1e30;
    const Timer whole;
    for (int repetition = 0; repetition < 2 || whole.seconds() < budget_s; ++repetition) {
        const Timer timer;
        ops::matmul(stream, op);
        best_s = std::min(best_s, timer.seconds());
    }
    OGROM_ASSERT(y[0] == T(0.125 * k));
    return 2.0 * m * n * k / best_s;
}

namespace {

double reduce_seconds(Communicator& dp, std::vector<float>& data, std::vector<float>& scratch, ReduceOrder order) {
    double best = 1e30;
    for (int repetition = 0; repetition < 3; ++repetition) {
        dp.barrier("order cost").wait();
        const Timer timer;
        dp.all_reduce(data.data(), static_cast<i64>(data.size()), Dtype::fp32, ReduceOp::sum, order, scratch.data(),
                      "order cost")
            .wait();
        best = std::min(best, timer.seconds());
    }
    return best;
}

}  // namespace

std::string order_cost(Communicator& dp, i64 elements) {
    if (dp.size() == 1) {
        return {};
    }
    std::vector<float> data(static_cast<std::size_t>(elements));
    std::vector<float> scratch(static_cast<std::size_t>(fixed_order_scratch(elements, dp.size())));
    const double any = reduce_seconds(dp, data, scratch, ReduceOrder::any);
    const double fixed = reduce_seconds(dp, data, scratch, ReduceOrder::fixed);
    return fmt::format(
        "numerics.deterministic: a bucket takes {:.2f} ms in rank order, {:.2f} ms in any order ({:.2f}x)", fixed * 1e3,
        any * 1e3, fixed / any);
}

template double measure_matmul_rate<float>(Stream);
template double measure_matmul_rate<double>(Stream);

}  // namespace ogrom
