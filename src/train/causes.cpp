// Comes in: spans of one step and rank. Goes out: seconds by cause. Next: train/measure.cpp
#include "src/train/causes.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

#include "src/pipeline/measured.h"
#include "src/pipeline/schedule.h"

namespace ogrom {
namespace {

enum class Axis { none, tensor, data, pipeline, world };

Axis axis_named(std::string_view name) {
    if (name == "tp") {
        return Axis::tensor;
    }
    if (name == "dp" || name == "zero" || name == "replica") {
        return Axis::data;
    }
    if (name == "pp forward" || name == "pp backward" || name == "tie") {
        return Axis::pipeline;
    }
    return name == "world" ? Axis::world : Axis::none;
}

// "<axis>: <label>" of waits, "<label> (<axis>)" of collectives; the executor's own names are of the pipeline.
Axis axis_of(const TraceSpan& span) {
    const std::string_view name = span.name();
    if (const std::size_t colon = name.find(": "); colon != std::string_view::npos) {
        return axis_named(name.substr(0, colon));
    }
    if (const std::size_t open = name.rfind('('); open != std::string_view::npos && name.ends_with(')')) {
        return axis_named(name.substr(open + 1, name.size() - open - 2));
    }
    return Axis::pipeline;
}

// The lower, the stronger.
enum class Claim { wait, data, optimizer, compute, communication, none };

Claim claim_of(SpanCategory category) {
    switch (category) {
        case SpanCategory::wait:
            return Claim::wait;
        case SpanCategory::data:
            return Claim::data;
        case SpanCategory::optimizer:
            return Claim::optimizer;
        case SpanCategory::compute:
            return Claim::compute;
        case SpanCategory::communication:
            return Claim::communication;
        case SpanCategory::other:
            return Claim::none;
    }
    return Claim::none;
}

struct Piece {
    double start = 0, end = 0;
    Claim claim = Claim::none;
    Axis axis = Axis::none;
};

std::vector<Piece> pieces_of(std::span<const TraceSpan> spans, double begin, double end) {
    std::vector<Piece> pieces;
    for (const TraceSpan& span : spans) {
        Piece piece{std::max(span.start, begin), std::min(span.end, end), claim_of(span.category), Axis::none};
        if (piece.start < piece.end && piece.claim != Claim::none) {
            const bool moves = piece.claim == Claim::wait || piece.claim == Claim::communication;
            piece.axis = moves ? axis_of(span) : Axis::none;
            pieces.push_back(piece);
        }
    }
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.start < b.start; });
    return pieces;
}

// Seconds by axis of what is exposed, and the rest by cause.
struct Sums {
    StepCauses causes;
    std::array<double, 5> exposed = {};  // by Axis

    double& of(const Piece& piece) {
        switch (piece.claim) {
            case Claim::data:
                return causes.data_wait;
            case Claim::optimizer:
                return causes.optimizer;
            case Claim::compute:
                return causes.compute;
            default:
                return exposed[static_cast<std::size_t>(piece.axis)];
        }
    }
};

// Of the pieces that hold at the same time the strongest; of equals the one that began last, which lies within.
const Piece* strongest(const std::vector<const Piece*>& open) {
    const Piece* best = nullptr;
    for (const Piece* piece : open) {
        if (fault_active("overlap_counted_as_exposed") && piece->claim == Claim::communication) {
            return piece;
        }
        if (best == nullptr || piece->claim < best->claim ||
            (piece->claim == best->claim && piece->start >= best->start)) {
            best = piece;
        }
    }
    return best;
}

Sums sweep(const std::vector<Piece>& pieces, double begin, double end) {
    std::vector<double> times = {begin, end};
    for (const Piece& piece : pieces) {
        times.push_back(piece.start);
        times.push_back(piece.end);
    }
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    Sums sums;
    std::vector<const Piece*> open;
    std::size_t next = 0;
    for (std::size_t i = 0; i + 1 < times.size(); ++i) {
        std::erase_if(open, [&](const Piece* piece) { return piece->end <= times[i]; });
        for (; next < pieces.size() && pieces[next].start <= times[i]; ++next) {
            open.push_back(&pieces[next]);
        }
        if (const Piece* best = strongest(open)) {
            sums.of(*best) += times[i + 1] - times[i];
        }
    }
    return sums;
}

constexpr std::array<CauseName, 9> names = {{{"compute", &StepCauses::compute},
                                             {"tensor_comm", &StepCauses::tensor_comm},
                                             {"data_comm", &StepCauses::data_comm},
                                             {"pipeline_comm", &StepCauses::pipeline_comm},
                                             {"bubble", &StepCauses::bubble},
                                             {"optimizer", &StepCauses::optimizer},
                                             {"offload", &StepCauses::offload},
                                             {"data_wait", &StepCauses::data_wait},
                                             {"other", &StepCauses::other}}};

}  // namespace

std::span<const CauseName> cause_names() {
    return names;
}

StepCauses causes_of(std::span<const TraceSpan> spans, double begin, double end, const MeshShape& mesh,
                     double bubble_s) {
    const Sums sums = sweep(pieces_of(spans, begin, end), begin, end);
    const auto exposed = [&](Axis axis) { return sums.exposed[static_cast<std::size_t>(axis)]; };
    StepCauses causes = sums.causes;
    causes.tensor_comm = exposed(Axis::tensor);
    causes.data_comm = exposed(Axis::data);
    double stages = exposed(Axis::pipeline);
    double& widest = mesh.pp > 1 ? stages : mesh.dp > 1 ? causes.data_comm : causes.tensor_comm;
    widest += exposed(Axis::world);
    causes.bubble = std::min(stages, bubble_s);
    causes.pipeline_comm = stages - causes.bubble;
    causes.step = end - begin;
    causes.other = 0;
    causes.other = causes.step - causes.sum();
    return causes;
}

std::vector<double> simulated_bubble(const ScheduleSpec& spec, std::span<const std::vector<PassSpan>> stages) {
    std::vector<double> none(static_cast<std::size_t>(spec.stages), 0);
    if (spec.stages == 1) {
        return none;
    }
    MeasuredSchedule measured{spec, 0, {}};
    const std::vector<StageSchedule> lists = make_stage_schedules(spec);
    for (std::size_t s = 0; s < lists.size(); ++s) {
        const auto wanted = std::count_if(lists[s].actions.begin(), lists[s].actions.end(),
                                          [](const Action& action) { return is_compute(action.kind); });
        if (s >= stages.size() || static_cast<std::ptrdiff_t>(stages[s].size()) != wanted) {
            return none;
        }
        measured.stages.push_back(stages[s]);
    }
    return simulate_measured(measured, PassTimes::own).bubble;
}

StepCauses add(const StepCauses& a, const StepCauses& b, double factor) {
    StepCauses sum = a;
    for (const CauseName& cause : names) {
        sum.*cause.member += factor * b.*cause.member;
    }
    sum.step += factor * b.step;
    return sum;
}

}  // namespace ogrom
