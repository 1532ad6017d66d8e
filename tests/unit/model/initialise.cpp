// Initial weights and weight hash by global index: equal under every layout and thread count, padding left out.
#include <cmath>
#include <gtest/gtest.h>
#include <omp.h>

#include "tests/unit/model/tiny.h"

namespace ogrom::test {
namespace {

constexpr u64 seed = 42;

struct Flat {
    explicit Flat(const ModelConfig& model, const StageSpan& span)
        : table(make_parameters(model, Dtype::fp32)),
          layout(table, span),
          values(static_cast<std::size_t>(layout.size()), std::numeric_limits<float>::quiet_NaN()) {
        initialise<float>(values, layout, seed);
    }
    [[nodiscard]] std::span<const float> of(std::string_view name) const {
        const LocalTensor& tensor = layout.tensor(name);
        return std::span(values).subspan(static_cast<std::size_t>(tensor.offset),
                                         static_cast<std::size_t>(tensor.count));
    }
    [[nodiscard]] u64 hash() const { return weight_hash<float>(values, layout); }
    ParameterTable table;
    ParameterLayout layout;
    std::vector<float> values;
};

TEST(Initialise, ValuesAreNormalByTensorAndIndex) {
    const ModelConfig model = tiny_config();
    const Flat flat(model, whole(model));
    for (const LocalTensor& tensor : flat.layout.tensors()) {
        const Parameter& row = *tensor.parameter;
        const std::span<const float> values = flat.of(row.name);
        for (i64 i = 0; i < row.count(); ++i) {
            const double normal = normal_at(seed, static_cast<u32>(row.id), static_cast<u64>(i));
            const double expected = row.initial == Initial::normal ? row.initial_std * normal
                                    : row.initial == Initial::ones ? 1.0
                                                                   : 0.0;
            ASSERT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(expected)) << row.name << " " << i;
        }
    }
}

TEST(Initialise, PaddingIsZero) {
    const ModelConfig model = tiny_config();
    const Flat flat(model, whole(model));
    const std::span<const float> token = flat.of("embedding.token.weight");
    ASSERT_EQ(token.size(), 40U * 15U);
    for (std::size_t i = 37 * 15; i < token.size(); ++i) {
        EXPECT_EQ(token[i], 0.0F);
    }
}

TEST(Initialise, StandardDeviationIsTheTables) {
    ModelConfig model = tiny_config();
    model.vocab = 4001;
    model.padded_vocab = 4032;
    const Flat flat(model, whole(model));
    const std::span<const float> all = flat.of("embedding.token.weight").first(4001 * 15);
    double mean = 0;
    for (const float value : all) {
        mean += value;
    }
    mean /= static_cast<double>(all.size());
    const double n = static_cast<double>(all.size());
    const double std = norm_of(all) / std::sqrt(n);
    EXPECT_LT(std::abs(mean), 5 * 0.3 / std::sqrt(n));             // five standard errors of the mean
    EXPECT_LT(std::abs(std - 0.3), 5 * 0.3 / std::sqrt(2.0 * n));  // and of the deviation
}

TEST(Initialise, AStageHoldsTheValuesOfTheWholeModel) {
    ModelConfig model = tiny_config();
    model.tied = false;
    const Flat all(model, whole(model));
    const Flat last(model, {.stage = 1, .first_layer = 1, .last_layer = 2, .embeds = false, .heads = true});
    ASSERT_EQ(last.layout.tensors().size(), 16U + 3U);
    for (const LocalTensor& tensor : last.layout.tensors()) {
        const std::span<const float> mine = last.of(tensor.parameter->name);
        const std::span<const float> whole_tensor = all.of(tensor.parameter->name);
        EXPECT_TRUE(std::equal(mine.begin(), mine.end(), whole_tensor.begin(), whole_tensor.end()))
            << tensor.parameter->name;
    }
}

TEST(Initialise, NumberOfThreadsDoesNotMatter) {
    ModelConfig model = tiny_config();
    model.vocab = 4001;
    model.padded_vocab = 4032;
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    const Flat one(model, whole(model));
    const u64 hash_one = one.hash();
    omp_set_num_threads(3);
    const Flat three(model, whole(model));
    const u64 hash_three = three.hash();
    omp_set_num_threads(threads);
    EXPECT_EQ(one.values, three.values);
    EXPECT_EQ(hash_one, hash_three);
}

TEST(WeightHash, IsTheSumOverStages) {
    ModelConfig model = tiny_config();
    model.tied = false;
    const Flat all(model, whole(model));
    const Flat first(model, {.stage = 0, .first_layer = 0, .last_layer = 1, .embeds = true, .heads = false});
    const Flat last(model, {.stage = 1, .first_layer = 1, .last_layer = 2, .embeds = false, .heads = true});
    EXPECT_EQ(all.hash(), first.hash() + last.hash());
}

TEST(WeightHash, SeesABitAnExchangeAndNotThePadding) {
    const ModelConfig model = tiny_config();
    Flat flat(model, whole(model));
    const u64 before = flat.hash();
    std::swap(flat.values[3], flat.values[4]);
    EXPECT_NE(flat.hash(), before);
    std::swap(flat.values[3], flat.values[4]);
    flat.values[7] = std::nextafter(flat.values[7], 10.0F);
    EXPECT_NE(flat.hash(), before);
    flat.values[7] = std::nextafter(flat.values[7], -10.0F);
    EXPECT_EQ(flat.hash(), before);
    flat.values[37 * 15] = 5;  // first padding element of the token table
    EXPECT_EQ(flat.hash(), before);
}

TEST(WeightHash, OfFp64IsThatOfTheSameValuesInFp32) {
    const ModelConfig model = tiny_config();
    const Flat flat(model, whole(model));
    const std::vector<double> doubles(flat.values.begin(), flat.values.end());
    EXPECT_EQ(weight_hash<double>(doubles, flat.layout), flat.hash());
}

}  // namespace
}  // namespace ogrom::test
