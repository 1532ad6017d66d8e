// Reading of tokenizer files; what is accepted stands in tokenizer_file.h.
#include <algorithm>
#include <fmt/core.h>

#include "kernels/common/error.h"

#include "src/base/file.h"
#include "src/base/json.h"
#include "src/data/tokenizer_file.h"

namespace ogrom {

namespace {

using Json = nlohmann::json;
constexpr i64 file_limit_bytes = i64{256} << 20;
constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
    fail(ExitCode::data, where + ": " + what);
}

Json parse_file(const std::string& path) {
    Json json = parse_json<Json>(read_file(path, file_limit_bytes, ExitCode::data), path, ExitCode::data);
    if (!json.is_object()) {
        refuse(path, "not a JSON object");
    }
    return json;
}

i64 id_of(const Json& value, const std::string& where, const std::string& entry) {
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<u64>() > 0x7FFFFFFFFFFFFFFFULL)) {
        refuse(where, "'" + entry + "': an id must be a whole number, not " + json_text(value));
    }
    return value.get<i64>();
}

void read_vocab(const Json& vocab, const std::string& where, VocabBuilder& builder) {
    if (!vocab.is_object()) {
        refuse(where, "the vocabulary must be an object of entries and ids");
    }
    for (const auto& [symbol, id] : vocab.items()) {
        builder.add(symbol, id_of(id, where, symbol));
    }
}

// Keys of a component and the only values that this program has; a key that is not listed is unknown.
struct Allowed {
    std::string_view key;
    std::vector<Json> values;  // empty: any, it does not change ids
};

void check_component(const Json& component, const std::string& where, const std::vector<Allowed>& allowed) {
    for (const auto& [key, value] : component.items()) {
        const Allowed* rule = nullptr;
        for (const auto& candidate : allowed) {
            rule = candidate.key == key ? &candidate : rule;
        }
        if (rule == nullptr) {
            refuse(where, fmt::format("'{}' is not known to this program", key));
        }
        bool fits = rule->values.empty();
        for (const auto& one : rule->values) {
            fits = fits || one == value;
        }
        if (!fits) {
            refuse(where, fmt::format("'{}' = {} is not built; only {} is", key, json_text(value),
                                      json_text(rule->values.front())));
        }
    }
}

std::string type_of(const Json& component, const std::string& where) {
    if (!component.is_object() || !component.contains("type") || !component["type"].is_string()) {
        refuse(where, "must be an object with a \"type\"");
    }
    return component["type"].get<std::string>();
}

// ByteLevel with its own pattern, or a Split by the same pattern followed by ByteLevel without one.
void check_pre_tokenizer(const Json& component, const std::string& path) {
    const std::string where = path + ": pre_tokenizer";
    const std::string type = type_of(component, where);
    const auto byte_level = [&](const Json& one, const std::string& at, bool own_pattern) {
        if (one.value("add_prefix_space", true)) {
            refuse(at, "'add_prefix_space' = true (also when it is absent) is not built; only false is");
        }
        if (one.value("use_regex", true) != own_pattern) {
            refuse(at, own_pattern ? "'use_regex' = false is not built; only true is"
                                   : "'use_regex' = true after a Split is not built; only false is");
        }
        check_component(one, at, {{"type", {}}, {"add_prefix_space", {}}, {"trim_offsets", {}}, {"use_regex", {}}});
    };
    if (type == "ByteLevel") {
        byte_level(component, where, true);
        return;
    }
    const Json parts = component.value("pretokenizers", Json::array());
    if (type != "Sequence" || parts.size() != 2 || type_of(parts[0], where) != "Split" ||
        type_of(parts[1], where) != "ByteLevel") {
        refuse(where, "type '" + type + "' is not built; ByteLevel, or GPT-2's Split followed by ByteLevel, are");
    }
    check_component(
        parts[0], where + ".pretokenizers[0]",
        {{"type", {}}, {"pattern", {Json{{"Regex", gpt2_pattern}}}}, {"behavior", {"Isolated"}}, {"invert", {false}}});
    byte_level(parts[1], where + ".pretokenizers[1]", false);
}

void check_top(const Json& json, const std::string& path) {
    check_component(json, path,
                    {{"version", {"1.0"}},
                     {"truncation", {nullptr}},
                     {"padding", {nullptr}},
                     {"added_tokens", {}},
                     {"normalizer", {nullptr}},
                     {"pre_tokenizer", {}},
                     {"post_processor", {}},
                     {"decoder", {}},
                     {"model", {}}});
    for (const char* key : {"pre_tokenizer", "decoder", "model"}) {
        if (!json.contains(key) || json[key].is_null()) {
            refuse(path, fmt::format("'{}' is missing; a byte-level BPE needs it", key));
        }
    }
    check_pre_tokenizer(json["pre_tokenizer"], path);
    if (const auto type = type_of(json["decoder"], path + ": decoder"); type != "ByteLevel") {
        refuse(path + ": decoder", "type '" + type + "' is not built; ByteLevel is");
    }
    // ByteLevel after the fact moves offsets only; anything else adds ids.
    const Json post = json.value("post_processor", Json());
    if (!post.is_null() && type_of(post, path + ": post_processor") != "ByteLevel") {
        refuse(path + ": post_processor", "type '" + type_of(post, path) + "' is not built; ByteLevel or null are");
    }
}

void read_added(const Json& list, const std::string& path, VocabBuilder& builder) {
    if (!list.is_array()) {
        refuse(path, "'added_tokens' must be a list");
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
        const std::string where = fmt::format("{}: added_tokens[{}]", path, i);
        const Json& token = list[i];
        if (!token.is_object() || !token.contains("content") || !token["content"].is_string() ||
            !token.contains("id")) {
            refuse(where, "needs \"id\" and \"content\"");
        }
        // Without a normalizer (others are refused), 'normalized' changes nothing.
        check_component(token, where,
                        {{"id", {}},
                         {"content", {}},
                         {"single_word", {false}},
                         {"lstrip", {false}},
                         {"rstrip", {false}},
                         {"normalized", {false, true}},
                         {"special", {false, true}}});
        const auto content = token["content"].get<std::string>();
        builder.add_token(content, id_of(token["id"], where, content),
                          token.value("special", false) ? AddedToken::Kind::special : AddedToken::Kind::plain, where);
    }
}

void read_merges(const Json& merges, const std::string& path, VocabBuilder& builder) {
    if (!merges.is_array()) {
        refuse(path, "'model.merges' must be a list");
    }
    for (std::size_t i = 0; i < merges.size(); ++i) {
        const MergePlace where{path, MergePlace::Form::index, static_cast<i64>(i)};
        const Json& merge = merges[i];
        if (merge.is_string()) {
            builder.add_merge_line(merge.get<std::string>(), where);
        } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
            builder.add_merge(merge[0].get<std::string>(), merge[1].get<std::string>(), where);
        } else {
            refuse(where.text(), json_text(merge) + " is not a merge: \"a b\" or [\"a\", \"b\"]");
        }
    }
}

Tokenizer tokenizer_of(const Json& json, const std::string& path) {
    check_top(json, path);
    const Json& model = json["model"];
    const std::string where = path + ": model";
    if (!model.is_object() || !model.contains("vocab") || !model.contains("merges")) {
        refuse(where, "needs \"vocab\" and \"merges\" (a BPE model)");
    }
    // unk_token and fuse_unk never act: every byte has an entry (checked).
    check_component(model, where,
                    {{"type", {"BPE"}},
                     {"dropout", {nullptr, 0.0}},
                     {"unk_token", {}},
                     {"continuing_subword_prefix", {nullptr, ""}},
                     {"end_of_word_suffix", {nullptr, ""}},
                     {"fuse_unk", {}},
                     {"byte_fallback", {false}},
                     {"ignore_merges", {false}},
                     {"vocab", {}},
                     {"merges", {}}});
    VocabBuilder builder(path);
    read_vocab(model["vocab"], where + ".vocab", builder);
    read_merges(model["merges"], path, builder);
    read_added(json.value("added_tokens", Json::array()), path, builder);
    return builder.build();
}

}  // namespace

Tokenizer load_tokenizer_json(const std::string& path) {
    const Json json = parse_file(path);
    try {
        return tokenizer_of(json, path);
    } catch (const Json::exception& error) {  // a value of another type than its key takes
        refuse(path, error.what());
    }
}

Tokenizer load_vocab_and_merges(const std::string& vocab_path, const std::string& merges_path) {
    VocabBuilder builder(vocab_path);
    read_vocab(parse_file(vocab_path), vocab_path, builder);
    const std::string text = read_file(merges_path, file_limit_bytes, ExitCode::data);
    i64 number = 0;
    for (std::size_t at = 0; at < text.size();) {
        ++number;
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string_view line(text.data() + at, end - at);
        at = end + 1;
        if (line.ends_with('\r')) {
            line.remove_suffix(1);
        }
        if ((number == 1 && line.starts_with("#version")) || (line.empty() && at >= text.size())) {
            continue;
        }
        builder.add_merge_line(line, {merges_path, MergePlace::Form::line, number});
    }
    constexpr const char* end_of_text = "<|endoftext|>";
    if (builder.has(end_of_text)) {
        builder.add_token(end_of_text, builder.id_of(end_of_text), AddedToken::Kind::special, vocab_path);
    }
    return builder.build();
}

}  // namespace ogrom
