#include "src/config/resolve.h"

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <fmt/format.h>

#include "kernels/common/fault.h"

#include "src/base/text.h"

namespace ogrom {

namespace {

// How far a feature that has a name but no code is from being usable, in the user's words.
std::string_view feature(const std::string& key) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 2> names = {
        {{"parallel.context", "context parallelism is"}, {"parallel.expert", "expert parallelism is"}}};
    const auto found = std::find_if(names.begin(), names.end(), [&](const auto& row) { return row.first == key; });
    return found == names.end() ? "this value is" : found->second;
}

std::string unquoted(const std::string& text) {
    return text.size() >= 2 && text.front() == '"' ? text.substr(1, text.size() - 2) : text;
}

// Not the user's doing, so dropped with a note: the key stands in a base file while a file above it (or --set) chose
// the value that makes it idle, and nobody can take a key out of a base file; the number of ranks started makes it
// idle; or what it belongs to was dropped for one of these reasons.
bool excused(const Resolution& r, const Key& key, const Entry& entry) {
    const std::string name(key.effect.decider);
    const auto decider = r.assigned.given.find(name);
    if (decider != r.assigned.given.end()) {
        return decider->second.layer > entry.layer;
    }
    return name.starts_with("parallel.") && (r.derived.contains(name) || r.idle.contains(name));
}

bool has_effect(const Key& key, const RunConfig& run) {
    return key.effect.holds == nullptr || key.effect.holds(run);
}

std::string origin(const Resolution& r, const std::string& name) {
    const auto derived = r.derived.find(name);
    const auto given = r.assigned.given.find(name);
    if (given != r.assigned.given.end()) {
        return derived == r.derived.end() ? given->second.where
                                          : fmt::format("{}, derived: {}", given->second.where, derived->second);
    }
    return derived == r.derived.end() ? "default" : fmt::format("derived: {}", derived->second);
}

// Weights of 16 bits: arithmetic in fp32, on a GPU.
void check_16_bits(Resolution& r) {
    const std::string_view type = name_of(r.run.precision.weights);
    if (r.sound({"numerics.compute"}) && r.run.numerics.compute != Dtype::fp32) {
        r.fault("precision.weights", fmt::format("{} with numerics.compute {}; would be right: numerics.compute fp32",
                                                 type, name_of(r.run.numerics.compute)));
    }
    if (r.sound({"run.device"}) && r.run.run.device == "cpu") {
        r.fault("precision.weights",
                fmt::format("{} needs a GPU; would be right: fp32, or run.device cuda or auto", type));
    }
}

// Factors that change exponents alone, so that taking them off again leaves the bits.
void check_loss_scale(Resolution& r) {
    const PrecisionConfig& precision = r.run.precision;
    const auto check_power = [&](const char* key, i64 value) {
        if (r.sound({key}) && (value & (value - 1)) != 0) {
            const i64 below = static_cast<i64>(std::bit_floor(static_cast<u64>(value)));
            r.fault(key, fmt::format("{} is no power of 2; would be right: {} or {}", value, below, 2 * below));
        }
    };
    check_power("precision.loss_scale_initial", precision.loss_scale_initial);
    check_power("precision.loss_scale_min", precision.loss_scale_min);
    if (r.sound({"precision.loss_scale_initial", "precision.loss_scale_min"}) &&
        precision.loss_scale_min > precision.loss_scale_initial) {
        r.fault("precision.loss_scale_min",
                fmt::format("{} is above precision.loss_scale_initial {}; would be right: {} or less",
                            precision.loss_scale_min, precision.loss_scale_initial, precision.loss_scale_initial));
    }
}

// Products in fp8: between bf16 activations, on a GPU.
void check_linears(Resolution& r) {
    if (r.run.numerics.linears != LinearProducts::fp8) {
        return;
    }
    if (r.sound({"precision.weights"}) && r.run.precision.weights != Dtype::bf16) {
        r.fault("numerics.linears", fmt::format("fp8 with precision.weights {}; would be right: precision.weights bf16",
                                                name_of(r.run.precision.weights)));
    }
}

}  // namespace

void resolve_required(Resolution& r) {
    for (const Key& key : schema()) {
        const std::string name = key.full_name();
        if (key.default_kind == DefaultKind::required && !r.given(name)) {
            if (r.sound({name.c_str()})) {
                r.fault(name, fmt::format("missing; would be right: {} in [{}] ({}{}{})", key.name, key.section,
                                          type_name(key), key.unit.empty() ? "" : fmt::format(", {}", key.unit),
                                          fmt::format("; {}", key.meaning)));
            }
            r.assigned.bad.insert(name);
        }
    }
}

void resolve_built(Resolution& r) {
    for (const Key& key : schema()) {
        if (key.built.empty() || !r.given(key.full_name())) {
            continue;
        }
        const std::vector<std::string> built = split(key.built, ' ');
        const std::string value = unquoted(value_text(key, r.run));
        if (std::find(built.begin(), built.end(), value) == built.end()) {
            r.fault(key.full_name(), fmt::format("{}: {} not built yet; would be right: {}", value,
                                                 feature(key.full_name()), join(built, " or ")));
        }
    }
}

void resolve_effects(Resolution& r) {
    for (const Key& key : schema()) {
        const std::string name = key.full_name();
        const auto found = r.assigned.given.find(name);
        if (found == r.assigned.given.end() || has_effect(key, r.run) || fault_active("config_no_effect") ||
            !r.sound({std::string(key.effect.decider).c_str()})) {
            continue;
        }
        if (excused(r, key, found->second)) {
            r.note(fmt::format("{} ({}) is without effect here: needs {}", name, found->second.where, key.effect.when));
            r.idle.insert(name);
        } else {
            r.fault(name, fmt::format("has no effect in this combination; would be right: without it, or with {}",
                                      key.effect.when));
            r.assigned.bad.insert(name);
        }
        r.assigned.given.erase(found);
        reset_key(key, r.run);
    }
}

void resolve_types(Resolution& r) {
    const Dtype compute = r.run.numerics.compute;
    const std::pair<const char*, Dtype&> followers[] = {{"precision.weights", r.run.precision.weights},
                                                        {"comm.gradient_dtype", r.run.comm.gradient_dtype}};
    for (const auto& [key, type] : followers) {
        if (!r.given(key)) {
            type = compute;
            r.derived[key] = "= numerics.compute";
        } else if (key == std::string_view("precision.weights") && has_16_bits(type)) {
            check_16_bits(r);
        } else if (r.sound({key, "numerics.compute"}) && type != compute &&
                   (type == Dtype::fp32 || type == Dtype::fp64)) {
            r.fault(key, fmt::format("{} differs from numerics.compute {}: not built yet; would be right: {}, or "
                                     "without this key",
                                     name_of(type), name_of(compute), name_of(compute)));
        }
    }
    check_loss_scale(r);
    check_linears(r);
}

void resolve_run_section(Resolution& r) {
    RunSection& section = r.run.run;
    if (!r.given("run.name")) {
        section.name = std::filesystem::path(r.input.path).stem().string();
        r.derived["run.name"] = "name of the run file";
    }
    if (section.name.find('/') != std::string::npos || section.name.empty() || section.name.starts_with('.') ||
        has_control(section.name)) {
        r.fault("run.name", fmt::format("{} cannot name a folder; would be right: a name without '/', control "
                                        "characters and a leading dot",
                                        quote(section.name)));
    }
    if (!r.given("run.output") || section.output.empty()) {
        section.output = "results/runs/" + section.name;
        r.derived["run.output"] = "results/runs/<run.name>";
    }
    if (r.sound({"data.train"}) && r.given("data.train") && r.run.data.train.empty()) {
        r.fault("data.train", "empty; would be right: the prefix of a token set made by `ogrom data`");
    }
    for (const std::string& name : r.run.checkpoint.allow_changed) {
        const Key* key = find_key(name);
        if (key == nullptr) {
            r.fault("checkpoint.allow_changed", fmt::format("unknown key \"{}\"; `ogrom keys` lists all", name));
        } else if (key->on_resume == OnResume::fixed) {
            r.fault("checkpoint.allow_changed",
                    fmt::format("{} decides the state itself and can never change on resume; would be right: a new run",
                                name));
        }
    }
}

std::string resolved_text(const Resolution& r) {
    std::string text =
        fmt::format("# Resolved run file of {}: every key, its final value and where it came from.\n", r.input.path);
    std::string_view section;
    for (const Key& key : schema()) {
        if (key.section != section) {
            section = key.section;
            text += fmt::format("\n[{}]\n", section);
        }
        if (has_effect(key, r.run)) {
            text += fmt::format("{} = {}  # {}\n", key.name, value_text(key, r.run), origin(r, key.full_name()));
        } else {
            text += fmt::format("# {}: no effect, needs {}\n", key.name, key.effect.when);
        }
    }
    return text;
}

}  // namespace ogrom
