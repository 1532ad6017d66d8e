#include "src/train/console.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "src/base/log.h"
#include "src/base/text.h"

namespace ogrom {
namespace {

Progress::Options progress_options(bool terminal) {
    Progress::Options options;
    options.style = terminal ? ProgressStyle::bar : ProgressStyle::silent;  // elsewhere the step lines say it all
    return options;
}

std::string rate_text(double per_s) {
    return per_s >= 1e6   ? fmt::format("{:.2f}M", per_s / 1e6)
           : per_s >= 1e4 ? fmt::format("{:.1f}k", per_s / 1e3)
                          : fmt::format("{:.0f}", per_s);
}

// A model that diverged has one of many digits.
std::string perplexity_text(double perplexity) {
    return perplexity < 1e6 ? fmt::format("{:.2f}", perplexity) : fmt::format("{:.3g}", perplexity);
}

std::string hash_text(u64 hash) {
    return fmt::format("{:016x}", hash);
}

}  // namespace

std::string above_rate_text(double fraction_of_sgemm) {
    return fraction_of_sgemm > 1 ? "above the rate measured at the start: the machine was busier then" : "";
}

std::string step_line(const StepMetrics& row, i64 steps, double left_s) {
    std::string line = fmt::format(
        "step {:>{}}/{}  loss {:.4f}  norm {:.3f}  lr {:.3e}  {} tokens/s  {:.4f} TFLOP/s (hardware {:.4f})  {:.1f} % "
        "of "
        "SGEMM  {}",
        row.step, fmt::formatted_size("{}", steps), steps, row.loss, row.gradient_norm, row.lr,
        rate_text(row.tokens_per_s), row.model_tflops, row.hardware_tflops, 100 * row.fraction_of_sgemm,
        human_bytes(row.memory_bytes));
    if (row.loss_scale != 1) {
        line += fmt::format("  loss scale {:.0f}", row.loss_scale);
    }
    if (row.skipped) {
        line += "  SKIPPED";
    }
    return row.step < steps ? line + "  left " + human_duration(left_s) : line;
}

std::string valid_line(i64 step, const Evaluation& valid) {
    return fmt::format("valid at step {}  loss {:.4f}  perplexity {}  {} samples, {} tokens", step, valid.loss,
                       perplexity_text(valid.perplexity), valid.samples, group_digits(valid.targets));
}

std::string summary_text(const TrainSummary& s) {
    std::string text =
        s.code == ExitCode::saved_for_requeue
            ? fmt::format("stopped by {} and saved: step {}",
                          s.stopped_by.empty() ? "a signal or the time limit of another rank" : s.stopped_by, s.steps)
            : fmt::format("done: step {}", s.steps);
    if (!std::isnan(s.loss)) {
        text += fmt::format("  loss {:.6f}", s.loss);
    }
    if (s.skipped > 0) {
        text += fmt::format("  ({} steps skipped as not finite)", s.skipped);
    }
    if (s.valid) {
        text += fmt::format(
            "\nheld-out loss {:.4f} (perplexity {}); unigram entropy of the same tokens {:.4f}; "
            "margin {:.4f} nats (entropy - loss: what the model knows beyond token counts)",
            s.valid->loss, perplexity_text(s.valid->perplexity), s.unigram_entropy, s.unigram_entropy - s.valid->loss);
    }
    text += fmt::format("\nlaunch to first step {:.2f} s; training {}; ", s.launch_s, human_duration(s.train_s));
    if (s.tokens_per_s > 0) {
        text += fmt::format(
            "mean {} tokens/s, {:.4f} TFLOP/s per rank, {:.1f} % of the measured matrix rate {:.4f} TFLOP/s",
            rate_text(s.tokens_per_s), s.model_tflops, 100 * s.fraction_of_sgemm, s.matmul_rate / 1e12);
        if (const std::string above = above_rate_text(s.fraction_of_sgemm); !above.empty()) {
            text += fmt::format(" ({})", above);
        }
    } else {
        text += "no mean rate: it is taken over the steps after the first";
    }
    text += fmt::format(
        "\nmemory: peak {} of a rank, ledger {} ({:+.1f} %)", human_bytes(s.memory_peak), human_bytes(s.memory_ledger),
        s.memory_ledger > 0
            ? 100.0 * static_cast<double>(s.memory_peak - s.memory_ledger) / static_cast<double>(s.memory_ledger)
            : 0.0);
    text += fmt::format("\nweight hash {}", hash_text(s.weight_hash));
    return s.checkpoint.empty() ? text : text + "\ncheckpoint " + s.checkpoint;
}

std::string summary_json(const TrainSummary& s) {
    nlohmann::ordered_json json;
    json["format"] = 1;
    json["code"] = static_cast<int>(s.code);
    json["steps"] = s.steps;
    json["skipped_steps"] = s.skipped;
    json["loss"] = s.loss;
    if (s.valid) {
        json["valid_loss"] = s.valid->loss;
        json["valid_perplexity"] = s.valid->perplexity;
        json["valid_samples"] = s.valid->samples;
        json["valid_targets"] = s.valid->targets;
        json["unigram_entropy"] = s.unigram_entropy;
        json["margin_nats"] = s.unigram_entropy - s.valid->loss;
    }
    json["launch_to_first_step_s"] = s.launch_s;
    json["train_s"] = s.train_s;
    json["tokens_per_s"] = s.tokens_per_s;
    json["model_tflops_per_rank"] = s.model_tflops;
    json["fraction_of_sgemm"] = s.fraction_of_sgemm;
    json["matmul_tflops"] = s.matmul_rate / 1e12;
    json["memory_peak_bytes"] = s.memory_peak;
    json["memory_ledger_bytes"] = s.memory_ledger;
    json["weight_hash"] = hash_text(s.weight_hash);
    json["stopped_by"] = s.stopped_by;
    json["checkpoint"] = s.checkpoint;
    return json.dump(2);
}

Console::Console(i64 steps, i64 log_interval, i64 first_step)
    : steps_(steps),
      log_interval_(log_interval),
      first_step_(first_step),
      terminal_(isatty(STDERR_FILENO) == 1),
      progress_("training", steps, "steps", progress_options(terminal_)) {
    progress_.update(first_step);
}

void Console::step(const StepMetrics& row) {
    if (row.step % log_interval_ == 0 || row.step == steps_ || row.step == first_step_ + 1 || row.skipped) {
        const double done = static_cast<double>(row.step - first_step_);
        std::string line = step_line(row, steps_, timer_.seconds() / done * static_cast<double>(steps_ - row.step));
        if (const std::string above = above_rate_text(row.fraction_of_sgemm); !above.empty() && !told_above_) {
            line += fmt::format("  ({})", above);
            told_above_ = true;
        }
        note(line);
    }
    progress_.update(row.step, fmt::format("loss {:.4f}", row.loss));
}

void Console::note(const std::string& line) {
    progress_.clear();
    log_info("{}", line);
}

void Console::finish() {
    progress_.clear();
}

}  // namespace ogrom
