// Names that the schema does not know, in a run file, in --set or on the command line: what seems meant by them.
#pragma once
#include <string>
#include <vector>

#include "src/config/entry.h"
#include "src/config/schema.h"

namespace ogrom {

// "tensor_model_parallel_size" of "--tensor-model-parallel-size": other programs write their names as options.
std::string folded_name(const std::string& name);

// Names the fault of an entry whose key is not in the schema, and returns the key that seems meant.
const Key* add_unknown(const Entry& entry, Faults& faults);

// What a word of the command line sets that is no option there: "parallel.tensor" of "--tensor-model-parallel-size".
struct MeantSetting {
    std::vector<const Key*> keys;  // by its own name or one that other programs use; a mere likeness only in a section
    std::string advice;            // instead of keys, where other programs' word has none here (load, offload, bf16)
    bool either = false;           // one of the keys is meant, else all
};
MeantSetting meant_setting(const std::string& word);

}  // namespace ogrom
