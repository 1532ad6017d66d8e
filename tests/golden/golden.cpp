// The whole model, its gradients and 20 AdamW steps against PyTorch (make_golden.py): same initial weights, same data,
// accumulation of two unequal micro-batches, clipping, warm-up and cosine. Tied and untied head, fp32 and fp64.
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/ops/norm.h"
#include "kernels/ops/optimizer.h"

#include "src/device/arena.h"
#include "src/model/parameters.h"
#include "src/model/stage.h"
#include "src/optim/learning_rate.h"
#include "src/pipeline/execute.h"

namespace ogrom::test {
namespace {

// Recorded values of one run of make_golden.py.
struct Golden {
    explicit Golden(const std::string& name) {
        const std::string stem = std::string(OGROM_GOLDEN_DIR) + "/" + name;
        std::ifstream(stem + ".json") >> json;
        i64 elements = 0;
        for (const nlohmann::json& tensor : json.at("tensors")) {
            i64 count = 1;
            for (const i64 extent : tensor.at("shape")) {
                count *= extent;
            }
            names.push_back(tensor.at("name"));
            counts.push_back(count);
            elements += count;
        }
        values.resize(static_cast<std::size_t>(3 * elements));
        std::ifstream file(stem + ".bin", std::ios::binary);
        file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
        OGROM_ASSERT(file.good());
    }
    enum class Part { initial, gradient, trained };
    [[nodiscard]] std::span<const float> tensor(Part part, std::size_t index) const {
        const i64 elements = static_cast<i64>(values.size()) / 3;
        const i64 before = std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(index), i64{0});
        return std::span(values).subspan(static_cast<std::size_t>(static_cast<i64>(part) * elements + before),
                                         static_cast<std::size_t>(counts[index]));
    }
    [[nodiscard]] std::vector<double> series(const std::string& name) const { return json.at(name); }
    [[nodiscard]] i64 integer(const char* name) const { return json.at(name); }

    nlohmann::json json;
    std::vector<std::string> names;
    std::vector<i64> counts;
    std::vector<float> values;
};

ModelConfig model_of(const Golden& golden) {
    const nlohmann::json& json = golden.json.at("model");
    ModelConfig model;
    model.layers = json.at("layers");
    model.hidden = json.at("hidden");
    model.heads = model.kv_heads = json.at("heads");
    model.head_dim = model.hidden / model.heads;
    model.ffn_hidden = json.at("ffn_hidden");
    model.vocab = json.at("vocab");
    model.padded_vocab = json.at("padded_vocab");
    model.sequence = json.at("sequence");
    model.norm_epsilon = json.at("norm_epsilon");
    model.tied = golden.json.at("tied");
    return model;
}

OptimizerConfig optimizer_of(const Golden& golden) {
    const nlohmann::json& json = golden.json.at("optimizer");
    OptimizerConfig optimizer;
    optimizer.lr = json.at("lr");
    optimizer.min_lr = json.at("min_lr");
    optimizer.warmup_steps = json.at("warmup_steps");
    optimizer.decay_steps = json.at("decay_steps");
    optimizer.beta1 = json.at("beta1");
    optimizer.beta2 = json.at("beta2");
    optimizer.epsilon = json.at("epsilon");
    optimizer.weight_decay = json.at("weight_decay");
    optimizer.clip_norm = json.at("clip_norm");
    return optimizer;
}

std::vector<Batch> batches_of(const Golden& golden, i64 step) {
    std::vector<Batch> batches;
    const i64 accumulation = golden.integer("accumulation");
    for (i64 m = 0; m < accumulation; ++m) {
        const auto at = static_cast<std::size_t>(step * accumulation + m);
        Batch batch;
        batch.B = golden.integer("micro_batch");
        batch.T = golden.integer("T");
        batch.tokens = golden.json.at("tokens")[at].get<std::vector<std::int32_t>>();
        batch.targets = golden.json.at("targets")[at].get<std::vector<std::int32_t>>();
        batch.loss_mask = golden.json.at("mask")[at].get<std::vector<std::uint8_t>>();
        for (i64 i = 0; i < batch.B * batch.T; ++i) {
            batch.positions.push_back(static_cast<std::int32_t>(i % batch.T));
        }
        for (i64 b = 0; b < batch.B; ++b) {
            batch.sample.push_back(m * batch.B + b);
            batch.sample_id.push_back((step * accumulation + m) * batch.B + b);
        }
        batch.unmasked = std::accumulate(batch.loss_mask.begin(), batch.loss_mask.end(), i64{0});
        batches.push_back(std::move(batch));
    }
    return batches;
}

template <class T>
class Run {
public:
    explicit Run(const Golden& golden)
        : golden_(golden),
          model_(model_of(golden)),
          optimizer_(optimizer_of(golden)),
          span_{.first_layer = 0, .last_layer = model_.layers},
          table_(make_parameters(model_, dtype_of<T>())),
          layout_(table_, span_) {
        const StageExtents extents{.micro_batch = 2, .sequence = golden.integer("T"), .logits_rows = 16, .threads = 2};
        Ledger ledger;
        for (const char* name : {"weights", "gradients", "moment1", "moment2"}) {
            ledger.add(name, Tier::device, layout_.size() * size_of(dtype_of<T>()), "P");
        }
        Stage<T>::declare(ledger, model_, span_, extents);
        arena_ = std::make_unique<Arena>(ledger);
        const auto take = [&](const char* name) {
            return arena_->take<T>(name).first(static_cast<std::size_t>(layout_.size()));
        };
        weights = take("weights");
        gradients = take("gradients");
        m_ = take("moment1");
        v_ = take("moment2");
        for (const std::span<T> state : {weights, m_, v_}) {
            std::fill(state.begin(), state.end(), T(0));
        }
        for (std::size_t i = 0; i < golden.names.size(); ++i) {
            const std::span<const float> initial = golden.tensor(Golden::Part::initial, i);
            EXPECT_EQ(layout_.tensor(golden.names[i]).parameter->count(), static_cast<i64>(initial.size()));
            std::copy(initial.begin(), initial.end(), of(weights, i).begin());
        }
        EXPECT_EQ(golden.names.size(), layout_.tensors().size());
        stage_ = std::make_unique<Stage<T>>(model_, span_, extents, layout_, *arena_, weights, gradients, StageHooks{});
    }

    // Logical elements of tensor `index` of the golden file in one of the flat buffers.
    [[nodiscard]] std::span<T> of(std::span<T> flat, std::size_t index) const {
        const LocalTensor& tensor = layout_.tensor(golden_.names[index]);
        return flat.subspan(static_cast<std::size_t>(tensor.offset),
                            static_cast<std::size_t>(tensor.parameter->count()));
    }
    struct Step {
        double loss, norm;
    };
    // Loss and gradient of the step's micro-batches; the mean over the unmasked targets of both.
    Step gradient_of(i64 step) {
        const std::vector<Batch> batches = batches_of(golden_, step);
        const double count = static_cast<double>(batches[0].unmasked + batches[1].unmasked);
        std::fill(gradients.begin(), gradients.end(), T(0));
        const double sum = execute<T>({}, *stage_, make_schedule(1, 0, 2), batches,
                                      {.loss_scale = 1 / count, .seed = 1, .step = step}, {});
        return {sum / count, std::sqrt(ops::sum_of_squares<T>({}, gradients.data(), layout_.size()))};
    }
    void update(i64 step, double norm) {
        ops::StepScalars scalars;
        scalars.lr = learning_rate(optimizer_, golden_.integer("steps"), step);
        EXPECT_NEAR(scalars.lr, golden_.series("lr")[static_cast<std::size_t>(step)], 1e-15);
        scalars.clip = std::min(1.0, optimizer_.clip_norm / norm);
        scalars.beta1 = optimizer_.beta1;
        scalars.beta2 = optimizer_.beta2;
        scalars.epsilon = optimizer_.epsilon;
        scalars.correction1 = 1 - std::pow(optimizer_.beta1, static_cast<double>(step + 1));
        scalars.correction2 = 1 - std::pow(optimizer_.beta2, static_cast<double>(step + 1));
        for (const LocalTensor& tensor : layout_.tensors()) {
            ops::adamw<T>({}, {.weight = weights.data() + tensor.offset,
                               .m = m_.data() + tensor.offset,
                               .v = v_.data() + tensor.offset,
                               .gradient = gradients.data() + tensor.offset,
                               .n = tensor.count,
                               .scalars = scalars,
                               .lr_factor = tensor.parameter->lr_factor,
                               .decay = optimizer_.weight_decay * tensor.parameter->decay_factor});
        }
    }

    std::span<T> weights, gradients;

private:
    const Golden& golden_;
    ModelConfig model_;
    OptimizerConfig optimizer_;
    StageSpan span_;
    ParameterTable table_;
    ParameterLayout layout_;
    std::unique_ptr<Arena> arena_;
    std::span<T> m_, v_;
    std::unique_ptr<Stage<T>> stage_;
};

template <class T>
double distance(std::span<const T> ours, std::span<const float> theirs) {
    double sum = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
        sum += std::pow(static_cast<double>(ours[i]) - static_cast<double>(theirs[i]), 2);
    }
    return std::isfinite(sum) ? std::sqrt(sum) : std::numeric_limits<double>::infinity();
}
double length(std::span<const float> x) {
    return distance<float>(x, std::vector<float>(x.size(), 0.0F));
}

struct Tolerance {
    double loss;      // relative, each step
    double norm;      // relative, each step
    double gradient;  // relative norm per tensor, step 1
    double key_bias;  // norm against 1 x the global norm, step 1
    double weight;    // relative norm per tensor, after the last step; 0: not compared
};

template <class T>
void compare_gradients(const Golden& golden, const Run<T>& run, const Tolerance& tolerance, double global_norm) {
    for (std::size_t i = 0; i < golden.names.size(); ++i) {
        const std::span<const float> theirs = golden.tensor(Golden::Part::gradient, i);
        // The key bias shifts all scores of a query alike: its exact gradient is 0, what is left is rounding.
        const bool key_bias = golden.names[i].ends_with("key.bias");
        const double bound = key_bias ? tolerance.key_bias * global_norm : tolerance.gradient * length(theirs);
        EXPECT_LE(distance<T>(run.of(run.gradients, i), theirs), bound) << golden.names[i];
    }
}

template <class T>
void compare(const std::string& name, const std::string& precision, const Tolerance& tolerance) {
    const Golden golden(name);
    Run<T> run(golden);
    const std::vector<double> losses = golden.series("loss_" + precision);
    const std::vector<double> norms = golden.series("norm_" + precision);
    i64 clipped = 0;
    for (i64 step = 0; step < golden.integer("steps"); ++step) {
        const auto at = static_cast<std::size_t>(step);
        const auto [loss, norm] = run.gradient_of(step);
        EXPECT_NEAR(loss, losses[at], tolerance.loss * losses[at]) << "step " << step;
        EXPECT_NEAR(norm, norms[at], tolerance.norm * norms[at]) << "step " << step;
        if (step == 0) {
            compare_gradients(golden, run, tolerance, norm);
        }
        clipped += norm > 1.0 ? 1 : 0;
        run.update(step, norm);
    }
    EXPECT_GT(clipped, 0);  // clipping took part
    for (std::size_t i = 0; tolerance.weight > 0 && i < golden.names.size(); ++i) {
        const std::span<const float> trained = golden.tensor(Golden::Part::trained, i);
        EXPECT_LE(distance<T>(run.of(run.weights, i), trained), tolerance.weight * length(trained)) << golden.names[i];
    }
}

// fp32 against PyTorch's own fp32 run: rounding of both, 6e-8 a sum, grows to 8e-7 (loss) and 1e-5 (norm) over 20 AdamW
// steps; of step 1's gradients against the fp64 run it is 8e-7. Weights are not compared: AdamW turns a gradient's
// rounding near 0 into a whole step. The key bias has the exact gradient 0: rounding alone, 3e-9 of the global norm.
constexpr Tolerance fp32{5e-6, 1e-4, 5e-6, 3e-8, 0};
// fp64: both sides round at 1e-16 (observed 6e-16 and 4e-15). Gradients and weights are stored as fp32: 3e-8 rms.
constexpr Tolerance fp64{5e-15, 4e-14, 1e-7, 1e-16, 1e-7};

TEST(Golden, TiedFp32FollowsPyTorch) {
    compare<float>("tied", "fp32", fp32);
}
TEST(Golden, UntiedFp32FollowsPyTorch) {
    compare<float>("untied", "fp32", fp32);
}
TEST(Golden, TiedFp64FollowsPyTorch) {
    compare<double>("tied", "fp64", fp64);
}
TEST(Golden, UntiedFp64FollowsPyTorch) {
    compare<double>("untied", "fp64", fp64);
}

}  // namespace
}  // namespace ogrom::test
