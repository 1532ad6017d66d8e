// An element's update has the same bits wherever the range that it belongs to begins and ends: shards of ranks are cut
// anywhere, and packs of 16 bytes, unaligned ranges and last elements are different code.
#include "kernels/ops/optimizer.h"

#include "tests/device/support.cuh"

namespace ogrom::device_test {
namespace {

template <class T>
class DeviceUpdateCuts : public OnDevice {
protected:
    using G = GradientOf<T>;
    static constexpr i64 n = 3001;

    struct State {
        std::vector<G> numbers, m, v;
    };
    static State start() {
        State s{cast<G>(fresh(n)), cast<G>(fresh(n)), cast<G>(fresh(n))};
        for (G& one : s.v) {
            one = one * one;
        }
        return s;
    }

    // Updates [0, n) as ranges that end at `cuts`.
    template <class Update>
    State run(const State& from, const std::vector<i64>& cuts, const Update& update) {
        Array<T> weight(n);
        Array<G> numbers(from.numbers), m(from.m), v(from.v);
        i64 first = 0;
        for (const i64 last : cuts) {
            if constexpr (std::is_same_v<T, G>) {
                update(numbers.data() + first, nullptr, m.data() + first, v.data() + first, first, last - first);
            } else {
                update(weight.data() + first, numbers.data() + first, m.data() + first, v.data() + first, first,
                       last - first);
            }
            first = last;
        }
        return {numbers.host(), m.host(), v.host()};
    }

    template <class Update>
    void expect_any_cut(const Update& update) {
        const State from = start();
        const State whole = run(from, {n}, update);
        for (const std::vector<i64>& cuts : {std::vector<i64>{1, n}, {3, 514, 1025, n}, {1000, 1002, 2999, n}}) {
            const State cut = run(from, cuts, update);
            expect_same_bits("weights", cut.numbers, whole.numbers);
            expect_same_bits("first moment", cut.m, whole.m);
            expect_same_bits("second moment", cut.v, whole.v);
        }
    }
};

using Types = ::testing::Types<float, double, Bf16, Fp16>;
TYPED_TEST_SUITE(DeviceUpdateCuts, Types);

ops::StepScalars scalars() {
    ops::StepScalars s;
    s.lr = 0.01;
    s.clip = 0.7;
    s.correction1 = 0.19;
    s.correction2 = 0.0975;
    return s;
}

TYPED_TEST(DeviceUpdateCuts, AdamW) {
    using Number = GradientOf<TypeParam>;
    Array<Number> gradient(cast<Number>(fresh(this->n)));
    this->expect_any_cut([&](TypeParam* weight, Number* master, Number* m, Number* v, i64 first, i64 count) {
        ops::AdamW<TypeParam> op{weight, m, v, gradient.data() + first, count, scalars(), 1, 0.1};
        op.master = master;
        ops::adamw<TypeParam>(this->gpu, op);
    });
}

TYPED_TEST(DeviceUpdateCuts, Sgd) {
    using Number = GradientOf<TypeParam>;
    Array<Number> gradient(cast<Number>(fresh(this->n)));
    this->expect_any_cut([&](TypeParam* weight, Number* master, Number* m, Number*, i64 first, i64 count) {
        ops::Sgd<TypeParam> op{weight, m, gradient.data() + first, count, scalars(), 1, 0.1};
        op.scalars.momentum = 0.9;
        op.master = master;
        ops::sgd<TypeParam>(this->gpu, op);
    });
}

}  // namespace
}  // namespace ogrom::device_test
