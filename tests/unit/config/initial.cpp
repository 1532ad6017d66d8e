// The model of a run file against that of the weights it is to start with.
#include "src/config/initial.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "tests/unit/config/case.h"

namespace ogrom {
namespace {

using enum ModelDifference::Weight;

std::vector<ModelDifference> differences(const std::vector<std::string>& overrides) {
    return model_differences(parse(small_run).model, parse(small_run, overrides));
}

TEST(Initial, TheSameModelUnderAnotherLayoutHasNoDifference) {
    EXPECT_TRUE(differences({}).empty());
    const RunConfig spread = parse(
        small_run, {"parallel.tensor=2", "model.vocab_multiple=256", "model.init_std=0.1", "train.sequence=16"}, 2);
    EXPECT_TRUE(model_differences(parse(small_run).model, spread).empty());
}

// What each key decides about the tensors; extents that follow from another key are not told twice.
TEST(Initial, NamesTheKeyBothValuesAndWhatItDecides) {
    struct Case {
        const char* setting;
        const char* source;
        ModelDifference::Weight weight;
    };
    for (const Case& c : std::vector<Case>{{"model.layers=5", "4", tensors},
                                           {"model.vocab=513", "512", tensors},
                                           {"model.sequence=64", "32", tensors},
                                           {"model.tied=false", "true", tensors},
                                           {"model.bias=false", "true", tensors},
                                           {"model.ffn_hidden=128", "256", tensors},
                                           {"model.hidden=128", "64", meaning},
                                           {"model.heads=8", "4", meaning},
                                           {"model.norm_epsilon=1e-6", "1e-05", meaning},
                                           {"model.dropout_residual=0.1", "0.0", own}}) {
        const std::vector<ModelDifference> found = differences({c.setting});
        ASSERT_EQ(found.size(), 1u) << c.setting;
        const std::string setting = c.setting;
        EXPECT_EQ(found[0].key, setting.substr(0, setting.find('=')));
        EXPECT_EQ(found[0].source, c.source) << c.setting;
        EXPECT_EQ(found[0].weight, c.weight) << c.setting;
    }
    EXPECT_EQ(differences({"model.layers=5", "model.tied=false"}).size(), 2u);
}

}  // namespace
}  // namespace ogrom
