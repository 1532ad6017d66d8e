#include "kernels/ops/flat.h"

#include "tests/kernels/support.h"

namespace ogrom {
namespace {

template <class T>
class FlatTest : public ::testing::Test {};
TYPED_TEST_SUITE(FlatTest, test::Precisions);

TYPED_TEST(FlatTest, AddIsOneRoundedSum) {
    using T = TypeParam;
    for (const i64 n : {i64{0}, i64{1}, i64{17}, i64{8193}, i64{40001}}) {
        const auto x = test::random_values<T>(n, 1);
        const auto before = test::random_values<T>(n, 2);
        for (const int threads : {1, 3}) {
            const test::Threads scope(threads);
            auto y = before;
            y.push_back(T{7});  // a guard behind the range
            ops::add(Stream{}, y.data(), x.data(), n);
            for (i64 i = 0; i < n; ++i) {
                ASSERT_EQ(y[i], before[i] + x[i]) << i;
            }
            EXPECT_EQ(y[n], T{7});
        }
    }
}

TYPED_TEST(FlatTest, CopyKeepsEveryBit) {
    using T = TypeParam;
    for (const i64 n : {i64{0}, i64{1}, i64{17}, i64{8193}, i64{40001}}) {
        auto x = test::random_values<T>(n, 1);
        if (n > 1) {
            x[0] = -T{0};
            x[1] = std::numeric_limits<T>::quiet_NaN();
        }
        auto y = test::poisoned<T>(n + 1);
        y[n] = T{7};
        ops::copy(Stream{}, y.data(), x.data(), n);
        EXPECT_EQ(y[n], T{7});
        y.pop_back();
        EXPECT_TRUE(test::same_bits(y, x));
        ops::copy(Stream{}, y.data(), y.data(), n);
        EXPECT_TRUE(test::same_bits(y, x));
    }
}

}  // namespace
}  // namespace ogrom
