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

std::string fp8_text(const RunConfig& run, const StageShape& shape) {
    std::vector<std::string> others;
    for (const BlockLinear& linear : block_linears(run.model, shape.tensor.size)) {
        if (!made_in_fp8(shape, linear)) {
            others.push_back(fmt::format("{} ({} x {})", linear.name, linear.out, linear.in));
        }
    }
    std::string text = fmt::format(
        "fp8 linears: {:.1f} % of the model's FLOPs; forward e4m3 x e4m3 with fast sums, both gradients e5m2 x e4m3 "
        "with "
        "full fp32 sums; one scale a tensor, from its largest value as it is; results bf16, weight gradients fp32; "
        "head, "
        "attention, embeddings and norms without fp8",
        100 * fp8_share(run, shape));
    if (!others.empty()) {
        text += fmt::format("; in bf16, because {} tokens, or an extent, is no multiple of 16: {}",
                            shape.extents.micro_batch * shape.extents.sequence, join(others, ", "));
    }
    return text;
}

}  // namespace ogrom
