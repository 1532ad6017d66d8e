#include "src/config/initial.h"

#include <set>

#include "kernels/common/fault.h"

#include "src/config/schema.h"

namespace ogrom {
namespace {

// Of the extents that a run file may leave out.
bool follows(const std::string& key, const ModelConfig& model) {
    return (key == "model.kv_heads" && model.kv_heads == model.heads) ||
           (key == "model.head_dim" && model.head_dim * model.heads == model.hidden) ||
           (key == "model.ffn_hidden" && model.ffn_hidden == 4 * model.hidden);
}

ModelDifference::Weight weight_of(const Key& key) {
    static const std::set<std::string> tensors = {"model.layers",   "model.ffn_hidden", "model.vocab",
                                                  "model.sequence", "model.tied",       "model.bias"};
    if (key.on_resume != OnResume::fixed) {
        return ModelDifference::Weight::own;
    }
    return tensors.contains(key.full_name()) ? ModelDifference::Weight::tensors : ModelDifference::Weight::meaning;
}

}  // namespace

std::vector<ModelDifference> model_differences(const ModelConfig& source, const RunConfig& current) {
    RunConfig other = current;
    other.model = source;
    std::vector<ModelDifference> differences;
    for (const Key& key : schema()) {
        const std::string name = key.full_name();
        // A source does not say how it was padded or drawn.
        if (key.section != "model" || key.on_resume == OnResume::free || fault_active("init_model_not_compared") ||
            (follows(name, source) && follows(name, current.model))) {
            continue;
        }
        const std::string theirs = value_text(key, other), ours = value_text(key, current);
        if (theirs != ours) {
            differences.push_back({name, theirs, ours, weight_of(key)});
        }
    }
    return differences;
}

}  // namespace ogrom
