// The checkpoint that the targets of the master file start from: one layer, hidden 4, one writer, weights and one
// moment.
#pragma once
#include <string>

#include "src/io/checkpoint.h"

namespace ogrom::fuzz {

ModelConfig small_model();
// Saved below `directory`; the step folder.
std::string save_small_checkpoint(const std::string& directory);
std::string small_step(const std::string& directory);  // where that is
// manifest.json for the files of the step folder as they are now.
void agree_manifest(const std::string& step);
// All that the program reads of a step folder: tree, header, model, tensors of a load, hashes of `inspect --verify`,
// differences, the reader of `convert`. Each may end in an Error.
void read_everything(const std::string& step);

}  // namespace ogrom::fuzz
