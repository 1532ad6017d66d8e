// One row per step, to terminal, CSV (append-only truth, flushed per row) and HDF5 (rebuilt from the CSV by rename at
// each save and at the end, so h5py can open it at any time). Resume cuts rows after the checkpoint's step, and takes
// from the HDF5 file what the CSV has lost. Rank 0 only.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

struct StepMetrics {
    i64 step = 0;              // steps done after this one (1-based)
    double loss = 0;           // mean over the global batch's unmasked targets
    double gradient_norm = 0;  // global, before clipping
    double lr = 0;
    double clip_factor = 1;
    i64 tokens = 0;  // unmasked targets of the step
    double step_s = 0;
    double data_wait_s = 0, exposed_comm_s = 0;
    double tokens_per_s = 0;
    double model_tflops = 0;         // per rank; causal pairs T(T+1)/2
    double model_tflops_square = 0;  // Megatron's count
    double hardware_tflops = 0;      // with recomputation
    double fraction_of_sgemm = 0;    // model_tflops / measured SGEMM rate of this rank
    i64 memory_bytes = 0;            // resident peak of this rank
    i64 bytes_sent = 0;              // by this rank in the step
    bool skipped = false;
    std::optional<double> valid_loss;
    double loss_scale = 1;  // of fp16, during the step
};

class Metrics {
public:
    // `last_step`: rows beyond it are cut (resume); 0 starts anew, and rows that are there are kept under another name.
    // A CSV that is missing, cut or damaged is filled up from metrics.h5 and said in the log; the damaged file is kept
    // as metrics.csv.damaged. It never stops a resume.
    Metrics(const std::string& folder, i64 last_step);
    ~Metrics();
    // Never throws for the disk: rows that it does not take wait in memory for the next call, with one warning.
    void row(const StepMetrics& row);
    void publish();  // rebuilds metrics.h5 by rename; throws where rows are still in memory
    // The same for rows up to `last_step`, as a task for the I/O thread while further rows are added; warns instead of
    // throwing.
    [[nodiscard]] std::function<void()> publication(i64 last_step) const;
    // The same where the run ends on a fault (a numerics stop): what fails here is a warning, the fault stays the news.
    void publish_at_stop() noexcept;
    [[nodiscard]] std::vector<StepMetrics> read() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};
std::vector<StepMetrics> read_metrics_csv(const std::string& path);

// events.jsonl: time (UTC), rank, host, step, phase, code, text; one line each, appended in one write. From any thread;
// no HDF5, no MPI.
void append_event(const std::string& folder, int rank, const std::string& host, i64 step, const std::string& phase,
                  int code, const std::string& text);
// The same for failure hooks: false where the event could not be written (no folder, full disk).
bool try_append_event(const std::string& folder, int rank, const std::string& host, i64 step, const std::string& phase,
                      int code, const std::string& text) noexcept;

}  // namespace ogrom
