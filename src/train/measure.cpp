// Comes in: a trainer's steps, one by one. Goes out: a repeat's figures, gathered. Next: train/causes.cpp
#include "src/train/measure.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/common/fault.h"

#include "src/base/log.h"
#include "src/base/text.h"
#include "src/base/timer.h"
#include "src/base/version.h"
#include "src/pipeline/actions.h"
#include "src/train/causes.h"
#include "src/train/span_recorder.h"
#include "src/train/trainer.h"

namespace ogrom {
namespace {

constexpr i64 spans_of_a_step = 32'768;
constexpr std::size_t message_bytes = 60'000;  // a text of gather_text is bounded at 64 KiB

struct MeasuredStep {
    double step_s = 0;
    StepCauses causes;             // bubble still within pipeline_comm
    std::vector<PassSpan> passes;  // of a pipeline
    bool skipped = false, whole = true;
};

std::map<std::string, i64> sent_by_axis(const Mesh& mesh) {
    std::map<std::string, i64> sent;
    const auto add = [&](const char* axis, const std::unique_ptr<Communicator>& comm) {
        sent[axis] += comm ? comm->bytes_sent() : 0;
    };
    add("tp", mesh.tp);
    add("dp", mesh.dp);
    add("dp", mesh.shard);
    add("dp", mesh.replica);
    add("pp", mesh.pp_forward);
    add("pp", mesh.pp_backward);
    add("pp", mesh.tie);
    sent["world"] = mesh.world->bytes_sent();
    return sent;
}

class Watch final : public StepWatch {
public:
    Watch(Session& session, const MeasureSteps& wanted)
        : wanted_(wanted), recorder_(session, spans_of_a_step, SpanRecorder::Waits::yes) {}

    Trace& trace() override { return recorder_.trace(); }

    void ready(const Place& place) override {
        mesh_ = &place.mesh;
        shape = place.mesh.shape;
        at = place.mesh.place;
        schedule = place.work.decisions.schedule;
        threads = place.work.threads;
        matmul_rate = place.work.matmul_rate;
        ledger = place.work.ledger;
        gpu = place.device.is_gpu() ? place.device.name : "";
        ranks_per_gpu = place.transport.ranks_per_gpu;
        provenance_json = place.provenance_json;
    }

    void begin(i64 step) override {
        if (step == wanted_.warmup + 1) {
            sent_ = sent_by_axis(*mesh_);
        }
        trace().clear();
        trace().set_step(step);
        begin_s_ = trace().now();
    }

    void end(i64 step, const StepResult& result, i64 targets, const StepTimes& times) override {
        if (step <= wanted_.warmup && !fault_active("warm_up_steps_measured")) {
            return;
        }
        MeasuredStep made;
        made.step_s = times.step_s;
        made.skipped = result.skipped;
        made.whole = trace().dropped() == 0;
        // On a GPU spans are times of the host, which only enqueues there: nothing is said rather than something wrong.
        const std::span<const TraceSpan> spans = gpu.empty() ? trace().spans() : std::span<const TraceSpan>();
        made.causes = causes_of(spans, begin_s_, begin_s_ + times.step_s, shape, 0);
        if (shape.pp > 1) {
            made.passes = passes_of(trace().spans(), step);
        }
        steps.push_back(std::move(made));
        tokens += result.skipped ? 0 : targets;
        if (step == wanted_.warmup + wanted_.steps) {
            for (const auto& [axis, bytes] : sent_by_axis(*mesh_)) {
                sent[axis] = bytes - sent_[axis];
            }
        }
    }

    MeshShape shape;
    MeshPlace at;
    ScheduleSpec schedule;
    int threads = 1;
    double matmul_rate = 0;
    Ledger ledger;
    std::string gpu, provenance_json;
    i64 ranks_per_gpu = 0, tokens = 0;
    std::vector<MeasuredStep> steps;
    std::map<std::string, i64> sent;  // of the measured steps

private:
    MeasureSteps wanted_;
    SpanRecorder recorder_;
    const Mesh* mesh_ = nullptr;
    double begin_s_ = 0;
    std::map<std::string, i64> sent_;
};

// Texts of any length, as gather_text: in rounds.
std::vector<std::string> gather_long(Session& session, const std::string& mine, std::string_view label) {
    std::vector<std::string> all(static_cast<std::size_t>(session.size()));
    for (std::size_t at = 0; agree_max(session.world(), static_cast<i64>(mine.size() - at), label) > 0;) {
        const std::string piece = mine.substr(at, message_bytes);
        at += piece.size();
        const std::vector<std::string> pieces = gather_text(session.world(), piece, label);
        for (std::size_t r = 0; r < all.size(); ++r) {
            all[r] += pieces[r];
        }
    }
    return all;
}

// The bubble of this rank's stage is known once the passes of all stages are: those of the first data and tensor rank.
void add_bubble(Session& session, Watch& watch) {
    if (watch.shape.pp == 1) {
        return;
    }
    std::string mine;
    if (watch.at.dp == 0 && watch.at.tp == 0) {
        for (const MeasuredStep& step : watch.steps) {
            for (const PassSpan& pass : step.passes) {
                mine += fmt::format("{} {} {} {:.9f} {:.9f},", static_cast<int>(pass.kind), pass.micro_batch,
                                    pass.chunk, pass.start, pass.end);
            }
            mine += '\n';
        }
    }
    const std::vector<std::string> texts = gather_long(session, mine, "passes");
    std::vector<std::vector<std::string>> lines;  // [stage][step]
    lines.reserve(static_cast<std::size_t>(watch.shape.pp));
    for (int stage = 0; stage < watch.shape.pp; ++stage) {
        lines.push_back(split(texts[static_cast<std::size_t>(rank_of({.pp = stage}, watch.shape))], '\n'));
    }
    for (std::size_t i = 0; i < watch.steps.size(); ++i) {
        std::vector<std::vector<PassSpan>> stages;
        for (const std::vector<std::string>& stage : lines) {
            std::vector<PassSpan>& passes = stages.emplace_back();
            for (const std::string& text : split(stage.at(i), ',')) {
                PassSpan pass;
                int kind = 0;
                long long micro_batch = 0, chunk = 0;
                if (std::sscanf(text.c_str(), "%d %lld %lld %lf %lf", &kind, &micro_batch, &chunk, &pass.start,
                                &pass.end) == 5) {
                    pass.kind = static_cast<ActionKind>(kind);
                    pass.micro_batch = micro_batch;
                    pass.chunk = chunk;
                    passes.push_back(pass);
                }
            }
        }
        StepCauses& causes = watch.steps[i].causes;
        const double due = simulated_bubble(watch.schedule, stages)[static_cast<std::size_t>(watch.at.pp)];
        causes.bubble = std::min(due, causes.pipeline_comm);
        causes.pipeline_comm -= causes.bubble;
    }
}

// "t t t ...\nc c c ...\nwhole": this rank's step times (skipped steps: 0), mean causes, and of how many steps.
std::string own_text(const Watch& watch) {
    std::string times;
    StepCauses mean;
    i64 whole = 0;
    for (const MeasuredStep& step : watch.steps) {
        times += fmt::format("{:.9g} ", step.skipped ? 0.0 : step.step_s);
        if (step.whole && !step.skipped) {
            mean = add(mean, step.causes);
            ++whole;
        }
    }
    std::string causes;
    for (const CauseName& cause : cause_names()) {
        causes += fmt::format("{:.17g} ", whole > 0 ? mean.*cause.member / static_cast<double>(whole) : 0.0);
    }
    return times + "\n" + causes + "\n" + fmt::format("{}", whole);
}

std::vector<double> numbers(const std::string& line) {
    std::vector<double> values;
    for (const std::string& word : split(trim(line), ' ')) {
        values.push_back(std::strtod(word.c_str(), nullptr));
    }
    return values;
}

StepCauses causes_from(const std::vector<double>& values) {
    StepCauses causes;
    for (std::size_t i = 0; i < cause_names().size(); ++i) {
        causes.*cause_names()[i].member = values.at(i);
    }
    causes.step = causes.sum();
    return causes;
}

// Times of the slowest rank in each step, causes of each rank.
void gather_steps(Session& session, const Watch& watch, Repeat& repeat) {
    StudyPoint& point = repeat.point;
    std::vector<double> slowest(watch.steps.size(), 0);
    repeat.traced_steps = static_cast<i64>(watch.steps.size());
    for (const std::string& text : gather_long(session, own_text(watch), "step times")) {
        const std::vector<std::string> lines = split(text, '\n');
        const std::vector<double> times = numbers(lines.at(0));
        for (std::size_t i = 0; i < slowest.size(); ++i) {
            slowest[i] = std::max(slowest[i], times.at(i));
        }
        point.causes.push_back(causes_from(numbers(lines.at(1))));
        repeat.traced_steps = std::min(repeat.traced_steps, static_cast<i64>(std::atoll(lines.at(2).c_str())));
    }
    point.skipped_steps = std::count(slowest.begin(), slowest.end(), 0.0);
    std::erase(slowest, 0.0);
    point.step_s = {std::move(slowest)};
}

void gather_ledger(Session& session, const Watch& watch, StudyPoint& point) {
    const i64 most = agree_max(session.world(), watch.ledger.total(), "ledger");
    std::string mine;
    if (watch.ledger.total() == most) {
        for (const LedgerLine& line : watch.ledger.lines()) {
            constexpr const char* tiers[] = {"device", "host", "pageable", "nvme", "baseline", "context"};
            mine += fmt::format("{}\t{}\t{}\n", line.name, tiers[static_cast<int>(line.tier)], line.bytes);
        }
    }
    for (const std::string& text : gather_long(session, mine, "ledger")) {
        if (!text.empty() && point.ledger.empty()) {
            for (const std::string& line : split(trim(text), '\n')) {
                const std::vector<std::string> fields = split(line, '\t');
                point.ledger.push_back({fields.at(0), fields.at(1), std::atoll(fields.at(2).c_str())});
            }
        }
    }
}

void gather_traffic(Session& session, const Watch& watch, StudyPoint& point) {
    const i64 steps = std::max<i64>(1, static_cast<i64>(watch.steps.size()));
    for (const char* axis : {"tp", "dp", "pp", "world"}) {
        const auto found = watch.sent.find(axis);
        const i64 bytes = agree_sum(session.world(), found == watch.sent.end() ? 0 : found->second, "traffic");
        if (bytes > 0) {
            point.traffic.push_back({axis, bytes / steps});
        }
    }
}

void add_provenance(const Watch& watch, StudyPoint& point) {
    const auto root = nlohmann::ordered_json::parse(watch.provenance_json);
    point.machine =
        fmt::format("{}, {} cores", root["machine"]["cpu"].get<std::string>(), root["machine"]["cores"].get<i64>());
    for (const auto& [name, version] : root["libraries"].items()) {
        point.versions.emplace_back(name, version.is_string() ? version.get<std::string>() : version.dump());
    }
}

void add_place(Session& session, const Watch& watch, StudyPoint& point) {
    point.ranks = session.size();
    point.nodes = session.nodes();
    point.ranks_per_node = agree_max(session.world(), session.node_size(), "place");
    point.threads_per_rank = watch.threads;
    const bool cpu = watch.gpu.empty();
    const bool many = cpu ? session.node_size() * watch.threads > session.node_cores() : watch.ranks_per_gpu > 1;
    point.oversubscribed = agree_max(session.world(), many ? 1 : 0, "place") > 0;
    point.device = cpu ? "cpu" : watch.gpu;
    point.host = session.host();
    point.matmul_rate = watch.matmul_rate;
}

// Repeats' medians from the rows.
void set_spreads(StudyPoint& point) {
    std::vector<double> medians, rates;
    for (const std::vector<double>& row : point.step_s) {
        medians.push_back(median_of(row));
        rates.push_back(static_cast<double>(point.tokens_per_step) / medians.back());
    }
    point.step_median_s = spread_of(medians);
    point.tokens_per_s = spread_of(rates);
}

}  // namespace

StudyPoint describe_point(const RunConfig& run) {
    StudyPoint point;
    const cost::Model model = cost_model(run.model, run.train.sequence);
    point.pipeline = run.parallel.pipeline;
    point.data = run.parallel.data;
    point.tensor = run.parallel.tensor;
    point.zero = run.parallel.zero;
    point.schedule = run.parallel.pipeline > 1 ? std::string(name_of(run.parallel.schedule)) : "none";
    point.model = fmt::format("{} layers x {} hidden", run.model.layers, run.model.hidden);
    point.parameters = make_parameters(run.model, run.precision.weights).count();
    point.layers = run.model.layers;
    point.hidden = run.model.hidden;
    point.heads = run.model.heads;
    point.sequence = run.train.sequence;
    point.vocabulary = run.model.vocab;
    point.weights_dtype = std::string(name_of(run.precision.weights));
    constexpr const char* recompute[] = {"none", "selective", "full"};
    point.recompute = recompute[static_cast<int>(run.train.recompute)];
    point.micro_batch = run.train.micro_batch;
    point.accumulation = run.train.accumulation;
    point.global_batch = run.train.global_batch;
    point.tokens_per_step = run.train.global_batch * run.train.sequence;
    point.model_flops_per_token = cost::model_flops(model);
    point.model_flops_square_per_token = cost::model_flops_square(model);
    point.hardware_flops_per_token = hardware_flops(run);
    point.commit = build_info().git;
    point.date = utc_time();
    point.command = command_line();
    point.run_file = run.resolved_toml;
    return point;
}

Repeat measure(Session& session, const RunConfig& run, const MeasureSteps& steps) {
    Repeat repeat;
    repeat.point = describe_point(run);
    StudyPoint& point = repeat.point;
    point.ranks = session.size();
    point.warmup_steps = steps.warmup;
    point.steps = steps.steps;
    point.refused = place_refusal(session, run);
    if (!point.refused.empty()) {
        return repeat;
    }
    Watch watch(session, steps);
    if (!measure_steps(session, run, steps.warmup + steps.steps, watch)) {
        repeat.stopped = true;
        return repeat;
    }
    add_place(session, watch, point);
    add_bubble(session, watch);
    gather_steps(session, watch, repeat);
    gather_ledger(session, watch, point);
    gather_traffic(session, watch, point);
    add_provenance(watch, point);
    require(!point.step_s.front().empty(), ExitCode::numerics,
            "every measured step was skipped as not finite; would be right: a smaller optimizer.lr");
    point.tokens_per_step = watch.tokens / static_cast<i64>(point.step_s.front().size());
    set_spreads(point);
    return repeat;
}

void join_repeat(StudyPoint& point, const StudyPoint& repeat) {
    const auto steps_of = [](const StudyPoint& p) {
        return std::accumulate(p.step_s.begin(), p.step_s.end(), 0.0,
                               [](double sum, const auto& row) { return sum + static_cast<double>(row.size()); });
    };
    const double old = steps_of(point), added = steps_of(repeat), all = old + added;
    point.step_s.insert(point.step_s.end(), repeat.step_s.begin(), repeat.step_s.end());
    point.skipped_steps += repeat.skipped_steps;
    point.tokens_per_step = std::llround(
        (static_cast<double>(point.tokens_per_step) * old + static_cast<double>(repeat.tokens_per_step) * added) / all);
    for (std::size_t r = 0; r < point.causes.size(); ++r) {
        point.causes[r] = add(add({}, point.causes[r], old / all), repeat.causes[r], added / all);
    }
    set_spreads(point);
}

}  // namespace ogrom
