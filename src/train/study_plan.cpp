// Comes in: what was asked for. Goes out: points, resolved or refused with the reason. Next: train/study.cpp
#include "src/train/study_plan.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>

#include "kernels/common/fault.h"

#include "src/base/error.h"
#include "src/base/text.h"

namespace ogrom {
namespace {

using Overrides = std::vector<std::string>;

// A key of `second` takes the place of the same key in `first`: --set takes each once.
Overrides joined(Overrides first, const Overrides& second) {
    const auto key = [](const std::string& text) { return trim(text.substr(0, text.find('='))); };
    for (const std::string& one : second) {
        std::erase_if(first, [&](const std::string& earlier) { return key(earlier) == key(one); });
    }
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

struct Extents {
    i64 pipeline = 1, data = 1, tensor = 1;
};

// The axis takes what the ranks leave; a text says why it cannot.
struct Grown {
    Extents extents;
    std::string refused;
};

Grown grow(const StudyLayout& layout, const ParallelConfig& own, i64 ranks) {
    Extents e{own.pipeline, own.data, own.tensor};
    i64& axis = layout.axis == "dp" ? e.data : layout.axis == "tp" ? e.tensor : e.pipeline;
    axis = 1;
    const i64 others = e.pipeline * e.data * e.tensor;
    if (ranks % others != 0) {
        return {e,
                fmt::format("pipeline {} x data {} x tensor {} with {} left to grow: {} does not divide {} {}",
                            e.pipeline, e.data, e.tensor, layout.axis, others, ranks, ranks == 1 ? "rank" : "ranks")};
    }
    axis = ranks / others;
    return {e, ""};
}

const char* key_of(const std::string& axis) {
    return axis == "dp" ? "parallel.data" : axis == "tp" ? "parallel.tensor" : "parallel.pipeline";
}

Overrides mesh_overrides(const Extents& e) {
    return {fmt::format("parallel.pipeline={}", e.pipeline), fmt::format("parallel.data={}", e.data),
            fmt::format("parallel.tensor={}", e.tensor)};
}

// All faults in one line.
std::string reason_of(const Error& error) {
    return join(split(trim(error.what()), '\n'), "; ");
}

class Planner {
public:
    Planner(const StudyWish& wish, const ResolveRun& resolve) : wish_(wish), resolve_(resolve) {
        for (const StudyLayout& layout : wish.layouts) {
            own_.push_back(resolve_own(layout));
        }
        set_first_batch();
    }

    [[nodiscard]] std::vector<PlannedPoint> points() const {
        std::vector<PlannedPoint> points;
        std::set<std::string> ids;
        for (const StudyKind kind : wish_.kinds) {
            for (std::size_t l = 0; l < wish_.layouts.size(); ++l) {
                for (const i64 ranks : wish_.ranks) {
                    points.push_back(point(kind, l, ranks));
                    require(ids.insert(points.back().id).second, ExitCode::usage,
                            fmt::format("--layout {}: another layout has this name, or one that gives the same file "
                                        "name {}; would be right: names that differ in letters and digits",
                                        quote(points.back().layout), points.back().id));
                }
            }
        }
        if (std::all_of(points.begin(), points.end(), [](const PlannedPoint& p) { return !p.refused.empty(); })) {
            fail(ExitCode::usage,
                 fmt::format("no point of the study can run; the first one, {}: {}", points[0].id, points[0].refused));
        }
        return points;
    }

private:
    // With its own mesh. Keys that make sense with more ranks alone (sequence_parallel) are judged where the axis is
    // wider than that.
    [[nodiscard]] RunConfig resolve_own(const StudyLayout& layout) const {
        const Overrides overrides = joined(wish_.overrides, layout.overrides);
        try {
            return resolve_(overrides, 0);
        } catch (const Error&) {
            for (const i64 ranks : wish_.ranks) {
                try {
                    return resolve_(joined(overrides, {fmt::format("{}={}", key_of(layout.axis), ranks)}), 0);
                } catch (const Error& error) {
                    if (error.code() != ExitCode::usage) {
                        throw;
                    }
                }
            }
            throw;
        }
    }

    void set_first_batch() {
        for (std::size_t l = 0; l < wish_.layouts.size(); ++l) {
            const Grown grown = grow(wish_.layouts[l], own_[l].parallel, wish_.ranks.front());
            if (grown.refused.empty()) {
                try {
                    const RunConfig run = resolve_(overrides_of(l, mesh_overrides(grown.extents)), wish_.ranks.front());
                    first_batch_ = run.train.global_batch;
                    return;
                } catch (const Error& error) {
                    if (error.code() != ExitCode::usage) {
                        throw;
                    }
                }
            }
        }
        first_batch_ = own_.front().train.global_batch;
    }

    [[nodiscard]] Overrides overrides_of(std::size_t layout, const Overrides& more) const {
        return joined(joined(wish_.overrides, wish_.layouts[layout].overrides), more);
    }

    [[nodiscard]] PlannedPoint point(StudyKind kind, std::size_t l, i64 ranks) const {
        const StudyLayout& layout = wish_.layouts[l];
        PlannedPoint made{study_point_id(kind, layout.label, ranks), kind, layout.label, layout.axis, ranks, {}, ""};
        const Grown grown = grow(layout, own_[l].parallel, ranks);
        made.refused = grown.refused;
        const std::optional<i64> batch = made.refused.empty() ? global_batch(kind, ranks, made.refused) : std::nullopt;
        if (batch && *batch % grown.extents.data != 0) {
            made.refused = fmt::format("global batch {} cannot be shared by {} data ranks", *batch, grown.extents.data);
        }
        if (made.refused.empty()) {
            try {
                made.run = resolve_(overrides_of(l, point_overrides(l, grown.extents, *batch)), ranks);
            } catch (const Error& error) {
                if (error.code() != ExitCode::usage) {
                    throw;
                }
                made.refused = reason_of(error);
            }
        }
        return made;
    }

    [[nodiscard]] std::optional<i64> global_batch(StudyKind kind, i64 ranks, std::string& refused) const {
        if (kind == StudyKind::strong || fault_active("weak_study_keeps_global_batch")) {
            return first_batch_;
        }
        const i64 least = wish_.ranks.front();
        if (first_batch_ * ranks % least != 0) {
            refused = fmt::format(
                "weak: global batch {} of {} ranks, as many samples per rank on {} do not come out even; would be "
                "right: a train.global_batch that {} divides",
                first_batch_, least, ranks, least);
            return std::nullopt;
        }
        return first_batch_ * ranks / least;
    }

    [[nodiscard]] Overrides point_overrides(std::size_t l, const Extents& extents, i64 batch) const {
        const i64 share = batch / extents.data;
        i64 micro = std::min(own_[l].train.micro_batch, share);
        while (share % micro != 0) {
            --micro;
        }
        Overrides overrides = mesh_overrides(extents);
        overrides.push_back(fmt::format("train.global_batch={}", batch));
        overrides.push_back(fmt::format("train.micro_batch={}", micro));
        overrides.push_back(fmt::format("train.accumulation={}", share / micro));
        if (const i64 steps = wish_.steps.warmup + wish_.steps.steps; own_[l].train.steps < steps) {
            overrides.push_back(fmt::format("train.steps={}", steps));
        }
        return overrides;
    }

    const StudyWish& wish_;
    const ResolveRun& resolve_;
    std::vector<RunConfig> own_;  // each layout as the file has it
    i64 first_batch_ = 1;
};

bool is_axis(const std::string& text) {
    return text == "dp" || text == "tp" || text == "pp";
}

}  // namespace

StudyLayout parse_study_layout(const std::string& text, const std::string& axis) {
    const std::size_t colon = text.find(':');
    StudyLayout layout;
    layout.axis = axis;
    layout.label = trim(text.substr(0, colon));
    require(colon != std::string::npos && !layout.label.empty() && !has_control(layout.label), ExitCode::usage,
            fmt::format("--layout {}: no name; would be right: \"NAME: section.key=value ...\"", quote(text)));
    require(layout.label.size() <= 60, ExitCode::usage,
            fmt::format("--layout {}: its name has {} bytes; would be right: at most 60", quote(text),
                        layout.label.size()));
    for (const std::string& word : split(text.substr(colon + 1), ' ')) {
        if (word.empty()) {
            continue;
        }
        require(word.find('=') != std::string::npos, ExitCode::usage,
                fmt::format("--layout {}: {} is no key=value (keys are parted by blanks, none stands within a value)",
                            quote(text), quote(word)));
        if (word.starts_with("axis=")) {
            layout.axis = word.substr(5);
            require(is_axis(layout.axis), ExitCode::usage,
                    fmt::format("--layout {}: {}; would be right: axis=dp, axis=tp or axis=pp", quote(text), word));
        } else {
            layout.overrides.push_back(word);
        }
    }
    return layout;
}

std::vector<StudyLayout> zero_layouts() {
    std::vector<StudyLayout> layouts;
    for (int stage = 0; stage <= 3; ++stage) {
        layouts.push_back({fmt::format("zero{}", stage), {fmt::format("parallel.zero={}", stage)}, "dp"});
    }
    return layouts;
}

std::vector<PlannedPoint> plan_study(const StudyWish& wish, const ResolveRun& resolve) {
    OGROM_ASSERT(!wish.ranks.empty() && !wish.layouts.empty() && !wish.kinds.empty());
    return Planner(wish, resolve).points();
}

}  // namespace ogrom
