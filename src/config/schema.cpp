#include "src/config/schema.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>

#include "src/base/overload.h"
#include "src/base/text.h"

namespace ogrom {

namespace {

std::string list_text(const std::vector<std::string>& texts) {
    std::vector<std::string> parts;
    parts.reserve(texts.size());
    for (const std::string& text : texts) {
        parts.push_back(quote(text));
    }
    return fmt::format("[{}]", join(parts, ", "));
}

std::string real_text(double value) {
    const std::string text = fmt::format("{}", value);  // shortest text that reads back to the same bits
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string bound_text(double value) {
    if (value == static_cast<double>(static_cast<i64>(value)) && value < 1e16) {
        return value >= 1e5 ? group_digits(static_cast<i64>(value)) : fmt::format("{}", static_cast<i64>(value));
    }
    return fmt::format("{}", value);
}

}  // namespace

std::string Key::full_name() const {
    return fmt::format("{}.{}", section, name);
}

KeyType Key::type() const {
    RunConfig run;
    return std::visit(
        Overload{[](bool*) { return KeyType::boolean; }, [](i64*) { return KeyType::integer; },
                 [](u64*) { return KeyType::integer; }, [](double*) { return KeyType::real; },
                 [this](std::string*) { return choices.empty() ? KeyType::text : KeyType::choice; },
                 [](std::vector<std::string>*) { return KeyType::list; },
                 [](std::vector<i64>*) { return KeyType::integers; }, [](auto*) { return KeyType::choice; }},
        field(run));
}

std::span<const std::string> section_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> found;
        for (const Key& key : schema()) {
            if (found.empty() || found.back() != key.section) {
                found.emplace_back(key.section);
            }
        }
        return found;
    }();
    return names;
}

const Key* find_key(std::string_view full_name) {
    static const std::map<std::string, const Key*, std::less<>> index = [] {
        std::map<std::string, const Key*, std::less<>> made;
        for (const Key& key : schema()) {
            made.emplace(key.full_name(), &key);
        }
        return made;
    }();
    const auto found = index.find(full_name);
    return found == index.end() ? nullptr : found->second;
}

const Key* find_key(std::string_view section, std::string_view name) {
    return find_key(fmt::format("{}.{}", section, name));
}

std::string value_text(const Key& key, const RunConfig& run) {
    // Field is a pointer to change through; here it is only read.
    auto& readable = const_cast<RunConfig&>(run);
    return std::visit(
        Overload{[](const bool* value) -> std::string { return *value ? "true" : "false"; },
                 [](const i64* value) { return fmt::format("{}", *value); },
                 [](const u64* value) { return fmt::format("{}", *value); },
                 [](const double* value) { return real_text(*value); },
                 [](const std::string* value) { return quote(*value); },
                 [](const std::vector<std::string>* value) { return list_text(*value); },
                 [](const std::vector<i64>* value) { return fmt::format("[{}]", fmt::join(*value, ", ")); },
                 [](const Dtype* value) { return quote(name_of(*value)); },
                 [&key](const auto* value) { return quote(key.choices[static_cast<std::size_t>(*value)]); }},
        key.field(readable));
}

bool same_values(const RunConfig& a, const RunConfig& b) {
    return a.model.padded_vocab == b.model.padded_vocab &&
           std::all_of(schema().begin(), schema().end(),
                       [&](const Key& key) { return value_text(key, a) == value_text(key, b); });
}

std::string type_name(const Key& key) {
    switch (key.type()) {
        case KeyType::boolean:
            return "true or false";
        case KeyType::integer:
            return "integer";
        case KeyType::real:
            return "number";
        case KeyType::text:
            return "text";
        case KeyType::list:
            return "list of texts";
        case KeyType::integers:
            return "list of integers";
        case KeyType::choice:
            return "text";
    }
    return "";
}

std::string constraint_text(const Key& key) {
    if (!key.choices.empty()) {
        return fmt::format("{}", fmt::join(key.choices, " | "));
    }
    if (!key.limits) {
        return "";
    }
    const Limits& limits = *key.limits;
    const std::string low = fmt::format("{} {}", limits.low_open ? ">" : ">=", bound_text(limits.low));
    if (limits.high >= 1e12) {
        return low;
    }
    return fmt::format("{}, {} {}", low, limits.high_open ? "<" : "<=", bound_text(limits.high));
}

std::string default_text(const Key& key) {
    switch (key.default_kind) {
        case DefaultKind::required:
            return "required";
        case DefaultKind::derived:
            return fmt::format("derived: {}", key.standard);
        case DefaultKind::value:
            break;
    }
    const bool textual = key.type() == KeyType::text || key.type() == KeyType::choice;
    return textual ? quote(key.standard) : std::string(key.standard);
}

}  // namespace ogrom
