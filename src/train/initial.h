// A run that starts with weights of its user's choice (checkpoint.init_from): a folder of Hugging Face's GPT-2, or a
// checkpoint, whole or weights alone. Everything else starts afresh: step 0, moments 0, the data from its beginning.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/io/hf_folder.h"
#include "src/train/engine.h"
#include "src/train/resume.h"

namespace ogrom {

class InitialWeights {
public:
    // Finds and checks them before any memory is taken; collective. Error on every rank: usage where the model or the
    // type of the run is another, data for files of Hugging Face's form, checkpoint for all else. What does not fit is
    // passed over with checkpoint.strict = false, as long as some tensor does.
    InitialWeights(Communicator& world, const RunConfig& run, const SavedTexts& texts);

    // Into the weights (and master) of a fresh engine; collective. What the source lacks keeps its drawn values.
    template <class T>
    void load(Engine<T>& engine);

    // After load(): "FOLDER (checkpoint of step 7), weight hash ...".
    [[nodiscard]] std::string text() const;
    // What the checkpoints of the run remember of it.
    [[nodiscard]] std::map<std::string, std::string> origin() const;

private:
    void open_folder(Communicator& world);
    void open_checkpoint(Communicator& world);
    void check_model(Communicator& world) const;
    void match_folder();
    void check_type() const;
    void check_tokenizer(Communicator& world, const std::string& own) const;
    void tell_left_out(Communicator& world) const;

    const RunConfig& run_;
    std::optional<HfFolder> hf_;
    std::string folder_;  // absolute
    std::string form_;    // "Hugging Face GPT-2", "checkpoint of step 7"
    ModelConfig model_;
    Dtype type_ = Dtype::fp32;
    std::string tokenizer_;              // identity; empty: not known
    std::vector<std::string> left_out_;  // by checkpoint.strict = false
    u64 hash_ = 0;
};

// The lines of origin() among the run state of a checkpoint: a run that goes on from it keeps them.
std::map<std::string, std::string> origin_within(const std::map<std::string, std::string>& extra);

}  // namespace ogrom
