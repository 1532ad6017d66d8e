#include "src/plan/linears.h"

#include <fmt/format.h>
#include <vector>

#include "kernels/ops/linear_fp8.h"

#include "src/base/text.h"

namespace ogrom {

cost::Model cost_model(const ModelConfig& model, i64 sequence) {
    cost::Model m;
    m.layers = model.layers;
    m.hidden = model.hidden;
    m.heads = model.heads;
    m.kv_heads = model.kv_heads;
    m.head_dim = model.head_dim;
    m.ffn = model.ffn_hidden;
    m.vocab = model.vocab;
    m.sequence = sequence;
    return m;
}

bool made_in_fp8(const StageShape& shape, const BlockLinear& linear) {
    const i64 rows = shape.extents.micro_batch * shape.extents.sequence;
    return shape.linears == LinearProducts::fp8 && ops::linear_fp8_fits(rows, linear.in, linear.out);
}

double fp8_share(const RunConfig& run, const StageShape& shape) {
    // Per token: 2 flops a weight forward, twice that backward.
    double flops = 0;
    for (const BlockLinear& linear : block_linears(run.model, shape.tensor.size)) {
        if (made_in_fp8(shape, linear)) {
            flops += 6.0 * static_cast<double>(linear.in) * static_cast<double>(linear.out);
        }
    }
    flops *= static_cast<double>(shape.tensor.size) * static_cast<double>(run.model.layers);
    return flops / cost::model_flops(cost_model(run.model, run.train.sequence));
}

namespace {

// "up (288 x 72: 72)": the layer and what of it is no multiple of 16.
std::string outside_fp8(const StageShape& shape, const BlockLinear& linear) {
    const i64 tokens = shape.extents.micro_batch * shape.extents.sequence;
    std::vector<std::string> odd;
    if (tokens % 16 != 0) {
        odd.push_back(fmt::format("{} tokens", tokens));
    }
    for (const i64 extent : {linear.out, linear.in}) {
        const std::string text = fmt::format("{}", extent);
        if (extent % 16 != 0 && (odd.empty() || odd.back() != text)) {
            odd.push_back(text);
        }
    }
    return fmt::format("{} ({} x {}: {})", linear.name, linear.out, linear.in, fmt::join(odd, " and "));
}

std::vector<std::string> all_outside_fp8(const RunConfig& run, const StageShape& shape) {
    std::vector<std::string> others;
    for (const BlockLinear& linear : block_linears(run.model, shape.tensor.size)) {
        if (!made_in_fp8(shape, linear)) {
            others.push_back(outside_fp8(shape, linear));
        }
    }
    return others;
}

}  // namespace

void require_fp8_somewhere(const RunConfig& run, const StageShape& shape) {
    require(shape.linears != LinearProducts::fp8 || fp8_share(run, shape) > 0, ExitCode::usage,
            fmt::format("numerics.linears = \"fp8\": fp8 products take multiples of 16 alone, and no linear layer is "
                        "made of them: {}; would be right: compute, or extents that are",
                        fmt::join(all_outside_fp8(run, shape), ", ")));
}

std::string fp8_text(const RunConfig& run, const StageShape& shape) {
    std::string text = fmt::format(
        "fp8 linears: {:.1f} % of the model's FLOPs; forward e4m3 x e4m3 with fast sums, both gradients e5m2 x e4m3 "
        "with full fp32 sums; one scale a tensor, from its largest value as it is; results bf16, weight gradients "
        "fp32; "
        "head, attention, embeddings and norms without fp8",
        100 * fp8_share(run, shape));
    const std::vector<std::string> others = all_outside_fp8(run, shape);
    if (!others.empty()) {
        text += fmt::format("; in bf16, as it takes multiples of 16 alone: {}", fmt::join(others, ", "));
    }
    return text;
}

}  // namespace ogrom
