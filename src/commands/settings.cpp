#include "src/commands/settings.h"

#include <fmt/format.h>
#include <optional>

#include "src/base/text.h"
#include "src/config/unknown.h"

namespace ogrom {

namespace {

struct Typed {
    std::string name, value;  // an absent value is empty
    std::string text;         // as typed
};

bool is_option(const std::string& word) {
    return word.size() > 1 && word[0] == '-' && !parse_real(word);
}

std::optional<std::string> near_option(const CLI::App& command, const std::string& name) {
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options()) {
        for (const std::string& known : option->get_lnames()) {
            names.push_back("--" + known);
        }
    }
    return nearest(name, names);
}

std::string assignment(const Key& key, const Typed& typed) {
    const std::string standard = key.type() == KeyType::boolean ? "true" : "VALUE";
    return fmt::format("--set {}={}", key.full_name(), typed.value.empty() ? standard : typed.value);
}

std::string right_for(const CLI::App& command, const Typed& typed) {
    const MeantSetting meant = meant_setting(typed.name);
    if (!meant.advice.empty()) {
        return meant.advice;
    }
    std::vector<std::string> settings;
    for (const Key* key : meant.keys) {
        settings.push_back(assignment(*key, typed));
    }
    if (!settings.empty()) {
        return join(settings, meant.either ? " or " : " ");
    }
    if (const std::optional<std::string> near = near_option(command, typed.name); near && is_option(typed.name)) {
        return *near;
    }
    return fmt::format(
        "--set section.key=value for a key of the run file (`ogrom keys`), or an option that `ogrom {} "
        "--help` lists",
        command.get_name());
}

// The word at `i`, with the value that may stand behind it; `i` is then at the last word used.
Typed typed_at(const std::vector<std::string>& words, std::size_t& i) {
    const std::string& word = words[i];
    const std::size_t equals = word.find('=');
    Typed typed{word.substr(0, equals), equals == std::string::npos ? "" : word.substr(equals + 1), word};
    const bool behind = equals == std::string::npos && i + 1 < words.size() && !is_option(words[i + 1]) &&
                        !words[i + 1].ends_with(".toml") && words[i + 1].find('=') == std::string::npos;
    if (behind) {
        typed.value = words[++i];
        typed.text += " " + typed.value;
    }
    return typed;
}

}  // namespace

std::string settings_advice(const CLI::App& command, const std::vector<std::string>& words) {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i];
        const std::size_t equals = word.find('=');
        if (!is_option(word) && equals == std::string::npos) {
            continue;  // the run file
        }
        const CLI::Option* known = is_option(word) ? command.get_option_no_throw(word.substr(0, equals)) : nullptr;
        if (known != nullptr) {
            i += equals == std::string::npos && known->get_items_expected_min() > 0 ? 1 : 0;
            continue;
        }
        const Typed typed = typed_at(words, i);
        lines.push_back(fmt::format("{}: no option of {}; would be right: {}", typed.text, command.get_name(),
                                    right_for(command, typed)));
    }
    return join(lines, "\n");
}

}  // namespace ogrom
