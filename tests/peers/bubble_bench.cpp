// The pipeline's waits as the executor's trace has them, against the simulation of the same lists.
//   bench_bubble timed [SAMPLES] [MS]   4 ranks: passes that last a given time in place of the model's (asleep, so that
//                                       two cores carry four stages), every schedule, 8 micro-batches
//   bench_bubble kernels [SAMPLES]      2 ranks, one thread each: the model's own passes, against the simulation with
//                                       their measured times
// Prints rows as JSON.
#include <array>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <numeric>
#include <sys/prctl.h>
#include <time.h>

#include "src/pipeline/execute.h"
#include "src/pipeline/measured.h"
#include "src/pipeline/schedule.h"

#include "tests/peers/layout_bench.h"

namespace ogrom::peers {
namespace {

constexpr i64 micro_batches = 8;

void sleep_until(Trace::Clock::time_point when) {
    const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
    const timespec until{since / 1'000'000'000, since % 1'000'000'000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
    }
}

// Passes of given length. Like the model's, they let transfers move from time to time.
class TimedWork final : public StageWork {
public:
    TimedWork(const StageSchedule& schedule, const std::vector<PassCosts>& chunks, Communicator& channel)
        : chunks_(chunks), channel_(channel) {
        for (const i64 slots : schedule.slots) {
            in_.emplace_back(static_cast<std::size_t>(slots * elements));
            out_.emplace_back(static_cast<std::size_t>(slots * elements));
        }
        gradients_.resize(static_cast<std::size_t>(schedule.buffers * elements));
    }
    void forward(const Action& action) override { pass(cost(action).forward); }
    void backward(const Action& action) override { pass(cost(action).backward_input + cost(action).backward_weight); }
    void backward_input(const Action& action) override { pass(cost(action).backward_input); }
    void backward_weight(const Action& action) override { pass(cost(action).backward_weight); }
    Boundary activation_in(const Action& action) override { return place(in_[chunk(action)], action.slot); }
    Boundary activation_out(const Action& action) override { return place(out_[chunk(action)], action.slot); }
    Boundary gradient(const Action& action) override { return place(gradients_, action.buffer); }

private:
    static constexpr i64 elements = 256;
    static constexpr auto slice = std::chrono::milliseconds(2);

    static std::size_t chunk(const Action& action) { return static_cast<std::size_t>(action.chunk); }
    [[nodiscard]] const PassCosts& cost(const Action& action) const { return chunks_[chunk(action)]; }
    static Boundary place(std::vector<float>& memory, i64 number) {
        return {memory.data() + number * elements, elements, Dtype::fp32};
    }
    void pass(double seconds) {
        const auto end = Trace::Clock::now() +
                         std::chrono::duration_cast<Trace::Clock::duration>(std::chrono::duration<double>(seconds));
        for (auto now = Trace::Clock::now(); now < end; now = Trace::Clock::now()) {
            sleep_until(std::min(end, now + slice));
            channel_.progress();
        }
    }

    const std::vector<PassCosts>& chunks_;
    Communicator& channel_;
    std::vector<std::vector<float>> in_, out_;  // [chunk][slot, elements]
    std::vector<float> gradients_;
};

double mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Of one step: mean over the stages, seconds.
struct Bubble {
    double measured = 0, simulated = 0, simulated_mean = 0;  // with the given costs; with the measured mean ones
};

struct Samples {
    std::vector<double> deviation, measured, simulated, simulated_mean;
    void add(const Bubble& bubble, double against) {
        deviation.push_back(100 * std::abs(bubble.measured / against - 1));
        measured.push_back(bubble.measured);
        simulated.push_back(bubble.simulated);
        simulated_mean.push_back(bubble.simulated_mean);
    }
};

MeasuredSchedule measured_on_all(Session& session, const ScheduleSpec& spec, const Trace& trace) {
    const auto measured = last_whole_step(spec, gather_spans(session, trace));
    require(measured.has_value(), ExitCode::peer, "the trace lacks passes");
    return *measured;
}

// A schedule with timed passes, all its stages.
class TimedPipeline {
public:
    TimedPipeline(Session& session, const Mesh& mesh, const ScheduleSpec& spec, const PassCosts& stage)
        : session_(session),
          mesh_(mesh),
          spec_(spec),
          lists_(make_stage_schedules(spec)),
          costs_(even_costs(spec, stage, 0)) {}

    Bubble run() {
        const auto stage = static_cast<std::size_t>(mesh_.place.pp);
        TimedWork work(lists_[stage], costs_.passes[stage], *mesh_.pp_forward);
        Trace trace(1000, epoch_);
        trace.set_step(0);
        session_.world().barrier("step").wait();
        execute(lists_[stage], {work, mesh_.pp_forward.get(), mesh_.pp_backward.get(), &trace, {}});
        const MeasuredSchedule measured = measured_on_all(session_, spec_, trace);
        return {mean(bubble_of(measured.stages)), simulated(), mean(simulate_measured(measured).bubble)};
    }
    [[nodiscard]] double simulated() const { return mean(simulate(spec_, lists_, costs_).bubble); }
    [[nodiscard]] const ScheduleSpec& spec() const { return spec_; }

private:
    Session& session_;
    const Mesh& mesh_;
    ScheduleSpec spec_;
    std::vector<StageSchedule> lists_;
    ScheduleCosts costs_;
    Trace::Clock::time_point epoch_{};  // ranks of one machine share the clock
};

// (p - 1)(F + B + W), / v, or (p - 1)(F + B - W): pipeline/simulate.h.
double bubble_formula(const ScheduleSpec& spec, const PassCosts& stage) {
    const double sign = spec.kind == PipelineSchedule::zero_bubble ? -1 : 1;
    return static_cast<double>(spec.stages - 1) *
           (stage.forward + stage.backward_input + sign * stage.backward_weight) /
           static_cast<double>(spec.virtual_stages);
}

Json row_of_samples(const std::string& name, double bar, const std::string& against, const Samples& samples, Json extra,
                    const std::string& command) {
    extra["bubble_s"] = samples.measured;
    extra["bubble_simulated_s"] = samples.simulated;
    extra["bubble_simulated_with_mean_passes_s"] = samples.simulated_mean;
    return row_of({name, "%", Better::lower, samples.deviation, bar, fmt::format("within {:.0f} % of {}", bar, against),
                   std::move(extra)},
                  command);
}

Json timed(Session& session, const std::string& command, int count, double pass_s) {
    constexpr i64 stages = 4;
    require(session.size() == stages, ExitCode::usage, "bench_bubble timed runs on 4 ranks");
    prctl(PR_SET_TIMERSLACK, 1);  // nanoseconds: the default lets every sleep end 50 us late
    ParallelConfig parallel;
    parallel.pipeline = stages;
    const Mesh mesh = make_mesh(session, parallel);
    const PassCosts stage{pass_s, pass_s, pass_s};
    std::vector<TimedPipeline> pipelines;
    for (const auto kind : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved,
                            PipelineSchedule::zero_bubble}) {
        const i64 chunks = kind == PipelineSchedule::interleaved ? 2 : 1;
        pipelines.emplace_back(session, mesh, ScheduleSpec{kind, stages, chunks, micro_batches}, stage);
    }
    std::vector<Samples> samples(pipelines.size());
    for (int i = 0; i <= count; ++i) {
        for (std::size_t p = 0; p < pipelines.size(); ++p) {
            const Bubble bubble = pipelines[p].run();
            if (i > 0) {
                samples[p].add(bubble, bubble.simulated);
            }
        }
    }
    Json rows = Json::array();
    for (std::size_t p = 0; p < pipelines.size(); ++p) {
        const ScheduleSpec& spec = pipelines[p].spec();
        const Json extra = {{"bubble_formula_s", bubble_formula(spec, stage)},
                            {"forward_s", pass_s},
                            {"backward_input_s", pass_s},
                            {"backward_weight_s", pass_s},
                            {"virtual_stages", spec.virtual_stages},
                            {"micro_batches", micro_batches}};
        rows.push_back(row_of_samples(fmt::format("bubble {}, 4 stages, timed passes", name_of(spec.kind)), 10,
                                      "the simulated schedule", samples[p], extra, command));
    }
    return rows;
}

Json kernels(Session& session, const std::string& command, int count) {
    constexpr i64 stages = 2;
    require(session.size() == stages, ExitCode::usage, "bench_bubble kernels runs on 2 ranks");
    const BenchModel model{.layers = 8, .hidden = 256, .heads = 4, .accumulation = micro_batches};
    constexpr std::array<const char*, 2> schedules = {"1f1b", "zb-h1"};
    std::vector<std::unique_ptr<Contender>> contenders;
    for (const char* const schedule : schedules) {
        const std::string sections = fmt::format("[parallel]\npipeline = {}\nschedule = \"{}\"\n", stages, schedule);
        contenders.push_back(std::make_unique<Contender>(session, bench_run(model, "", sections, stages), 1));
    }
    std::vector<Samples> samples(contenders.size());
    for (int i = 0; i <= count; ++i) {
        for (std::size_t c = 0; c < contenders.size(); ++c) {
            Engine<float>& engine = contenders[c]->engine();
            Trace trace(1000, Trace::Clock::time_point{});
            trace.set_step(0);
            engine.trace = &trace;
            contenders[c]->step();
            engine.trace = nullptr;
            const MeasuredSchedule measured = measured_on_all(session, engine.decisions.schedule, trace);
            const double simulated = mean(simulate_measured(measured, PassTimes::own).bubble);
            const double of_means = mean(simulate_measured(measured).bubble);
            if (i > 0) {
                samples[c].add({mean(bubble_of(measured.stages)), simulated, of_means}, simulated);
            }
        }
    }
    Json rows = Json::array();
    for (std::size_t c = 0; c < contenders.size(); ++c) {
        const Json extra = {{"micro_batches", micro_batches}, {"model", "C=256 T=128 B=4, 8 layers, fp32"}};
        rows.push_back(row_of_samples(fmt::format("bubble {}, 2 stages, the model's passes", schedules[c]), 15,
                                      "the schedule simulated with the passes' own times", samples[c], extra, command));
    }
    return rows;
}

}  // namespace
}  // namespace ogrom::peers

int main(int argc, char** argv) {
    using namespace ogrom::peers;
    const std::string mode = argc > 1 ? argv[1] : "";
    const int samples = argc > 2 ? std::max(1, std::atoi(argv[2])) : 7;
    const double pass_ms = argc > 3 ? std::max(1.0, std::atof(argv[3])) : 40;
    return run_bench(argc, argv, 1, [&](ogrom::Session& session, const std::string& command) {
        ogrom::require(mode == "timed" || mode == "kernels", ogrom::ExitCode::usage,
                       "usage: mpirun -n 4 bench_bubble timed [SAMPLES] [MS] | -n 2 bench_bubble kernels [SAMPLES]");
        return mode == "timed" ? timed(session, command, samples, pass_ms / 1e3) : kernels(session, command, samples);
    });
}
