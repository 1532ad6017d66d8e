// What goes into a checkpoint beside the tensors, and the way back.
#pragma once
#include <string>

#include "src/data/sampler.h"
#include "src/io/checkpoint.h"
#include "src/train/engine.h"

namespace ogrom {

struct SavedTexts {
    std::string provenance_json;
    std::string gpu;  // name of the GPU; empty on the CPU
    std::string tokenizer,
        tokenizer_path;  // identity and place of the tokenizer of the token set
};

// Header of a checkpoint after engine.step steps. Collective.
template <class T>
CheckpointHeader make_header(const Engine<T>& engine, const Sampler& sampler, const SavedTexts& texts,
                             double best_valid_loss);

// Loads weights, moments, step and counters from `checkpoint`; collective.
// Refuses a run file, data set or tokenizer that does not fit it (Error(usage)
// or Error(checkpoint)). Returns the header.
template <class T>
CheckpointHeader resume_from(Engine<T>& engine, const Sampler& sampler, const SavedTexts& texts,
                             const std::string& checkpoint);

}  // namespace ogrom
