// Comes in: a run's folder. Goes out: its figures, read. Next: report/run_page.cpp
#include "src/report/run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "src/base/text.h"
#include "src/io/metrics_csv.h"

namespace ogrom {
namespace {

constexpr i64 largest_text = i64{16} << 20;
constexpr std::size_t most_events = 100;

std::string optional_text(const std::string& path, std::vector<std::string>& notes) {
    if (!file_exists(path)) {
        notes.push_back(fmt::format("{} is not there", path));
        return {};
    }
    try {
        return read_file(path, largest_text);
    } catch (const Error& error) {
        notes.emplace_back(error.what());
        return {};
    }
}

template <class Value>
Value value_or(const nlohmann::json& object, const char* key, Value otherwise) {
    const auto found = object.find(key);
    if (found == object.end()) {
        return otherwise;
    }
    if constexpr (std::is_same_v<Value, std::string>) {
        return found->is_string() ? found->get<std::string>() : otherwise;
    } else {
        return found->is_number_integer() ? found->get<Value>() : otherwise;
    }
}

// A line that its writer could not finish is passed over and counted.
std::vector<RunEvent> read_events(const std::string& path, std::vector<std::string>& notes) {
    std::vector<RunEvent> events;
    i64 damaged = 0;
    if (!file_exists(path)) {
        return events;
    }
    for (const std::string& line : split(optional_text(path, notes), '\n')) {
        if (line.empty()) {
            continue;
        }
        try {
            const auto event = parse_json<nlohmann::json>(line, path, ExitCode::data);
            require(event.is_object(), ExitCode::data, path + ": no object");
            events.push_back({value_or<std::string>(event, "time", ""), value_or<std::string>(event, "host", ""),
                              value_or<std::string>(event, "phase", ""), value_or<std::string>(event, "text", ""),
                              value_or<i64>(event, "rank", 0), value_or<i64>(event, "step", 0),
                              value_or<i64>(event, "code", 0)});
        } catch (const Error&) {
            ++damaged;
        }
    }
    if (damaged > 0) {
        notes.push_back(fmt::format("{}: {} lines are no events and are left out", path, damaged));
    }
    if (events.size() > most_events) {
        notes.push_back(fmt::format("{}: the last {} of {} events are shown", path, most_events, events.size()));
        events.erase(events.begin(), events.end() - most_events);
    }
    return events;
}

std::vector<RankTimes> read_ranks(const std::string& path, std::vector<std::string>& notes) {
    if (!file_exists(path)) {
        notes.push_back(fmt::format("{} is not there: times by rank are written when a run ends in order", path));
        return {};
    }
    try {
        return read_rank_times(path);
    } catch (const Error& error) {
        notes.emplace_back(error.what());
        return {};
    }
}

std::string name_of_folder(const std::string& folder) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::weakly_canonical(folder, error);
    const std::filesystem::path used = error ? std::filesystem::path(folder) : path;
    return used.has_filename() ? used.filename().string() : used.parent_path().filename().string();
}

double mean_of(const std::vector<StepMetrics>& rows, std::size_t first, std::size_t last, double StepMetrics::*field) {
    double sum = 0;
    i64 count = 0;
    for (std::size_t i = first; i < last; ++i) {
        if (std::isfinite(rows[i].*field)) {
            sum += rows[i].*field;
            ++count;
        }
    }
    return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

RunRecord read_run(const std::string& folder) {
    RunRecord run;
    run.folder = folder;
    run.name = name_of_folder(folder);
    MetricsFound found = find_metrics_rows(join_path(folder, "metrics.csv"));
    run.rows = std::move(found.rows);
    require(!run.rows.empty(), ExitCode::data,
            fmt::format("{}: no step is recorded yet{}; would be right: a run that made at least one",
                        join_path(folder, "metrics.csv"), found.damage.empty() ? "" : " (" + found.damage + ")"));
    if (!found.damage.empty()) {
        run.notes.push_back(found.damage + "; rows that can be read are here");
    }
    run.ranks = read_ranks(join_path(folder, rank_times_name), run.notes);
    run.events = read_events(join_path(folder, "events.jsonl"), run.notes);
    run.provenance = optional_text(join_path(folder, "provenance.json"), run.notes);
    run.run_file = optional_text(join_path(folder, "run.toml"), run.notes);
    return run;
}

Thinned thinned(const std::vector<StepMetrics>& rows, std::size_t most) {
    Thinned result;
    const std::size_t each = std::max<std::size_t>(1, (rows.size() + most - 1) / most);
    result.steps_each = static_cast<i64>(each);
    for (std::size_t first = 0; first < rows.size(); first += each) {
        const std::size_t last = std::min(rows.size(), first + each);
        StepMetrics row = rows[last - 1];
        row.valid_loss.reset();
        for (double StepMetrics::*field :
             {&StepMetrics::loss, &StepMetrics::gradient_norm, &StepMetrics::lr, &StepMetrics::step_s,
              &StepMetrics::tokens_per_s, &StepMetrics::model_tflops}) {
            row.*field = mean_of(rows, first, last, field);
        }
        result.rows.push_back(row);
    }
    return result;
}

HistogramFigure step_histogram(const std::vector<StepMetrics>& rows) {
    HistogramFigure figure{"step-times", "Steps by their time", "step [ms]", "steps", {}, {}, ""};
    std::vector<double> times;
    for (std::size_t i = 1; i < rows.size(); ++i) {  // the first step warms up
        if (std::isfinite(rows[i].step_s) && rows[i].step_s > 0) {
            times.push_back(1e3 * rows[i].step_s);
        }
    }
    if (times.empty()) {
        return figure;
    }
    std::sort(times.begin(), times.end());
    const double low = times.front(), most = times[(times.size() - 1) * 95 / 100];
    const double cap = low + 3 * (most - low);
    const double high = most > low && times.back() > cap ? cap : std::max(times.back(), low * (1 + 1e-6));
    const std::size_t bins = std::min<std::size_t>(30, std::max<std::size_t>(5, times.size() / 4));
    figure.counts.assign(bins, 0);
    for (std::size_t i = 0; i <= bins; ++i) {
        figure.edges.push_back(low + (high - low) * static_cast<double>(i) / static_cast<double>(bins));
    }
    i64 beyond = 0;
    for (const double time : times) {
        beyond += time > high ? 1 : 0;
        const double place = (time - low) / (high - low) * static_cast<double>(bins);
        ++figure.counts[std::min(bins - 1, static_cast<std::size_t>(std::max(place, 0.0)))];
    }
    figure.note = "The first step is left out.";
    if (beyond > 0) {
        figure.note += fmt::format(" {} steps took longer than {:.4g} ms, at most {:.4g} ms; they are in the last bar.",
                                   beyond, high, times.back());
    }
    return figure;
}

}  // namespace ogrom
