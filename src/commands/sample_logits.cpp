#include "src/commands/sample_logits.h"

#include <bit>
#include <fmt/format.h>
#include <string_view>
#include <vector>

#include "kernels/common/parallel.h"

#include "src/base/file.h"
#include "src/base/log.h"
#include "src/base/text.h"
#include "src/commands/whole_model.h"
#include "src/model/stage.h"

namespace ogrom {
namespace {

static_assert(std::endian::native == std::endian::little);

std::vector<std::int32_t> parse_ids(const std::string& text, const ModelConfig& model) {
    std::vector<std::int32_t> ids;
    for (const std::string& word : split(text, ',')) {
        const std::optional<i64> id = parse_integer(word);
        require(id && *id >= 0 && *id < model.vocab, ExitCode::usage,
                fmt::format("--ids: \"{}\" is no token id of the model; would be right: whole numbers from 0 to {}, "
                            "with commas between them",
                            word, model.vocab - 1));
        ids.push_back(static_cast<std::int32_t>(*id));
    }
    const i64 count = static_cast<i64>(ids.size());
    require(count <= model.sequence, ExitCode::usage,
            fmt::format("--ids: {} ids; the model's sequence is {}", count, model.sequence));
    return ids;
}

template <class T>
std::vector<float> logits_of(const std::string& checkpoint, const std::vector<std::int32_t>& ids) {
    const WholeModel<T> whole(checkpoint);
    Generator<T> generator(whole.model, whole.layout, whole.weights, host_threads());
    std::vector<float> rows;
    rows.reserve(ids.size() * static_cast<std::size_t>(whole.model.vocab));
    for (const std::int32_t id : ids) {
        for (const T logit : generator.feed({&id, 1})) {
            rows.push_back(static_cast<float>(logit));
        }
    }
    return rows;
}

}  // namespace

int write_logits(const std::string& checkpoint, const std::string& ids, const std::string& file) {
    require(!file.empty() && !is_directory(file) && !is_special(file), ExitCode::usage,
            fmt::format("--logits \"{}\": a folder, a device or nothing; would be right: the name of a file", file));
    const std::vector<std::int32_t> tokens = parse_ids(ids, read_model(checkpoint));
    const std::vector<float> rows =
        with_weight_type(checkpoint, [&](auto value) { return logits_of<decltype(value)>(checkpoint, tokens); });
    write_file_atomic(file, {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(float)});
    log_info("{}: logits after each of {} ids, fp32 [{}, {}]", file, tokens.size(), tokens.size(),
             rows.size() / tokens.size());
    return static_cast<int>(ExitCode::done);
}

}  // namespace ogrom
