#include "src/train/initial.h"

#include <filesystem>
#include <fmt/format.h>

#include "src/base/file.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/config/initial.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_shared.h"
#include "src/io/checkpoint_type.h"
#include "src/train/run_folder.h"

namespace ogrom {
namespace {

constexpr const char* key = "checkpoint.init_from";
constexpr const char* origin_keys[] = {"init_from", "init_form", "init_weight_hash"};
constexpr std::size_t listed_misfits = 200;
// What find() puts before the folder: rank 0 says for all what it is.
constexpr const char* hf_mark = "hf ";
constexpr const char* own_mark = "ogrom ";

std::string find(const std::string& path) {
    require(file_exists(path), ExitCode::checkpoint,
            fmt::format("{} = {}: does not exist; would be right: a folder of this machine with config.json and "
                        "model.safetensors (nothing is downloaded), a step-NNNNNNNN folder, or a run's folder",
                        key, quote(path)));
    if (is_hf_folder(path)) {
        std::filesystem::path folder = std::filesystem::absolute(path).lexically_normal();
        return hf_mark + (folder.has_filename() ? folder : folder.parent_path()).string();
    }
    const std::string above = parent_path(path);
    require(is_directory(path) || !is_hf_folder(above), ExitCode::checkpoint,
            fmt::format("{} = {}: is a file; would be right: its folder, {}", key, quote(path), quote(above)));
    try {
        return own_mark + resolve_checkpoint(path);
    } catch (const Error& error) {
        fail(error.code(), fmt::format("{}: no config.json of Hugging Face's form, and {}", key, error.what()));
    }
}

}  // namespace

InitialWeights::InitialWeights(Communicator& world, const RunConfig& run, const SavedTexts& texts) : run_(run) {
    const std::string found = share_result(world, "init.find", [&] {
        return world.rank() == 0 ? find(run_.checkpoint.init_from) : std::string();  // the newest step may change
    });
    const bool from_hf = found.starts_with(hf_mark);
    folder_ = found.substr(std::string_view(from_hf ? hf_mark : own_mark).size());
    if (from_hf) {
        open_folder(world);
    } else {
        open_checkpoint(world);
    }
    check_model(world);
    if (hf_) {
        match_folder();
    }
    check_type();
    check_tokenizer(world, texts.tokenizer);
}

void InitialWeights::open_folder(Communicator& world) {
    form_ = "Hugging Face GPT-2";
    tokenizer_ = share_result(world, "init.open", [&] {
        hf_.emplace(folder_);
        if (world.rank() != 0 || !hf_->has_tokenizer()) {
            return std::string();
        }
        try {
            return hf_->tokenizer().identity();
        } catch (const Error& error) {
            log_warning("{}: its tokenizer is not compared: {}", key, error.what());
            return std::string();
        }
    });
    model_ = hf_->model();
    if (!hf_->unused().empty() && world.rank() == 0) {
        log_warning("{}: config.json: keys that this program does not know and leaves out: {}", folder_,
                    join(hf_->unused(), ", "));
    }
}

void InitialWeights::open_checkpoint(Communicator& world) {
    require_intact(world, key, folder_, {});
    share_result(world, "init.open", [&] {
        const CheckpointHeader header = read_header(folder_);
        tokenizer_ = header.tokenizer;
        form_ = fmt::format("checkpoint of step {}", header.step);
        model_ = read_model(folder_);
        type_ = read_weight_type(folder_);
        return std::string();
    });
}

// The same on every rank, so each of them refuses.
void InitialWeights::check_model(Communicator& world) const {
    std::vector<std::string> refused;
    bool could_be_left_out = true;
    for (const ModelDifference& difference : model_differences(model_, run_)) {
        const std::string text = fmt::format("{}: {} in {}, {} in the run file", difference.key, difference.source,
                                             folder_, difference.current);
        const bool tensors = difference.weight == ModelDifference::Weight::tensors;
        if (difference.weight == ModelDifference::Weight::own) {
            if (world.rank() == 0) {
                log_info("{}, which is used", text);
            }
        } else if (tensors && !run_.checkpoint.strict) {
            if (world.rank() == 0) {
                log_warning("{}; tensors that do not fit are left out (checkpoint.strict = false)", text);
            }
        } else {
            could_be_left_out = could_be_left_out && tensors;
            const bool longest = difference.key == "model.sequence";
            refused.push_back(fmt::format("{}; would be right: {} = {}{}", text, difference.key, difference.source,
                                          longest ? " (train.sequence may be shorter)" : ""));
        }
    }
    if (!refused.empty()) {
        fail(ExitCode::usage,
             fmt::format("{}: {} holds another model than the run file describes:\n  {}{}", key, folder_,
                         join(refused, "\n  "),
                         could_be_left_out ? "\n  checkpoint.strict = false loads the tensors that fit" : ""));
    }
}

void InitialWeights::match_folder() {
    std::vector<std::string> misfits = hf_->match(run_.model, "in the model");
    type_ = hf_->type();
    const ParameterTable table = make_parameters(run_.model, run_.precision.weights);
    const bool some = std::any_of(table.rows().begin(), table.rows().end(),
                                  [&](const Parameter& row) { return hf_->holds(row.name); });
    if (!misfits.empty() && (run_.checkpoint.strict || !some)) {
        const std::size_t all = misfits.size();
        misfits.resize(std::min(all, listed_misfits));
        fail(ExitCode::data, fmt::format("{}: {}: {} tensors are not those of the model:\n  {}{}{}", key, folder_, all,
                                         join(misfits, "\n  "), all > misfits.size() ? "\n  ..." : "",
                                         some ? "\n  checkpoint.strict = false loads what fits and lists the rest"
                                              : "\n  none of its tensors fits"));
    }
    left_out_ = std::move(misfits);
}

void InitialWeights::check_type() const {
    require(type_ != Dtype::fp64 || run_.precision.weights == Dtype::fp64, ExitCode::usage,
            fmt::format("{}: {} holds weights in fp64, precision.weights = {} would round them; would be right: "
                        "numerics.compute = \"fp64\", or a copy in fp32 (ogrom convert --to hf --dtype fp32)",
                        key, folder_, quote(name_of(run_.precision.weights))));
}

void InitialWeights::check_tokenizer(Communicator& world, const std::string& own) const {
    if (!tokenizer_.empty() && !own.empty() && tokenizer_ != own) {
        const std::string text = fmt::format("{}: {} is of the tokenizer {}, the token set {} was made by {}", key,
                                             folder_, tokenizer_, run_.data.train, own);
        require(!run_.checkpoint.strict, ExitCode::checkpoint,
                text +
                    "; would be right: a token set made by the tokenizer of these weights (ogrom data --tokenizer), "
                    "or checkpoint.strict = false where the ids mean the same");
        if (world.rank() == 0) {
            log_warning("{} (checkpoint.strict = false)", text);
        }
    } else if ((tokenizer_.empty() || own.empty()) && world.rank() == 0) {
        log_warning("{}: {} does not name its tokenizer: whether the ids of the data mean the same is not checked", key,
                    tokenizer_.empty() ? folder_ : run_.data.train);
    }
}

template <class T>
void InitialWeights::load(Engine<T>& engine) {
    using Held = GradientOf<T>;
    (void)engine.weights_on_host();  // on a GPU: what is not loaded is sent back as it was
    std::vector<StateGroup<Held>> wanted = engine.groups_to_load();
    std::erase_if(wanted, [](const StateGroup<Held>& group) { return group.name != "weights"; });
    if (hf_) {
        load_weights<Held>(engine.world, *hf_, engine.layout, wanted.front().ranges);
        hf_.reset();  // its files
    } else {
        load_checkpoint<Held>(engine.world, folder_, engine.layout, wanted, run_.checkpoint.strict, left_out_,
                              Hashes::were_checked, Types::may_widen);
    }
    engine.adopt_loaded();
    hash_ = engine.model_hash();
    tell_left_out(engine.world);
}

// The same list on every rank.
void InitialWeights::tell_left_out(Communicator& world) const {
    if (left_out_.empty() || world.rank() != 0) {
        return;
    }
    log_warning(
        "{}: checkpoint.strict = false: {} tensors were not loaded; those of the model among them begin with values "
        "drawn from train.seed",
        key, left_out_.size());
    for (const std::string& line : left_out_) {
        log_warning("{}: {}", key, line);
    }
}

std::string InitialWeights::text() const {
    return fmt::format("{} ({}), weight hash {:016x}", folder_, form_, hash_);
}

std::map<std::string, std::string> InitialWeights::origin() const {
    const auto& [from, form, hash] = origin_keys;
    return {{from, folder_}, {form, form_}, {hash, fmt::format("{:016x}", hash_)}};
}

std::map<std::string, std::string> origin_within(const std::map<std::string, std::string>& extra) {
    std::map<std::string, std::string> origin;
    for (const char* name : origin_keys) {
        if (const auto found = extra.find(name); found != extra.end()) {
            origin.insert(*found);
        }
    }
    return origin;
}

template void InitialWeights::load<float>(Engine<float>&);
template void InitialWeights::load<double>(Engine<double>&);
template void InitialWeights::load<Bf16>(Engine<Bf16>&);
template void InitialWeights::load<Fp16>(Engine<Fp16>&);

}  // namespace ogrom
