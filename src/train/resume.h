// What goes into a checkpoint beside the tensors, and the way back.
#pragma once
#include <map>
#include <string>

#include "src/data/sampler.h"
#include "src/io/checkpoint.h"
#include "src/train/engine.h"

namespace ogrom {

struct SavedTexts {
    std::string provenance_json;
    std::string gpu;  // name of the GPU; empty on the CPU
    std::string tokenizer,
        tokenizer_path;                         // identity and place of the tokenizer of the token set
    std::map<std::string, std::string> origin;  // of the first weights (train/initial.h); empty: drawn
};

// Header of a checkpoint after engine.step steps. Collective.
template <class T>
CheckpointHeader make_header(const Engine<T>& engine, const Sampler& sampler, const SavedTexts& texts,
                             double best_valid_loss);

// Before step 1, where a save is planned (at an interval or at the end): Error(checkpoint) unless the file system of
// the run folder has room for a checkpoint. Collective.
template <class T>
void require_room_to_save(const Engine<T>& engine, const Sampler& sampler, const SavedTexts& texts);

// The header of a checkpoint that choose_checkpoint gave, before any memory is taken. Every rank. Refuses a run file,
// data set or tokenizer that does not fit it (Error(usage) or Error(checkpoint)).
CheckpointHeader open_checkpoint(Communicator& world, const RunConfig& run, const Sampler& sampler,
                                 const SavedTexts& texts, const std::string& checkpoint);

// Loads weights, moments, step and counters from `checkpoint`, whose header open_checkpoint gave; collective.
template <class T>
void resume_from(Engine<T>& engine, const CheckpointHeader& header, const SavedTexts& texts,
                 const std::string& checkpoint);

}  // namespace ogrom
