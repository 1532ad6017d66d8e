#include "tests/peers/layout_bench.h"

#include <fmt/format.h>
#include <fstream>
#include <omp.h>
#include <sched.h>

#include "kernels/common/hash.h"

#include "src/base/timer.h"
#include "src/device/blas.h"
#include "src/train/step.h"

namespace ogrom::peers {
namespace {

// The core-th of the cores that this process may use.
void bind_to_core(int core) {
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        return;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &allowed) && core-- == 0) {
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof(one), &one);
            return;
        }
    }
}

std::string load_average() {
    std::string load;
    std::ifstream("/proc/loadavg") >> load;
    return load;
}

Json measured(Session& session, int threads, const std::string& command,
              const std::function<Json(Session&, const std::string&)>& measure) {
    const std::string load = load_average();  // of the minute before
    if (threads == 1 && !session.oversubscribed()) {
        bind_to_core(session.node_rank());
    }
    set_threads(threads);
    Json rows = measure(session, fmt::format("mpirun -n {} {}", session.size(), command));
    for (Json& row : rows) {
        row["extra"]["ranks"] = session.size();
        row["extra"]["threads_per_rank"] = threads;
        row["extra"]["load_average_before"] = load;
    }
    return rows;
}

}  // namespace

int run_bench(int argc, char** argv, int threads, const std::function<Json(Session&, const std::string&)>& measure) {
    std::unique_ptr<Session> session;
    try {
        session = std::make_unique<Session>(Session::Options{});
        const Json rows = measured(*session, threads, command_text(argc, argv), measure);
        if (session->rank() == 0) {
            fmt::print("{}\n", rows.dump(1));
        }
        return 0;
    } catch (const Error& error) {
        if (session) {
            session->abort(error);
        }
        fmt::print(stderr, "{}: {}\n", argv[0], error.what());
        return static_cast<int>(error.code());
    }
}

RunConfig bench_run(const BenchModel& model, const std::string& train, const std::string& more, i64 ranks) {
    ParseInput input;
    input.path = "benchmark";
    input.ranks = ranks;
    input.text = fmt::format(
        "[model]\nlayers = {}\nhidden = {}\nheads = {}\nvocab = 257\nsequence = {}\n"
        "[data]\ntrain = \"none\"\ntokenizer = \"\"\n"
        "[train]\nsteps = 1000\nmicro_batch = {}\naccumulation = {}\n{}"
        "[optimizer]\nkind = \"{}\"\nlr = 1e-4\nschedule = \"constant\"\nwarmup_steps = 0\nweight_decay = 0.0\n"
        "{}[run]\nname = \"benchmark\"\n",
        model.layers, model.hidden, model.heads, model.sequence, model.micro_batch, model.accumulation, train,
        model.optimizer, more);
    return parse_run(input);
}

std::vector<Batch> bench_batches(const RunConfig& run, i64 data_rank) {
    std::vector<Batch> batches;
    for (i64 m = 0; m < run.train.accumulation; ++m) {
        Batch batch = make_batch(run.train.micro_batch, run.train.sequence);
        const auto vocab = static_cast<u64>(run.model.vocab);
        for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
            const u64 word = mix64((static_cast<u64>(data_rank * 1000 + m) << 32) + i);
            batch.tokens[i] = static_cast<std::int32_t>(word % vocab);
            batch.targets[i] = static_cast<std::int32_t>((word >> 32) % vocab);
            batch.loss_mask[i] = 1;
        }
        batch.unmasked = static_cast<i64>(batch.tokens.size());
        batches.push_back(std::move(batch));
    }
    return batches;
}

Contender::Contender(Session& session, RunConfig run, int threads, const DelaySpec& slow)
    : session_(session), run_(std::move(run)), mesh_(make_mesh(session, run_.parallel)) {
    if (slow.seconds_per_byte > 0) {
        mesh_.shard = make_delayed_communicator(std::move(mesh_.shard), slow);
    }
    const Decisions decisions = decide(run_, mesh_.shape, mesh_.place, threads);
    engine_ = std::make_unique<Engine<float>>(run_, decisions, make_ledger(run_, decisions), mesh_);
    batches_ = bench_batches(run_, mesh_.place.dp);
}

double Contender::step() {
    session_.world().barrier("step").wait();
    const Timer timer;
    const StepControl control = agree_control(mesh_, batches_, Wish::go_on);
    loss_ = train_step<float>(*engine_, batches_, control.targets).loss;
    return agree_slowest(session_, timer.seconds());
}

double agree_slowest(Session& session, double seconds) {
    session.world().all_reduce(&seconds, 1, Dtype::fp64, ReduceOp::max, ReduceOrder::any, nullptr, "time").wait();
    return seconds;
}

std::vector<std::vector<double>> in_turn(const std::vector<std::function<double()>>& contenders, int samples) {
    std::vector<std::vector<double>> all(contenders.size());
    for (int i = 0; i <= samples; ++i) {
        for (std::size_t c = 0; c < contenders.size(); ++c) {
            const double seconds = contenders[c]();
            if (i > 0) {
                all[c].push_back(seconds);
            }
        }
    }
    return all;
}

std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b) {
    OGROM_ASSERT(a.size() == b.size());
    std::vector<double> result;
    for (std::size_t i = 0; i < a.size(); ++i) {
        result.push_back(a[i] / b[i]);
    }
    return result;
}

std::vector<std::vector<TraceSpan>> gather_spans(Session& session, const Trace& trace) {
    std::vector<std::vector<TraceSpan>> ranks;
    for (const std::string& text : gather_text(session.world(), serialise_spans(trace.spans()), "trace")) {
        ranks.push_back(parse_spans(text));
    }
    return ranks;
}

}  // namespace ogrom::peers
