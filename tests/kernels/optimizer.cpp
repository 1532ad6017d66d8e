#include "kernels/ops/optimizer.h"

#include "tests/kernels/support.h"
#include "tests/reference/optimizer.h"

namespace ogrom {
namespace {

template <class T>
class OptimizerTest : public ::testing::Test {};
TYPED_TEST_SUITE(OptimizerTest, test::Precisions);

ops::StepScalars scalars() {
    ops::StepScalars s;
    s.lr = 0.01;
    s.clip = 0.7;
    s.beta1 = 0.9;
    s.beta2 = 0.95;
    s.correction1 = 1 - 0.9 * 0.9 * 0.9;
    s.correction2 = 1 - 0.95 * 0.95 * 0.95;
    s.epsilon = 1e-8;
    s.momentum = 0.8;
    return s;
}

template <class T>
struct Tensors {
    std::vector<T> w, m, v, g;
    explicit Tensors(i64 n) : w(test::random_values<T>(n, 1)), m(test::random_values<T>(n, 2, 0.1)), v(), g() {
        v = test::random_values<T>(n, 3, 0.01);
        std::for_each(v.begin(), v.end(), [](T& x) { x = std::abs(x) + T{1e-4F}; });
        g = test::random_values<T>(n, 4);
    }
};

template <class T>
std::vector<std::vector<double>> wanted(const Tensors<T>& in, double lr_factor, double decay) {
    std::vector<std::vector<double>> out(3);
    for (std::size_t i = 0; i < in.w.size(); ++i) {
        const reference::State s =
            reference::adamw({static_cast<double>(in.w[i]), static_cast<double>(in.m[i]), static_cast<double>(in.v[i])},
                             static_cast<double>(in.g[i]), scalars(), lr_factor, decay);
        out[0].push_back(s.w);
        out[1].push_back(s.m);
        out[2].push_back(s.v);
    }
    return out;
}

TYPED_TEST(OptimizerTest, AdamwEqualsTheReference) {
    for (const i64 n : {i64{1}, i64{15}, i64{4097}, i64{50001}}) {
        for (const double decay : {0.0, 0.1}) {
            Tensors<TypeParam> in(n);
            const auto want = wanted(in, 0.5, decay);
            ops::adamw<TypeParam>({}, {in.w.data(), in.m.data(), in.v.data(), in.g.data(), n, scalars(), 0.5, decay});
            const double u = test::roundoff<TypeParam>();
            // w: 2 roundings of |w| < 1 and about 12 of the update, |lr update| < 0.005 * 10 (v >= 1e-4 beta2).
            test::expect_near(in.w, want[0], 3 * u);
            test::expect_near(in.m, want[1], 5 * u, 0.2);
            test::expect_near(in.v, want[2], 6 * u, 0.04);
        }
    }
}

// A zero gradient with zero moments leaves only the decoupled decay: w (1 - lr decay), moments stay 0.
TYPED_TEST(OptimizerTest, DecayIsDecoupledFromTheGradient) {
    std::vector<TypeParam> w{1, -2, 0.5};
    std::vector<TypeParam> m(3);
    std::vector<TypeParam> v(3);
    const std::vector<TypeParam> g(3);
    ops::adamw<TypeParam>({}, {w.data(), m.data(), v.data(), g.data(), 3, scalars(), 1, 0.1});
    test::expect_near(w, {0.999, -1.998, 0.4995}, 2 * test::roundoff<TypeParam>());
    EXPECT_EQ(m, g);
    EXPECT_EQ(v, g);
}

// Two steps by hand, b1 = b2 = 0, epsilon 0: the update is sign(g).
TYPED_TEST(OptimizerTest, WithoutMemoryTheStepIsTheSign) {
    ops::StepScalars s;
    s.lr = 0.25;
    s.beta1 = s.beta2 = 0;
    s.epsilon = 0;
    std::vector<TypeParam> w{1, 1};
    std::vector<TypeParam> m(2);
    std::vector<TypeParam> v(2);
    const std::vector<TypeParam> g{3, -0.5};
    for (int step = 0; step < 2; ++step) {
        ops::adamw<TypeParam>({}, {w.data(), m.data(), v.data(), g.data(), 2, s, 1, 0});
    }
    EXPECT_EQ(w, (std::vector<TypeParam>{0.5, 1.5}));
}

TYPED_TEST(OptimizerTest, SgdEqualsTheReference) {
    Tensors<TypeParam> in(10007);
    std::vector<double> want_w;
    std::vector<double> want_m;
    for (std::size_t i = 0; i < in.w.size(); ++i) {
        const auto s = reference::sgd({static_cast<double>(in.w[i]), static_cast<double>(in.m[i]), 0},
                                      static_cast<double>(in.g[i]), scalars(), 0.5, 0.1);
        want_w.push_back(s.w);
        want_m.push_back(s.m);
    }
    ops::sgd<TypeParam>({}, {in.w.data(), in.m.data(), in.g.data(), 10007, scalars(), 0.5, 0.1});
    test::expect_near(in.w, want_w, 3 * test::roundoff<TypeParam>());
    test::expect_near(in.m, want_m, 4 * test::roundoff<TypeParam>());
}

TYPED_TEST(OptimizerTest, SgdWithoutMomentumNeedsNoMemory) {
    std::vector<TypeParam> w{1, 2};
    const std::vector<TypeParam> g{4, -8};
    ops::StepScalars s;
    s.lr = 0.125;
    s.clip = 0.5;
    ops::sgd<TypeParam>({}, {w.data(), nullptr, g.data(), 2, s, 1, 0});
    EXPECT_EQ(w, (std::vector<TypeParam>{0.75, 2.5}));
    s.momentum = 0.5;
    EXPECT_THROW(ops::sgd<TypeParam>({}, {w.data(), nullptr, g.data(), 2, s, 1, 0}), Error);
}

TYPED_TEST(OptimizerTest, AnyCutAndNumberOfThreadsGivesTheSameBits) {
    Tensors<TypeParam> whole(40003);
    auto cut = whole;
    ops::adamw<TypeParam>({},
                          {whole.w.data(), whole.m.data(), whole.v.data(), whole.g.data(), 40003, scalars(), 1, 0.1});
    const test::Threads threads(3);
    for (const auto& [first, last] : {std::pair<i64, i64>{0, 13}, {13, 8191}, {8191, 40003}}) {
        ops::adamw<TypeParam>({}, {cut.w.data() + first, cut.m.data() + first, cut.v.data() + first,
                                   cut.g.data() + first, last - first, scalars(), 1, 0.1});
    }
    EXPECT_EQ(whole.w, cut.w);
    EXPECT_EQ(whole.m, cut.m);
    EXPECT_EQ(whole.v, cut.v);
}

// The scalars read where the kernel runs override the ones beside them.
TYPED_TEST(OptimizerTest, ScalarsByPointerGiveTheSameBits) {
    using T = TypeParam;
    const ops::StepScalars device = scalars();
    Tensors<T> by_value(1003);
    auto by_pointer = by_value;
    ops::adamw<T>({},
                  {by_value.w.data(), by_value.m.data(), by_value.v.data(), by_value.g.data(), 1003, device, 0.5, 0.1});
    ops::adamw<T>({}, {by_pointer.w.data(),
                       by_pointer.m.data(),
                       by_pointer.v.data(),
                       by_pointer.g.data(),
                       1003,
                       {},
                       0.5,
                       0.1,
                       &device});
    EXPECT_TRUE(test::same_bits(by_pointer.w, by_value.w));
    EXPECT_TRUE(test::same_bits(by_pointer.m, by_value.m));
    EXPECT_TRUE(test::same_bits(by_pointer.v, by_value.v));
    ops::sgd<T>({}, {by_value.w.data(), by_value.m.data(), by_value.g.data(), 1003, device, 0.5, 0.1});
    ops::sgd<T>({}, {by_pointer.w.data(), by_pointer.m.data(), by_pointer.g.data(), 1003, {}, 0.5, 0.1, &device});
    EXPECT_TRUE(test::same_bits(by_pointer.w, by_value.w));
    EXPECT_TRUE(test::same_bits(by_pointer.m, by_value.m));
}

// A skipped step touches nothing, even with a gradient and a clip factor that are not finite.
TYPED_TEST(OptimizerTest, ASkippedStepLeavesEverythingAlone) {
    using T = TypeParam;
    Tensors<T> t(1003);
    t.g = test::poisoned<T>(1003);
    const Tensors<T> before = t;
    ops::StepScalars s = scalars();
    s.clip = std::numeric_limits<double>::quiet_NaN();
    s.skip = 1;
    ops::adamw<T>({}, {t.w.data(), t.m.data(), t.v.data(), t.g.data(), 1003, s, 1, 0.1});
    ops::adamw<T>({}, {t.w.data(), t.m.data(), t.v.data(), t.g.data(), 1003, scalars(), 1, 0.1, &s});
    ops::sgd<T>({}, {t.w.data(), t.m.data(), t.g.data(), 1003, s, 1, 0.1});
    ops::sgd<T>({}, {t.w.data(), t.m.data(), t.g.data(), 1003, scalars(), 1, 0.1, &s});
    EXPECT_TRUE(test::same_bits(t.w, before.w));
    EXPECT_TRUE(test::same_bits(t.m, before.m));
    EXPECT_TRUE(test::same_bits(t.v, before.v));
}

}  // namespace
}  // namespace ogrom
