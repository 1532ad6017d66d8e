// A small model of odd sizes with a padded vocabulary, for tests that need a parameter layout.
#pragma once
#include "src/model/parameters.h"

namespace ogrom {

inline ModelConfig odd_model() {
    ModelConfig model;
    model.layers = 2;
    model.hidden = 15;
    model.heads = model.kv_heads = 3;
    model.head_dim = 5;
    model.ffn_hidden = 31;
    model.vocab = 37;
    model.padded_vocab = 40;
    model.sequence = 7;
    return model;
}

struct OddLayout {
    explicit OddLayout(const ModelConfig& model = odd_model())
        : table(make_parameters(model, Dtype::fp64)), layout(table, StageSpan{0, 0, 0, model.layers, true, true}) {}
    ParameterTable table;
    ParameterLayout layout;
};

}  // namespace ogrom
