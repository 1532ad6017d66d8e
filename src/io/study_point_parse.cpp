// The strict reader of study points: a file may come from another machine, another version, or an editor.
// Comes in: text and the path that it came from. Goes out: a point whose figures fit each other.
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

#include "src/base/error.h"
#include "src/base/json.h"
#include "src/base/text.h"
#include "src/io/study_point.h"

namespace ogrom {

using nlohmann::ordered_json;

namespace {

constexpr i64 most_ranks = 1 << 20;
constexpr std::size_t most_text = 1 << 20;  // bytes of one text

// One object of the file: every key is taken exactly once, and done() refuses what nobody took.
class Keys {
public:
    Keys(const ordered_json& object, std::string path, std::string place)
        : object_(object), path_(std::move(path)), place_(std::move(place)) {
        if (!object_.is_object()) {
            refuse_here("is no object");
        }
    }

    [[noreturn]] void refuse(const std::string& key, const std::string& right) const {
        const std::string found = object_.contains(key) ? json_text(object_.at(key)) : std::string("nothing");
        fail(ExitCode::data, fmt::format("{}: {}{}: {}; would be right: {}", path_, place_, key, found, right));
    }

    const ordered_json& take(const std::string& key, const std::string& right) {
        taken_.insert(key);
        if (!object_.contains(key)) {
            refuse(key, right);
        }
        return object_.at(key);
    }

    std::string text(const std::string& key) {
        const ordered_json& value = take(key, "a text");
        if (!value.is_string() || value.get_ref<const std::string&>().size() > most_text) {
            refuse(key, fmt::format("a text of at most {} bytes", most_text));
        }
        return value.get<std::string>();
    }

    bool flag(const std::string& key) {
        const ordered_json& value = take(key, "true or false");
        if (!value.is_boolean()) {
            refuse(key, "true or false");
        }
        return value.get<bool>();
    }

    i64 count(const std::string& key, i64 low, i64 high = i64{1} << 60) {
        const std::string right = fmt::format("a whole number from {} to {}", low, high);
        const ordered_json& value = take(key, right);
        if (!value.is_number_integer() || value.get<double>() < static_cast<double>(low) ||
            value.get<double>() > static_cast<double>(high)) {
            refuse(key, right);
        }
        return value.get<i64>();
    }

    double number(const std::string& key, double low = 0) {
        const std::string right = fmt::format("a finite number >= {:g}", low);
        const ordered_json& value = take(key, right);
        if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < low) {
            refuse(key, right);
        }
        return value.get<double>();
    }

    const ordered_json& list(const std::string& key, std::size_t most) {
        const std::string right = fmt::format("a list of at most {} entries", most);
        const ordered_json& value = take(key, right);
        if (!value.is_array() || value.size() > most) {
            refuse(key, right);
        }
        return value;
    }

    Keys inside(const std::string& key, const ordered_json& value) const {
        return {value, path_, fmt::format("{}{}.", place_, key)};
    }

    void done() const {
        for (const auto& [key, value] : object_.items()) {
            if (!taken_.contains(key)) {
                fail(ExitCode::data, fmt::format("{}: {}{}: unknown key; this program reads format {}", path_, place_,
                                                 quote(key), study_point_format));
            }
        }
    }

private:
    [[noreturn]] void refuse_here(const std::string& what) const {
        const std::string place = place_.empty() ? "the file" : place_.substr(0, place_.size() - 1);
        fail(ExitCode::data,
             fmt::format("{}: {} {}; would be right: a study point as `ogrom scale` writes it", path_, place, what));
    }

    const ordered_json& object_;
    std::string path_, place_;
    std::set<std::string> taken_;
};

Spread spread_at(Keys& keys, const std::string& key) {
    Keys inner = keys.inside(key, keys.take(key, "median, low and high"));
    const Spread spread{inner.number("median"), inner.number("low"), inner.number("high")};
    inner.done();
    if (spread.low > spread.median || spread.median > spread.high) {
        keys.refuse(key, "low <= median <= high");
    }
    return spread;
}

StepCauses causes_in(Keys keys) {
    StepCauses c;
    c.compute = keys.number("compute");
    c.tensor_comm = keys.number("tensor_comm");
    c.data_comm = keys.number("data_comm");
    c.pipeline_comm = keys.number("pipeline_comm");
    c.bubble = keys.number("bubble");
    c.optimizer = keys.number("optimizer");
    c.offload = keys.number("offload");
    c.data_wait = keys.number("data_wait");
    c.other = keys.number("other", -std::numeric_limits<double>::max());
    c.step = keys.number("step");
    keys.done();
    if (std::abs(c.sum() - c.step) > 1e-9 + 1e-6 * c.step) {  // figures with 7 digits still sum
        keys.refuse("step", fmt::format("{:.9g}, the sum of the causes", c.sum()));
    }
    return c;
}

void read_times(Keys& keys, StudyPoint& p) {
    for (const ordered_json& repeat : keys.list("step_s", 10'000)) {
        std::vector<double> times;
        if (!repeat.is_array() || repeat.empty() || static_cast<i64>(repeat.size()) > p.steps) {
            keys.refuse("step_s", fmt::format("lists of 1 to {} (steps) numbers, one for each repeat", p.steps));
        }
        for (const ordered_json& time : repeat) {
            if (!time.is_number() || !std::isfinite(time.get<double>()) || time.get<double>() <= 0) {
                keys.refuse("step_s", "finite seconds > 0");
            }
            times.push_back(time.get<double>());
        }
        p.step_s.push_back(std::move(times));
    }
    if (p.step_s.empty()) {
        keys.refuse("step_s", "at least one repeat, or a reason in \"refused\"");
    }
}

void read_figures(Keys& keys, StudyPoint& p) {
    read_times(keys, p);
    p.tokens_per_s = spread_at(keys, "tokens_per_s");
    p.step_median_s = spread_at(keys, "step_median_s");
    p.matmul_rate = keys.number("matmul_rate");
    const ordered_json& causes = keys.list("causes", most_ranks);
    if (static_cast<i64>(causes.size()) != p.ranks) {
        keys.refuse("causes", fmt::format("one object for each of the {} ranks", p.ranks));
    }
    for (std::size_t i = 0; i < causes.size(); ++i) {
        p.causes.push_back(causes_in(keys.inside(fmt::format("causes[{}]", i), causes[i])));
    }
    const ordered_json& ledger = keys.list("ledger", 10'000);
    for (std::size_t i = 0; i < ledger.size(); ++i) {
        Keys line = keys.inside(fmt::format("ledger[{}]", i), ledger[i]);
        p.ledger.push_back({line.text("name"), line.text("tier"), line.count("bytes", 0)});
        line.done();
    }
    const ordered_json& traffic = keys.list("traffic", 1'000);
    for (std::size_t i = 0; i < traffic.size(); ++i) {
        Keys line = keys.inside(fmt::format("traffic[{}]", i), traffic[i]);
        p.traffic.push_back({line.text("axis"), line.count("bytes", 0)});
        line.done();
    }
    if (!keys.take("predicted_step_s", "a number, or null").is_null()) {
        p.predicted_step_s = keys.number("predicted_step_s");
    }
}

void read_what(Keys& keys, StudyPoint& p) {
    p.study = keys.text("study");
    const std::string kind = keys.text("kind");
    if (kind != name_of(StudyKind::weak) && kind != name_of(StudyKind::strong)) {
        keys.refuse("kind", "\"weak\" or \"strong\"");
    }
    p.kind = kind == name_of(StudyKind::weak) ? StudyKind::weak : StudyKind::strong;
    p.layout = keys.text("layout");
    p.axis = keys.text("axis");
    if (p.axis != "dp" && p.axis != "tp" && p.axis != "pp") {
        keys.refuse("axis", "\"dp\", \"tp\" or \"pp\"");
    }
    p.ranks = keys.count("ranks", 1, most_ranks);
    p.id = keys.text("id");
    if (p.id != study_point_id(p.kind, p.layout, p.ranks)) {
        keys.refuse("id", quote(study_point_id(p.kind, p.layout, p.ranks)));
    }
    p.nodes = keys.count("nodes", 1, most_ranks);
    p.ranks_per_node = keys.count("ranks_per_node", 1, most_ranks);
}

// Of a refused point some are not known: 0 there.
void read_run(Keys& keys, StudyPoint& p) {
    const i64 least = p.refused.empty() ? 1 : 0;
    p.pipeline = keys.count("pipeline", least, most_ranks);
    p.data = keys.count("data", least, most_ranks);
    p.tensor = keys.count("tensor", least, most_ranks);
    if (p.refused.empty() && p.pipeline * p.data * p.tensor != p.ranks) {
        keys.refuse("ranks", "pipeline x data x tensor");
    }
    p.zero = keys.count("zero", 0, 3);
    p.schedule = keys.text("schedule");
    p.oversubscribed = keys.flag("oversubscribed");
    p.threads_per_rank = keys.count("threads_per_rank", least);
    p.device = keys.text("device");
    p.model = keys.text("model");
    p.parameters = keys.count("parameters", least);
    p.layers = keys.count("layers", least);
    p.hidden = keys.count("hidden", least);
    p.heads = keys.count("heads", least);
    p.sequence = keys.count("sequence", least);
    p.vocabulary = keys.count("vocabulary", least);
    p.weights_dtype = keys.text("weights_dtype");
    p.recompute = keys.text("recompute");
    p.micro_batch = keys.count("micro_batch", least);
    p.accumulation = keys.count("accumulation", least);
    p.global_batch = keys.count("global_batch", least);
    p.tokens_per_step = keys.count("tokens_per_step", least);
    p.warmup_steps = keys.count("warmup_steps", 0);
    p.steps = keys.count("steps", least);
    p.skipped_steps = keys.count("skipped_steps", 0);
    p.model_flops_per_token = keys.number("model_flops_per_token");
    p.model_flops_square_per_token = keys.number("model_flops_square_per_token");
    p.hardware_flops_per_token = keys.number("hardware_flops_per_token");
}

void read_provenance(Keys& keys, StudyPoint& p) {
    p.machine = keys.text("machine");
    p.host = keys.text("host");
    p.commit = keys.text("commit");
    p.date = keys.text("date");
    p.command = keys.text("command");
    p.run_file = keys.text("run_file");
    const ordered_json& versions = keys.take("versions", "texts by name");
    if (!versions.is_object() || versions.size() > 1'000) {
        keys.refuse("versions", "texts by name");
    }
    Keys inner = keys.inside("versions", versions);
    for (const auto& [name, version] : versions.items()) {
        p.versions.emplace_back(name, inner.text(name));
    }
}

}  // namespace

StudyPoint parse_study_point(const std::string& text, const std::string& path) {
    const auto root = parse_json<ordered_json>(text, path, ExitCode::data);
    Keys keys(root, path, "");
    if (keys.count("format", 0) != study_point_format) {
        keys.refuse("format", fmt::format("{}, the only one that this program reads", study_point_format));
    }
    StudyPoint point;
    read_what(keys, point);
    point.refused = keys.text("refused");
    read_run(keys, point);
    read_provenance(keys, point);
    if (point.refused.empty()) {
        read_figures(keys, point);
    }
    keys.done();
    return point;
}

}  // namespace ogrom
