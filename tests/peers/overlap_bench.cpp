// Whether reductions hide behind the backward pass. Two data ranks, one thread each, no recomputation.
//   bench_overlap delay [SAMPLES]   gradient reductions take, in all, half the measured backward time longer (a delay
//                                   under the communicator that begins when the data has moved): the step without it,
//                                   with it, and with it but without overlap
//   bench_overlap link [SAMPLES]    nothing is added: buckets of 64 MiB over whatever lies between the ranks (veth.sh
//                                   puts a slow link there), with and without overlap
// Prints rows as JSON.
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>

#include "src/optim/traffic.h"

#include "tests/peers/layout_bench.h"

namespace ogrom::peers {
namespace {

constexpr i64 ranks = 2;

std::string sections(i64 zero, double bucket_mib, bool overlap) {
    return fmt::format("[parallel]\ndata = {}\nzero = {}\n[comm]\nbucket_mib = {:.1f}\noverlap = {}\n", ranks, zero,
                       bucket_mib, overlap);
}

constexpr int cold_steps = 3, timed_steps = 7;

// The backward passes of a step, on the slower rank: median over some steps, behind some that touch memory first.
double backward_seconds(Session& session, Contender& contender) {
    std::vector<double> samples;
    for (int step = 0; step < cold_steps; ++step) {
        contender.step();
    }
    for (int step = 0; step < timed_steps; ++step) {
        Trace trace(1000, Trace::Clock::now());
        trace.set_step(step);
        contender.engine().trace = &trace;
        contender.step();
        contender.engine().trace = nullptr;
        double sum = 0;
        for (const TraceSpan& span : trace.spans()) {
            sum += span.name() == name_of(ActionKind::backward) ? span.end - span.start : 0;
        }
        samples.push_back(agree_slowest(session, sum));
    }
    return median(samples);
}

void require_equal_losses(const std::vector<Contender*>& contenders) {
    for (const Contender* contender : contenders) {
        // Two ranks: a sum of two terms has one value, whatever the order.
        require(contender->loss() == contenders[0]->loss(), ExitCode::numerics,
                fmt::format("loss {} and {}: a delay or overlap changes the step", contender->loss(),
                            contenders[0]->loss()));
    }
}

// A block's buckets are ready together, so that those of the first block are never hidden: blocks enough to make that
// a small share.
Json delay_rows(Session& session, i64 zero, int samples, const std::string& command) {
    const BenchModel model{.layers = 12, .hidden = 256, .heads = 4};
    constexpr double bucket_mib = 2;
    Contender free(session, bench_run(model, "", sections(zero, bucket_mib, true), ranks), 1);
    const double backward = backward_seconds(session, free);
    const double bytes = static_cast<double>(free.engine().layout.gradient_size()) * sizeof(float);
    const double buckets = std::ceil(bytes / (bucket_mib * 1024 * 1024));
    require(buckets >= 8, ExitCode::usage, fmt::format("{} buckets, at least 8 are wanted", buckets));
    const char* const label = zero == 0 ? labels::gradient_all_reduce : labels::gradient_reduce;
    const DelaySpec slow{.seconds = 0, .seconds_per_byte = 0.5 * backward / bytes, .only = label};
    Contender hidden(session, bench_run(model, "", sections(zero, bucket_mib, true), ranks), 1, slow);
    Contender exposed(session, bench_run(model, "", sections(zero, bucket_mib, false), ranks), 1, slow);
    for (int step = 0; step < cold_steps + timed_steps; ++step) {  // those that `free` is ahead
        hidden.step();
        exposed.step();
    }
    const auto times =
        in_turn({[&] { return free.step(); }, [&] { return hidden.step(); }, [&] { return exposed.step(); }}, samples);
    require_equal_losses({&free, &hidden, &exposed});
    const Json extra = {{"step_s", times[0]},
                        {"step_delayed_s", times[1]},
                        {"step_delayed_no_overlap_s", times[2]},
                        {"backward_s", backward},
                        {"delay_s", 0.5 * backward},
                        {"delayed", label},
                        {"buckets", buckets},
                        {"model", "C=256 T=128 B=4, 12 layers, fp32"}};
    const std::string name = fmt::format("delay of half the backward pass, dp=2 ZeRO {}", zero);
    return Json::array({row_of({name + ", overlap", "ratio", Better::lower, ratios(times[1], times[0]), 1.10,
                                "at most 1.10 of the step without delay", extra},
                               command),
                        row_of({name + ", no overlap", "ratio", Better::higher, ratios(times[2], times[0]), 1.25,
                                "at least 1.25 of the step without delay", extra},
                               command)});
}

Json delay(Session& session, const std::string& command, int samples) {
    Json rows = Json::array();
    for (const i64 zero : {0, 2}) {
        for (Json& row : delay_rows(session, zero, samples, command)) {
            rows.push_back(std::move(row));
        }
    }
    return rows;
}

// Deep and narrow: progress is made between products, and a socket holds only so much from one to the next.
Json link(Session& session, const std::string& command, int samples) {
    const BenchModel model{
        .layers = 24, .hidden = 512, .heads = 8, .sequence = 160, .micro_batch = 2, .optimizer = "sgd"};
    constexpr double bucket_mib = 64;
    Contender with(session, bench_run(model, "", sections(0, bucket_mib, true), ranks), 1);
    Contender without(session, bench_run(model, "", sections(0, bucket_mib, false), ranks), 1);
    const double bytes = static_cast<double>(with.engine().layout.gradient_size()) * sizeof(float);
    require(bytes >= 64 * 1024 * 1024, ExitCode::usage, "the gradients are smaller than a message of 64 MiB");
    const auto times = in_turn({[&] { return with.step(); }, [&] { return without.step(); }}, samples);
    require_equal_losses({&with, &without});
    const double backward = backward_seconds(session, with);
    const char* const rate = std::getenv("OGROM_BENCH_LINK");
    const Json extra = {{"step_s", times[0]},
                        {"step_no_overlap_s", times[1]},
                        {"backward_s", backward},
                        {"gradient_bytes", bytes},
                        {"message_bytes", bucket_mib * 1024 * 1024},
                        {"link", rate == nullptr ? "none" : rate},
                        {"model", "C=512 T=160 B=2, 24 layers, fp32, SGD"}};
    return Json::array({row_of({"messages of 64 MiB over a slow link, dp=2 ZeRO 0, overlap / no overlap", "ratio",
                                Better::lower, ratios(times[0], times[1]), 1, "the step without overlap", extra},
                               command)});
}

}  // namespace
}  // namespace ogrom::peers

int main(int argc, char** argv) {
    using namespace ogrom::peers;
    const std::string mode = argc > 1 ? argv[1] : "";
    const int samples = argc > 2 ? std::max(1, std::atoi(argv[2])) : mode == "link" ? 5 : 9;
    return run_bench(argc, argv, 1, [&](ogrom::Session& session, const std::string& command) {
        ogrom::require(session.size() == ranks && (mode == "delay" || mode == "link"), ogrom::ExitCode::usage,
                       "usage: mpirun -n 2 bench_overlap delay|link [SAMPLES]");
        return mode == "delay" ? delay(session, command, samples) : link(session, command, samples);
    });
}
