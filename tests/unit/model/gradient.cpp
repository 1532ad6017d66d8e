// Gradients of the whole model against central differences in fp64, for every tensor of every variant.
#include <gtest/gtest.h>
#include <omp.h>

#include "tests/unit/model/tiny.h"

namespace ogrom::test {
namespace {

struct Variant {
    const char* name;
    void (*change)(ModelConfig&);
    i64 mask_every = 5;
    i64 segment_length = 0;  // 0: one segment
};
void PrintTo(const Variant& variant, std::ostream* out) {
    *out << variant.name;
}

std::vector<Batch> batches_of(const ModelConfig& model, const Variant& variant) {
    std::vector<Batch> batches = {make_batch(model, 0, 2, model.sequence, variant.mask_every),
                                  make_batch(model, 2, 2, model.sequence, variant.mask_every)};
    for (Batch& batch : batches) {
        for (i64 i = 0; variant.segment_length > 0 && i < batch.B * batch.T; ++i) {
            batch.segments.push_back(static_cast<std::int32_t>(i % batch.T / variant.segment_length));
        }
    }
    return batches;
}

// Logical elements of a tensor worth a difference: the largest gradient, the first, the last and one between.
std::vector<i64> elements_of(const LocalTensor& tensor, std::span<const double> gradients) {
    const i64 count = tensor.parameter->count();
    i64 largest = 0;
    for (i64 i = 0; i < count; ++i) {
        const auto at = [&](i64 e) { return std::abs(gradients[static_cast<std::size_t>(tensor.offset + e)]); };
        largest = at(i) > at(largest) ? i : largest;
    }
    return {largest, 0, count - 1, count * 2 / 3};
}

// One thread: hundreds of tiny passes, in which starting threads would take most of the time.
class WholeModel : public testing::TestWithParam<Variant> {
protected:
    WholeModel() { omp_set_num_threads(1); }
    ~WholeModel() override { omp_set_num_threads(threads_); }

private:
    int threads_ = omp_get_max_threads();
};

// Central difference with h = 1e-5 at a loss of about 4: rounding eps 4 / h = 1e-10, truncation h^2 f''' / 6 = 1e-11
// times third derivatives of up to a hundred, 1e-9 together; hence 3e-9 absolute, against gradients of 1e-3 to 1.
TEST_P(WholeModel, GradientIsTheDifferenceQuotient) {
    const Variant& variant = GetParam();
    ModelConfig config = tiny_config();
    variant.change(config);
    TinyModel<double> tiny(config, {.micro_batch = 2, .sequence = 11, .logits_rows = 7, .threads = 2});
    const std::vector<Batch> batches = batches_of(config, variant);
    const double scale = 1.0 / static_cast<double>(unmasked(batches));
    tiny.step(batches, scale);
    const std::vector<double> gradients = tiny.gradient_copy();
    constexpr double h = 1e-5;
    for (const LocalTensor& tensor : tiny.layout.tensors()) {
        double largest = 0;
        for (const i64 element : elements_of(tensor, gradients)) {
            const auto at = static_cast<std::size_t>(tensor.offset + element);
            double& weight = tiny.weights[at];
            const double kept = weight;
            weight = kept + h;
            const double above = tiny.step(batches, scale);
            weight = kept - h;
            const double below = tiny.step(batches, scale);
            weight = kept;
            const double quotient = (above - below) * scale / (2 * h);
            ASSERT_TRUE(std::isfinite(gradients[at]));
            EXPECT_NEAR(gradients[at], quotient, 3e-9) << tensor.parameter->name << " element " << element;
            largest = std::max(largest, std::abs(gradients[at]));
        }
        // Every tensor must matter, else the comparison says nothing; a key bias shifts all scores of a query alike.
        const bool key_bias = tensor.parameter->name.find("key.bias") != std::string::npos;
        EXPECT_TRUE(key_bias || largest > 1e-5) << tensor.parameter->name << " " << largest;
    }
}

INSTANTIATE_TEST_SUITE_P(Variants, WholeModel,
                         testing::Values(Variant{"tied", [](ModelConfig&) {}},
                                         Variant{"untied", [](ModelConfig& m) { m.tied = false; }},
                                         Variant{"no_bias", [](ModelConfig& m) { m.bias = false; }},
                                         Variant{"dropout",
                                                 [](ModelConfig& m) {
                                                     m.dropout_embedding = 0.1;
                                                     m.dropout_attention = 0.2;
                                                     m.dropout_residual = 0.3;
                                                 }},
                                         Variant{"segments", [](ModelConfig&) {}, 5, 4},
                                         Variant{"grouped_keys", [](ModelConfig& m) { m.kv_heads = 1; }},
                                         Variant{"free_head_size",
                                                 [](ModelConfig& m) {
                                                     m.heads = m.kv_heads = 2;
                                                     m.head_dim = 9;
                                                 }},
                                         Variant{"one_layer_one_head",
                                                 [](ModelConfig& m) {
                                                     m.layers = 1;
                                                     m.heads = m.kv_heads = 1;
                                                     m.head_dim = 15;
                                                 }}),
                         [](const testing::TestParamInfo<Variant>& variant) {
                             return std::string(variant.param.name);
                         });

}  // namespace
}  // namespace ogrom::test
