// Comes in: a folder of Hugging Face's form (io/hf_folder.cpp). Goes out: the state of a run after 0 steps. Next:
// io/checkpoint_rewrite.cpp
#include <filesystem>
#include <fmt/format.h>

#include "src/base/log.h"
#include "src/base/text.h"
#include "src/io/hf_gpt2.h"

namespace ogrom {

HfSource::HfSource(const std::string& folder) : folder_(folder) {
    std::vector<std::string> misfits = folder_.match(folder_.model(), "by config.json");
    constexpr std::size_t listed = 50;
    const std::size_t all = misfits.size();
    misfits.resize(std::min(all, listed));
    require(all == 0, ExitCode::data,
            fmt::format("{}: {} tensors are not those of the GPT-2 that config.json describes:\n  {}{}", folder, all,
                        join(misfits, "\n  "), all > listed ? "\n  ..." : ""));
    folder_.require_equal_twins(0, 1);
    table_ = make_parameters(folder_.model(), folder_.type());
    name_tokenizer();
    header_.provenance_json = "{}";
    header_.extra["imported"] = "Hugging Face GPT-2";
    remember_type();
    header_.weight_hash = hash_weights(*this);
}

// Of the values in the files, for the way back: ours are wider. Files of several types come back in the widest.
void HfSource::remember_type() {
    if (const std::optional<Dtype> type = folder_.stored_type()) {
        header_.extra[hf_type_key] = name_of(*type);
    } else {
        log_warning("{}: tensors of several types; an export without --dtype will be in {}", folder_.path(),
                    name_of(folder_.type()));
    }
}

void HfSource::name_tokenizer() {
    if (!folder_.has_tokenizer()) {
        log_info("{}: no tokenizer files; `ogrom sample` needs --tokenizer", folder());
        return;
    }
    try {
        const Tokenizer tokenizer = folder_.tokenizer();
        header_.tokenizer = tokenizer.identity();
        header_.tokenizer_path = std::filesystem::absolute(folder()).lexically_normal().string();
        if (tokenizer.vocab_size() != model().vocab) {
            log_warning("{}: the tokenizer has {} ids, the model {} rows; all rows are kept", folder(),
                        tokenizer.vocab_size(), model().vocab);
        }
    } catch (const Error& error) {
        log_warning("the tokenizer is left out: {}", error.what());
    }
}

void HfSource::read(const std::string& /*group*/, const Parameter& tensor, i64 first, i64 count, std::byte* to) const {
    for (const TensorPiece& piece : row_blocks(extent_of(tensor).cols, first, first + count)) {
        if (type() == Dtype::fp64) {
            folder_.read(tensor, piece, reinterpret_cast<double*>(to) + piece.source);
        } else {
            folder_.read(tensor, piece, reinterpret_cast<float*>(to) + piece.source);
        }
    }
}

}  // namespace ogrom
