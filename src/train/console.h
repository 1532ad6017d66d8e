// What a person sees of a run, on rank 0: a line per logged step, a bar with the remaining time on a terminal, a
// summary at the end.
#pragma once
#include <limits>
#include <optional>
#include <string>

#include "src/base/progress.h"
#include "src/config/run.h"
#include "src/io/metrics.h"
#include "src/pipeline/measured.h"
#include "src/train/evaluate.h"

namespace ogrom {

// How a run ended, equal on all ranks but for times and memory (rank 0's).
struct TrainSummary {
    ExitCode code = ExitCode::done;
    i64 steps = 0, skipped = 0;                              // of the run, those before a resume included
    double loss = std::numeric_limits<double>::quiet_NaN();  // of the last step; NaN when this process made none
    std::optional<Evaluation> valid;
    double unigram_entropy = 0;  // of the held-out tokens, nats; with `valid`
    double launch_s = 0;         // process start to the first step
    double train_s = 0;          // first to last step, evaluations and saves included
    double tokens_per_s = 0;     // mean over this process's steps but the first, evaluations and saves left out
    double model_tflops = 0, fraction_of_sgemm = 0;  // likewise, per rank
    double matmul_rate = 0;                          // measured, flop/s
    i64 memory_peak = 0, memory_ledger = 0;          // bytes: largest resident of any rank, the ledger's total
    u64 weight_hash = 0;
    std::string stopped_by;                    // code 75: "SIGTERM", "--stop-after 7", ...; empty: on another rank
    std::string checkpoint;                    // last one written or resumed from, may be empty
    std::optional<MeasuredSchedule> schedule;  // rank 0, of a traced pipeline: its last traced step
};

// What a fraction of the measured matrix rate above 1 means; empty for others. The rate is taken once, at the start.
std::string above_rate_text(double fraction_of_sgemm);
std::string step_line(const StepMetrics& row, i64 steps, double left_s);
std::string valid_line(i64 step, const Evaluation& valid);
std::string summary_text(const TrainSummary& summary);
std::string summary_json(const TrainSummary& summary);

class Console {
public:
    Console(i64 steps, i64 log_interval, i64 first_step);
    void step(const StepMetrics& row);
    void note(const std::string& line);  // a line between the steps
    void finish();

private:
    i64 steps_, log_interval_, first_step_;
    bool terminal_, told_above_ = false;
    Timer timer_;
    Progress progress_;
};

}  // namespace ogrom
