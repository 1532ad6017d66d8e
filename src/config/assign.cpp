#include "src/config/assign.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

#include "kernels/common/fault.h"

#include "src/base/error.h"
#include "src/base/overload.h"
#include "src/base/text.h"
#include "src/config/unknown.h"

namespace ogrom {

namespace {

using Problem = std::optional<std::string>;

std::string unit_text(const Key& key) {
    return key.unit.empty() ? std::string() : fmt::format(" ({})", key.unit);
}

std::string found_text(const Entry& entry) {
    return std::visit(
        Overload{[](bool value) { return fmt::format("{} is true or false", value); },
                 [&](i64) { return fmt::format("{} is an integer", entry.raw); },
                 [&](double) { return fmt::format("{} is a number with a fraction or exponent", entry.raw); },
                 [](const std::string& value) { return fmt::format("{} is a text", quote(value)); },
                 [](const std::vector<std::string>& value) {
                     return std::string(value.empty() ? "an empty list" : "a list of texts");
                 },
                 [](const std::vector<i64>&) { return std::string("a list of integers"); },
                 [](const OtherValue& value) { return value.kind; }},
        entry.value);
}

std::string bounds_hint(const Key& key) {
    const std::string bounds = constraint_text(key);
    return bounds.empty() ? std::string() : fmt::format(" {}", bounds);
}

// What an integer key says to a value of another type. The nearest integer is named where there is one.
std::string integer_hint(const Key& key, const Entry& entry) {
    std::string advice = fmt::format("an integer{}{}", bounds_hint(key), unit_text(key));
    if (const auto* real = std::get_if<double>(&entry.value)) {
        if (std::isfinite(*real) && std::abs(*real) < 9e15 && *real == std::floor(*real)) {
            return fmt::format("{}: write {}", advice, group_digits(static_cast<i64>(*real)));
        }
        return advice + ", a count and never a fraction";
    }
    if (const auto* text = std::get_if<std::string>(&entry.value)) {
        const std::optional<i64> plain = parse_integer(*text);
        return plain ? fmt::format("{} without quotes: {}", advice, group_digits(*plain))
                     : fmt::format("{}, without unit or suffix, as in 1_000_000", advice);
    }
    return advice;
}

std::string real_hint(const Key& key, const Entry& entry) {
    const std::string advice = fmt::format("a number{}{}", bounds_hint(key), unit_text(key));
    const auto* text = std::get_if<std::string>(&entry.value);
    if (text == nullptr) {
        return advice;
    }
    return parse_real(*text) ? fmt::format("{} without quotes: {}", advice, *text)
                             : fmt::format("{}, without unit or suffix, as in 0.5", advice);
}

Problem out_of_range(const Key& key, double value, const std::string& shown) {
    if (!std::isfinite(value)) {
        return fmt::format("{} is not a finite number; would be right: a number{}{}", shown, bounds_hint(key),
                           unit_text(key));
    }
    if (value == 0 && std::signbit(value)) {
        return fmt::format("{} has a sign that means nothing; would be right:{}{}", shown, bounds_hint(key),
                           unit_text(key));
    }
    if (!key.limits) {
        return std::nullopt;
    }
    const Limits& limits = *key.limits;
    const bool low = limits.low_open ? value > limits.low : value >= limits.low;
    const bool high = limits.high_open ? value < limits.high : value <= limits.high;
    if (low && high) {
        return std::nullopt;
    }
    if (low && bounds_hint(key).find('<') == std::string::npos) {  // a bound that the reference does not show
        return fmt::format(
            "{} is out of range; would be right: at most {}{}", shown,
            limits.high < 9e18 ? group_digits(static_cast<i64>(limits.high)) : fmt::format("{:g}", limits.high),
            unit_text(key));
    }
    return fmt::format("{} is out of range; would be right:{}{}", shown, bounds_hint(key), unit_text(key));
}

template <class Integer>
Problem assign_integer(const Key& key, const Entry& entry, Integer& target) {
    const auto* value = std::get_if<i64>(&entry.value);
    if (value == nullptr) {
        return fmt::format("{}; would be right: {}", found_text(entry), integer_hint(key, entry));
    }
    if (!entry.plain_digits) {
        return fmt::format("{} is not decimal; would be right: {}", entry.raw, group_digits(*value));
    }
    if (*value == 0 && entry.raw.starts_with('-')) {
        return fmt::format("{} has a sign that means nothing; would be right: 0", entry.raw);
    }
    if (!fault_active("config_range")) {
        if (Problem problem = out_of_range(key, static_cast<double>(*value), fmt::format("{}", *value))) {
            return problem;
        }
    }
    target = static_cast<Integer>(*value);
    return std::nullopt;
}

Problem assign_real(const Key& key, const Entry& entry, double& target) {
    double value = 0;
    if (const auto* real = std::get_if<double>(&entry.value)) {
        value = *real;
    } else if (const auto* integer = std::get_if<i64>(&entry.value)) {
        if (!entry.plain_digits) {
            return fmt::format("{} is not decimal; would be right: {}", entry.raw, *integer);
        }
        value = static_cast<double>(*integer);
    } else {
        return fmt::format("{}; would be right: {}", found_text(entry), real_hint(key, entry));
    }
    if (Problem problem = out_of_range(key, value, entry.raw.empty() ? fmt::format("{}", value) : entry.raw)) {
        return problem;
    }
    target = value;
    return std::nullopt;
}

Problem assign_boolean(const Entry& entry, bool& target) {
    const auto* value = std::get_if<bool>(&entry.value);
    if (value == nullptr) {
        return fmt::format("{}; would be right: true or false, without quotes", found_text(entry));
    }
    target = *value;
    return std::nullopt;
}

Problem assign_list(const Entry& entry, std::vector<std::string>& target) {
    const auto* value = std::get_if<std::vector<std::string>>(&entry.value);
    if (value == nullptr) {
        return fmt::format("{}; would be right: a list of texts, as in [\"optimizer.lr\"]", found_text(entry));
    }
    target = *value;
    return std::nullopt;
}

Problem assign_integers(const Key& key, const Entry& entry, std::vector<i64>& target) {
    const auto* value = std::get_if<std::vector<i64>>(&entry.value);
    if (value == nullptr) {
        return fmt::format("{}; would be right: a list of integers{}{}, as in [4, 3, 3]", found_text(entry),
                           bounds_hint(key), unit_text(key));
    }
    for (const i64 element : *value) {
        if (Problem problem = out_of_range(key, static_cast<double>(element), fmt::format("{}", element))) {
            return problem;
        }
    }
    target = *value;
    return std::nullopt;
}

Problem not_a_choice(const Key& key, const std::string& name) {
    const std::vector<std::string> choices(key.choices.begin(), key.choices.end());
    const std::optional<std::string> near = nearest(name, choices);
    return fmt::format("unknown value {}; would be right: {}{}", quote(name), constraint_text(key),
                       near ? fmt::format(" (nearest: \"{}\")", *near) : std::string());
}

Problem assign_text(const Key& key, const Entry& entry, std::string& target) {
    const auto* value = std::get_if<std::string>(&entry.value);
    if (value == nullptr) {
        return fmt::format("{}; would be right: {} in quotes", found_text(entry),
                           key.choices.empty() ? "a text" : constraint_text(key));
    }
    if (!key.choices.empty() && std::find(key.choices.begin(), key.choices.end(), *value) == key.choices.end()) {
        return not_a_choice(key, *value);
    }
    if (has_control(*value)) {
        return fmt::format("has a line break or control character: {}; would be right: one line of plain text",
                           quote(*value));
    }
    target = *value;
    return std::nullopt;
}

Dtype dtype_named(std::string_view name) {
    for (const Dtype type : {Dtype::fp32, Dtype::fp64, Dtype::bf16, Dtype::fp16, Dtype::fp8_e4m3, Dtype::fp8_e5m2}) {
        if (name_of(type) == name) {
            return type;
        }
    }
    fail(ExitCode::usage, fmt::format("the schema names an unknown type {}", name));
}

template <class Enumeration>
Problem assign_choice(const Key& key, const Entry& entry, Enumeration& target) {
    std::string name;
    if (Problem problem = assign_text(key, entry, name)) {
        return problem;
    }
    if constexpr (std::is_same_v<Enumeration, Dtype>) {
        target = dtype_named(name);
    } else {
        // The table lists the names in the order of the enumeration.
        const auto found = std::find(key.choices.begin(), key.choices.end(), name);
        target = static_cast<Enumeration>(found - key.choices.begin());
    }
    return std::nullopt;
}

Problem assign(const Key& key, const Entry& entry, RunConfig& run) {
    return std::visit(Overload{[&](bool* target) { return assign_boolean(entry, *target); },
                               [&](i64* target) { return assign_integer(key, entry, *target); },
                               [&](u64* target) { return assign_integer(key, entry, *target); },
                               [&](double* target) { return assign_real(key, entry, *target); },
                               [&](std::string* target) { return assign_text(key, entry, *target); },
                               [&](std::vector<std::string>* target) { return assign_list(entry, *target); },
                               [&](std::vector<i64>* target) { return assign_integers(key, entry, *target); },
                               [&](auto* target) { return assign_choice(key, entry, *target); }},
                      key.field(run));
}

}  // namespace

void reset_key(const Key& key, RunConfig& run) {
    if (key.default_kind != DefaultKind::value) {
        std::visit(Overload{[](bool* target) { *target = false; }, [](std::string* target) { target->clear(); },
                            [](std::vector<std::string>* target) { target->clear(); },
                            [](std::vector<i64>* target) { target->clear(); }, [](auto* target) { *target = {}; }},
                   key.field(run));
        return;
    }
    Entry entry;
    entry.raw = std::string(key.standard);
    std::visit(Overload{[&](bool*) { entry.value = key.standard == "true"; },
                        [&](i64*) { entry.value = parse_integer(key.standard).value(); },
                        [&](u64*) { entry.value = parse_integer(key.standard).value(); },
                        [&](double*) { entry.value = parse_real(key.standard).value(); },
                        [&](std::vector<std::string>*) { entry.value = std::vector<std::string>{}; },
                        [&](std::vector<i64>*) { entry.value = std::vector<i64>{}; },
                        [&](auto*) { entry.value = std::string(key.standard); }},
               key.field(run));
    const Problem problem = assign(key, entry, run);
    require(!problem, ExitCode::usage,
            fmt::format("the schema's own default of {}: {}", key.full_name(), problem.value_or("")));
}

RunConfig standard_run() {
    RunConfig run;
    for (const Key& key : schema()) {
        reset_key(key, run);
    }
    return run;
}

Assigned assign_entries(const std::vector<Entry>& entries, RunConfig& run, Faults& faults) {
    Assigned result;
    const auto sections = section_names();
    for (const Entry& entry : entries) {
        if (entry.key.empty() && std::find(sections.begin(), sections.end(), entry.section) != sections.end()) {
            continue;  // a known section without keys
        }
        const Key* key = find_key(entry.section, entry.key);
        if (key == nullptr) {
            if (fault_active("config_unknown_key")) {
                continue;
            }
            const Key* suspect = add_unknown(entry, faults);
            if (suspect != nullptr) {
                result.bad.insert(suspect->full_name());
            }
            continue;
        }
        if (const Problem problem = assign(*key, entry, run)) {
            faults.add(entry.where, entry.full_name(), *problem);
            result.bad.insert(entry.full_name());
            continue;
        }
        result.given[entry.full_name()] = entry;
    }
    return result;
}

}  // namespace ogrom
