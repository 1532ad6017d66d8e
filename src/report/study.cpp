// Comes in: points from any number of files. Goes out: groups of curves with efficiencies. Next:
// report/study_tables.cpp
#include "src/report/study.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "kernels/common/fault.h"

#include "src/base/error.h"
#include "src/base/text.h"
#include "src/report/table.h"

namespace ogrom {
namespace {

// Points of one group may stand side by side.
template <class Point>
auto group_key(Point& p) {
    return std::tie(p.parameters, p.model, p.layers, p.hidden, p.heads, p.sequence, p.vocabulary, p.weights_dtype,
                    p.device);
}

// Work of a point: strong, sequences of a step; weak, those of each rank, as a fraction in lowest terms.
std::pair<i64, i64> work_key(const StudyPoint& p) {
    if (p.kind == StudyKind::strong) {
        return {p.global_batch, 1};
    }
    const i64 common = std::max<i64>(std::gcd(p.global_batch, p.ranks), 1);
    return {p.global_batch / common, p.ranks / common};
}

std::string work_text(StudyKind kind, const std::pair<i64, i64>& work) {
    if (kind == StudyKind::strong) {
        return fmt::format("global batch {}", work.first);
    }
    return work.second == 1 ? fmt::format("{} sequences per rank", work.first)
                            : fmt::format("{}/{} sequences per rank", work.first, work.second);
}

// Refused points have no work of their own where nothing could be decided; they go with any.
bool has_work(const StudyPoint& p) {
    return p.global_batch > 0;
}

// What must be unique: model, its types and device, parameters; kind, layout, study, work, ranks.
using Slot = std::tuple<std::string, std::string, i64, StudyKind, std::string, std::string, std::pair<i64, i64>, i64>;

Slot slot_of(const StudyPoint& p) {
    const std::string types = fmt::format("{} {} {} {} {} {} {}", p.layers, p.hidden, p.heads, p.sequence, p.vocabulary,
                                          p.weights_dtype, p.device);
    const auto work = has_work(p) ? work_key(p) : std::pair<i64, i64>{0, 0};
    return {p.model, types, p.parameters, p.kind, p.layout, p.study, work, p.ranks};
}

std::vector<StudyPoint> without_doubles(const std::vector<SourcedPoint>& sourced, i64& doubles) {
    std::map<Slot, const SourcedPoint*> seen;
    std::vector<StudyPoint> kept;
    for (const SourcedPoint& entry : sourced) {
        const auto [found, is_new] = seen.emplace(slot_of(entry.point), &entry);
        if (is_new) {
            kept.push_back(entry.point);
            continue;
        }
        require(to_text(found->second->point) == to_text(entry.point), ExitCode::usage,
                fmt::format("{} and {} both measure {} on {} ranks ({}) of study {}; would be right: one of the two, "
                            "or studies with names of their own (run.name)",
                            found->second->path, entry.path, quote(entry.point.layout), entry.point.ranks,
                            name_of(entry.point.kind), quote(entry.point.study)));
        ++doubles;
    }
    return kept;
}

void set_efficiencies(Series& series) {
    const SeriesPoint* base = nullptr;
    for (const SeriesPoint& p : series.points) {
        const bool counts = p.counts() || (p.measured() && fault_active("efficiency_of_oversubscribed"));
        if (counts && (base == nullptr || p.point.ranks < base->point.ranks)) {
            base = &p;
        }
    }
    if (base == nullptr || base->point.tokens_per_s.low <= 0) {
        return;
    }
    series.base_ranks = base->point.ranks;
    const Spread of_base = base->point.tokens_per_s;
    for (SeriesPoint& p : series.points) {
        if (!p.counts() && !fault_active("efficiency_of_oversubscribed")) {
            continue;
        }
        const double ratio = static_cast<double>(series.base_ranks) / static_cast<double>(p.point.ranks);
        const Spread here = p.point.tokens_per_s;
        const bool is_base = &p == base;
        p.efficiency = {ratio * here.median / of_base.median, is_base ? 1 : ratio * here.low / of_base.high,
                        is_base ? 1 : ratio * here.high / of_base.low, series.base_ranks};
    }
}

using SeriesKey = std::tuple<StudyKind, std::string, std::string, std::pair<i64, i64>>;  // kind, layout, study, work

// Curves of the group's points. A study's name is part of the key only where two of them share a point.
std::vector<Series> series_of(const std::vector<StudyPoint>& points) {
    std::set<std::tuple<StudyKind, std::string, std::pair<i64, i64>, i64>> seen;
    bool by_study = false;
    std::map<std::pair<StudyKind, std::string>, std::set<std::pair<i64, i64>>> works;
    for (const StudyPoint& p : points) {
        by_study = !seen.emplace(p.kind, p.layout, work_key(p), p.ranks).second || by_study;
        if (has_work(p)) {
            works[{p.kind, p.layout}].insert(work_key(p));
        }
    }
    std::map<SeriesKey, Series> curves;
    std::vector<SeriesKey> order;
    for (const StudyPoint& p : points) {
        const auto& of_layout = works[{p.kind, p.layout}];
        const auto work = has_work(p)         ? work_key(p)
                          : of_layout.empty() ? std::pair<i64, i64>{0, 0}
                                              : *of_layout.begin();
        const SeriesKey key{p.kind, p.layout, by_study ? p.study : "", work};
        Series& series = curves[key];
        if (series.points.empty()) {
            order.push_back(key);
            series.kind = p.kind;
            series.label = p.layout + (of_layout.size() > 1 ? fmt::format(" ({})", work_text(p.kind, work)) : "") +
                           (by_study ? fmt::format(" [{}]", p.study) : "");
        }
        series.points.push_back({p, {}});
    }
    std::vector<Series> result;
    for (const SeriesKey& key : order) {
        Series& series = curves[key];
        std::stable_sort(series.points.begin(), series.points.end(),
                         [](const SeriesPoint& a, const SeriesPoint& b) { return a.point.ranks < b.point.ranks; });
        set_efficiencies(series);
        result.push_back(std::move(series));
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const Series& a, const Series& b) { return a.kind < b.kind; });  // weak first
    return result;
}

// "commit: a, b" where not all points agree.
template <class Get>
void note_difference(std::vector<std::string>& notes, const std::vector<StudyPoint>& points, const char* what,
                     Get get) {
    std::set<std::string> values;
    for (const StudyPoint& p : points) {
        if (const std::string value = get(p); !value.empty()) {
            values.insert(value);
        }
    }
    if (values.size() > 1) {
        const std::vector<std::string> list(values.begin(), values.end());
        const std::size_t most = 6;
        const std::string more = list.size() > most ? fmt::format(" and {} more", list.size() - most) : "";
        notes.push_back(fmt::format("{} differs between points: {}{}", what,
                                    join(std::span(list).first(std::min(most, list.size())), ", "), more));
    }
}

std::vector<std::string> group_notes(const std::vector<StudyPoint>& points) {
    std::vector<std::string> notes;
    note_difference(notes, points, "The commit of the program", [](const StudyPoint& p) { return p.commit; });
    note_difference(notes, points, "The machine", [](const StudyPoint& p) { return p.machine; });
    note_difference(notes, points, "The number of threads per rank",
                    [](const StudyPoint& p) { return p.refused.empty() ? fmt::format("{}", p.threads_per_rank) : ""; });
    note_difference(notes, points, "The recomputation", [](const StudyPoint& p) { return p.recompute; });
    note_difference(notes, points, "The number of repeats",
                    [](const StudyPoint& p) { return p.refused.empty() ? fmt::format("{}", p.step_s.size()) : ""; });
    double slow = std::numeric_limits<double>::infinity(), fast = 0;
    i64 skipped = 0, crowded = 0;
    for (const StudyPoint& p : points) {
        if (p.refused.empty() && p.matmul_rate > 0 && !p.oversubscribed) {
            slow = std::min(slow, p.matmul_rate);
            fast = std::max(fast, p.matmul_rate);
        }
        skipped += p.skipped_steps;
        crowded += p.refused.empty() && p.oversubscribed ? 1 : 0;
    }
    if (fast > 1.1 * slow) {
        notes.push_back(
            fmt::format("The measured matrix rate of a rank differs between points: {:.4g} to {:.4g} "
                        "TFLOP/s; other load on the machine is likely",
                        slow / 1e12, fast / 1e12));
    }
    if (skipped > 0) {
        notes.push_back(
            fmt::format("{} steps had a loss or gradient that is not finite; they are in no figure", skipped));
    }
    if (crowded > 0) {
        notes.push_back(
            fmt::format("{} points have more ranks than cores or GPUs (oversubscribed): they have no "
                        "efficiency and are in no chart",
                        crowded));
    }
    return notes;
}

StudyGroup make_group(const std::vector<StudyPoint>& points) {
    StudyGroup group;
    const auto found =
        std::find_if(points.begin(), points.end(), [](const StudyPoint& p) { return p.refused.empty(); });
    group.sample = found == points.end() ? points.front() : *found;
    const StudyPoint& s = group.sample;
    group.title = fmt::format("{}: {} parameters, {} layers, hidden {}, sequence {}, {} weights, {}",
                              s.model.empty() ? "model" : s.model, grouped(s.parameters), s.layers, grouped(s.hidden),
                              grouped(s.sequence), s.weights_dtype, s.device);
    group.series = series_of(points);
    group.notes = group_notes(points);
    return group;
}

// A refused point may not know its model: it goes with the points of its study.
void adopt_refused(std::vector<StudyPoint>& points) {
    for (StudyPoint& p : points) {
        if (p.refused.empty() || p.parameters > 0) {
            continue;
        }
        const auto found = std::find_if(points.begin(), points.end(), [&](const StudyPoint& other) {
            return other.parameters > 0 && other.study == p.study && (p.model.empty() || other.model == p.model);
        });
        if (found != points.end()) {
            group_key(p) = group_key(*found);
        }
    }
}

}  // namespace

Study join_points(const std::vector<SourcedPoint>& sourced) {
    Study study;
    i64 doubles = 0;
    std::vector<StudyPoint> points = without_doubles(sourced, doubles);
    study.points = static_cast<i64>(points.size());
    if (doubles > 0) {
        study.notes.push_back(
            fmt::format("{} files hold a point that another file holds with the same figures; each "
                        "is taken once",
                        doubles));
    }
    adopt_refused(points);
    std::stable_sort(points.begin(), points.end(),
                     [](const StudyPoint& a, const StudyPoint& b) { return group_key(a) < group_key(b); });
    std::set<std::string> names;
    for (std::size_t first = 0, last = 0; first < points.size(); first = last) {
        while (last < points.size() && group_key(points[last]) == group_key(points[first])) {
            names.insert(points[last].study);
            ++last;
        }
        study.groups.push_back(make_group(
            {points.begin() + static_cast<std::ptrdiff_t>(first), points.begin() + static_cast<std::ptrdiff_t>(last)}));
    }
    const std::vector<std::string> list(names.begin(), names.end());
    const std::size_t most = 4;
    const std::string more = list.size() > most ? fmt::format(" and {} more", list.size() - most) : "";
    study.title = list.size() == 1 ? "Scaling study " + list.front()
                                   : fmt::format("Scaling studies {}{}",
                                                 join(std::span(list).first(std::min(most, list.size())), ", "), more);
    return study;
}

}  // namespace ogrom
