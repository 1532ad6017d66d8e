#include "kernels/ops/weight_hash.h"

#include <bit>

#include "tests/kernels/support.h"

namespace ogrom {
namespace {

template <class T>
class WeightHashTest : public ::testing::Test {};
TYPED_TEST_SUITE(WeightHashTest, test::Precisions);

// Columns [3, 8) of rows [2, 2 + 2001) of a tensor of 11 columns: each element by its place in the tensor.
TYPED_TEST(WeightHashTest, CountsEachElementByItsPlaceInTheTensor) {
    constexpr i64 rows = 2001, columns = 5, whole = 11, row0 = 2, col0 = 3;
    const auto x = test::random_values<TypeParam>(rows * columns, 1);
    const u64 key = hash_tensor(7);
    u64 want = 0;
    for (i64 r = 0; r < rows; ++r) {
        for (i64 c = 0; c < columns; ++c) {
            const auto value = static_cast<float>(x[static_cast<std::size_t>(r * columns + c)]);
            want += mix(7, static_cast<u64>((row0 + r) * whole + col0 + c), value);
        }
    }
    const ops::HashRun<TypeParam> all{x.data(), 0, rows * columns, key, columns, whole, row0, col0};
    EXPECT_EQ(ops::weight_hash<TypeParam>(Stream{}, {&all, 1}), want);
    // Cut anywhere, the parts add up; an empty one adds nothing.
    std::vector<ops::HashRun<TypeParam>> parts(3, all);
    parts[0].last = parts[1].first = parts[1].last = parts[2].first = 4321;
    EXPECT_EQ(ops::weight_hash<TypeParam>(Stream{}, parts), want);
    EXPECT_EQ(ops::weight_hash<TypeParam>(Stream{}, {}), 0U);
    // Whole rows: the place is a count.
    const ops::HashRun<TypeParam> flat{x.data(), 5, 4000, key, columns, columns, row0, 0};
    u64 of_rows = 0;
    for (i64 i = 5; i < 4000; ++i) {
        of_rows += mix(7, static_cast<u64>(row0 * columns + i), static_cast<float>(x[static_cast<std::size_t>(i)]));
    }
    EXPECT_EQ(ops::weight_hash<TypeParam>(Stream{}, {&flat, 1}), of_rows);
}

}  // namespace
}  // namespace ogrom
