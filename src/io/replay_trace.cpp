#include "src/io/replay_trace.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "src/base/log.h"

namespace ogrom {

using nlohmann::ordered_json;

namespace {

constexpr i64 format = 1;
constexpr i64 replay_limit = 60'000;  // bytes: most_replay_steps rows and the conditions take half of it

[[noreturn]] void damaged(const std::string& path, const std::string& reason) {
    fail(ExitCode::checkpoint, fmt::format("{}: {}", path, reason));
}

std::string hex(u64 word) {
    return fmt::format("{:016x}", word);
}

u64 word_of(const ordered_json& value, const std::string& path) {
    const auto text = value.get<std::string>();
    if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
        damaged(path, fmt::format("'{}' is not a word of 16 hex digits", text));
    }
    return std::stoull(text, nullptr, 16);
}

// JSON has no NaN: the decimal is null then, the bits say it.
void put(ordered_json& row, const std::string& name, double value) {
    row[name] = value;
    row[name + "_bits"] = hex(std::bit_cast<u64>(value));
}

ordered_json row_json(const ReplayRow& row) {
    ordered_json json = {{"step", row.step}};
    put(json, "loss", row.loss);
    put(json, "gradient_norm", row.gradient_norm);
    put(json, "lr", row.lr);
    json["skipped"] = row.skipped;
    json["weight_hash"] = hex(row.weight_hash);
    return json;
}

ReplayRow row_of(const ordered_json& json, const std::string& path) {
    const auto real = [&](const char* name) { return std::bit_cast<double>(word_of(json.at(name), path)); };
    return {json.at("step").get<i64>(),     real("loss_bits"),
            real("gradient_norm_bits"),     real("lr_bits"),
            json.at("skipped").get<bool>(), word_of(json.at("weight_hash"), path)};
}

ordered_json record_json(const ReplayRecord& record) {
    const ReplayConditions& conditions = record.conditions;
    ordered_json rows = ordered_json::array();
    for (const ReplayRow& row : record.rows) {
        rows.push_back(row_json(row));
    }
    return {{"format", format},
            {"step", record.step},
            {"weight_hash", hex(record.weight_hash)},
            {"ranks", conditions.ranks},
            {"arithmetic", conditions.arithmetic},
            {"repeatable", conditions.repeatable},
            {"any_layout", conditions.any_layout},
            {"bits_depend_on", conditions.bits_depend_on},
            {"layout", conditions.layout},
            {"wanted", record.wanted},
            {"steps", std::move(rows)}};
}

std::string dump(const ordered_json& json) {
    return json.dump(1, ' ', false, ordered_json::error_handler_t::replace);
}

ReplayRecord record_of(const ordered_json& root, const std::string& path) {
    if (const i64 found = root.at("format").get<i64>(); found != format) {
        damaged(path, fmt::format("format {} is not known; this program reads format {}", found, format));
    }
    ReplayRecord record;
    record.step = root.at("step").get<i64>();
    record.weight_hash = word_of(root.at("weight_hash"), path);
    record.wanted = root.at("wanted").get<i64>();
    ReplayConditions& conditions = record.conditions;
    conditions.ranks = root.at("ranks").get<i64>();
    conditions.arithmetic = root.at("arithmetic").get<std::string>();
    conditions.repeatable = root.at("repeatable").get<bool>();
    conditions.any_layout = root.at("any_layout").get<bool>();
    conditions.bits_depend_on = root.at("bits_depend_on").get<std::map<std::string, std::string>>();
    conditions.layout = root.at("layout").get<std::map<std::string, std::string>>();
    for (const ordered_json& row : root.at("steps")) {
        record.rows.push_back(row_of(row, path));
    }
    return record;
}

void add_differences(const std::map<std::string, std::string>& a, const std::map<std::string, std::string>& b,
                     std::vector<std::string>& lines) {
    for (const auto& [name, value] : a) {
        const auto other = b.find(name);
        if (other == b.end() || other->second != value) {
            lines.push_back(fmt::format("{}: {} when it was recorded, {} now", name, value,
                                        other == b.end() ? std::string("not known") : other->second));
        }
    }
    for (const auto& [name, value] : b) {
        if (!a.contains(name)) {
            lines.push_back(fmt::format("{}: not recorded, {} now", name, value));
        }
    }
}

}  // namespace

std::vector<std::string> reasons_against_bits(const ReplayConditions& a, const ReplayConditions& b) {
    std::vector<std::string> reasons;
    if (!a.repeatable || !b.repeatable) {
        reasons.push_back(
            fmt::format("{}: sums over ranks or on a GPU come in any order without numerics.deterministic",
                        a.repeatable ? "now" : "when it was recorded"));
    }
    if (a.arithmetic != b.arithmetic) {
        reasons.push_back(
            fmt::format("precision.weights: {} when it was recorded, {} now", a.arithmetic, b.arithmetic));
    }
    add_differences(a.bits_depend_on, b.bits_depend_on, reasons);
    if (!a.any_layout || !b.any_layout) {
        add_differences(a.layout, b.layout, reasons);
    }
    return reasons;
}

std::string to_text(const ReplayRecord& record) {
    ordered_json root = record_json(record);
    const std::string text = dump(root);
    root["check"] = hex(XXH3_64bits(text.data(), text.size()));
    return dump(root) + "\n";
}

ReplayRecord parse_replay(const std::string& text, const std::string& path) {
    ReplayRecord record;
    try {
        record = record_of(parse_json<ordered_json>(text, path, ExitCode::checkpoint), path);
    } catch (const ordered_json::exception& error) {
        damaged(path, fmt::format("not a record of steps: {}", error.what()));
    }
    const i64 rows = static_cast<i64>(record.rows.size());
    if (rows == 0 || rows > most_replay_steps) {
        damaged(path, fmt::format("holds {} steps; would be right: 1 to {}", rows, most_replay_steps));
    }
    for (i64 i = 0; i < rows; ++i) {
        const i64 step = record.rows[static_cast<std::size_t>(i)].step;
        if (record.step < 0 || step - i - 1 != record.step) {
            damaged(path, fmt::format("row {} is of step {}, the checkpoint of step {}", i + 1, step, record.step));
        }
    }
    if (to_text(record) != text) {
        damaged(path, "is not in the form that was written: a byte has changed");
    }
    return record;
}

std::optional<std::string> read_replay_text(const std::string& folder) {
    const std::string path = join_path(folder, replay_trace_name);
    return file_surely_exists(path) ? std::optional(read_file(path, replay_limit)) : std::nullopt;
}

ReplayTrace::ReplayTrace(i64 steps, Writes writes, ReplayConditions conditions)
    : steps_(steps), writes_(writes), conditions_(std::move(conditions)) {}

void ReplayTrace::begin(i64 step, u64 weight_hash) {
    abandon(step);  // saved again: the new folder takes the place of the old one
    if (steps_ > 0) {
        open_.push_back({{step, weight_hash, steps_, conditions_, {}}, {}, false});
    }
}

void ReplayTrace::publish(i64 step, const std::string& folder) {
    for (Open& open : open_) {
        if (open.record.step == step) {
            open.folder = folder;
            write(open);
        }
    }
    drop_finished();
}

void ReplayTrace::abandon(i64 step) {
    std::erase_if(open_, [&](const Open& o) { return o.record.step == step; });
}

bool ReplayTrace::wants(i64 step) const {
    return std::any_of(open_.begin(), open_.end(),
                       [&](const Open& o) { return step > o.record.step && step <= o.record.step + o.record.wanted; });
}

void ReplayTrace::add(const ReplayRow& row) {
    for (Open& open : open_) {
        const i64 rows = static_cast<i64>(open.record.rows.size());
        if (rows < open.record.wanted && row.step == open.record.step + rows + 1) {
            open.record.rows.push_back(row);
            write(open);
        }
    }
    drop_finished();
}

// Those that have all their rows and wait for no folder.
void ReplayTrace::drop_finished() {
    std::erase_if(open_, [&](const Open& o) {
        return static_cast<i64>(o.record.rows.size()) == o.record.wanted &&
               (writes_ == Writes::no || !o.folder.empty());
    });
}

void ReplayTrace::write(Open& open) const {
    if (writes_ == Writes::no || open.lost || open.folder.empty() || open.record.rows.empty()) {
        return;
    }
    try {
        if (file_surely_exists(open.folder)) {
            write_file_atomic(join_path(open.folder, replay_trace_name), to_text(open.record));
            return;
        }
    } catch (const Error& error) {
        if (file_exists(open.folder)) {  // else it was pruned a moment ago
            log_warning("{}; train --resume-verify will not have every step after step {}", error.what(),
                        open.record.step);
        }
    }
    open.lost = true;
}

}  // namespace ogrom
