// What the layout benchmarks share: a session, engines from the text of a run file, steps on fixed batches, contenders
// measured in turn.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/comm/delayed.h"
#include "src/train/engine.h"

#include "tests/peers/rows.h"

namespace ogrom::peers {

// A program's main: `measure` runs on every rank, rank 0 prints its rows as JSON. Processes of one machine are bound to
// one core each where there are enough, unless `threads` asks for more.
int run_bench(int argc, char** argv, int threads, const std::function<Json(Session&, const std::string&)>& measure);

struct BenchModel {
    i64 layers = 4, hidden = 128, heads = 4, sequence = 128, micro_batch = 4, accumulation = 1;
    std::string optimizer = "adamw";
};
// Byte vocabulary, a constant rate, no weight decay. `train`: more lines of [train]; `more`: whole sections, such as
// "[parallel]\ndata = 2\n".
RunConfig bench_run(const BenchModel& model, const std::string& train, const std::string& more, i64 ranks);

// The step's micro-batches of this data rank, every target counted; the same at every call.
std::vector<Batch> bench_batches(const RunConfig& run, i64 data_rank);

// A mesh and an engine on it, with batches of its own.
class Contender {
public:
    // `slow` (seconds per byte > 0) stands under the communicator of the gradients.
    Contender(Session& session, RunConfig run, int threads, const DelaySpec& slow = {});
    // One step; seconds on the slowest rank, from a common start.
    double step();
    [[nodiscard]] Engine<float>& engine() { return *engine_; }
    [[nodiscard]] const std::vector<Batch>& batches() const { return batches_; }
    [[nodiscard]] double loss() const { return loss_; }  // of the last step

private:
    Session& session_;
    RunConfig run_;
    Mesh mesh_;
    std::unique_ptr<Engine<float>> engine_;
    std::vector<Batch> batches_;
    double loss_ = 0;
};

double agree_slowest(Session& session, double seconds);

// One sample of each contender in turn, `samples` times, behind one that does not count. [contender][sample].
std::vector<std::vector<double>> in_turn(const std::vector<std::function<double()>>& contenders, int samples);
// a[i] / b[i]
std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b);

// Spans of all ranks, on every rank. At most 64 KiB of text each.
std::vector<std::vector<TraceSpan>> gather_spans(Session& session, const Trace& trace);

}  // namespace ogrom::peers
