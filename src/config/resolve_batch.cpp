// global = micro x accumulation x data (B50): what is left out is derived, what disagrees is an error with the
// equation.
#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "kernels/common/fault.h"

#include "src/config/near.h"
#include "src/config/resolve.h"

namespace ogrom {

namespace {

constexpr i64 usual_micro_batch = 4;
constexpr i64 usual_logits_rows = 512;
constexpr i64 largest_global_batch = 1'000'000'000'000;

class Batch {
public:
    explicit Batch(Resolution& r)
        : r_(r),
          t_(r.run.train),
          data_(r.run.parallel.data),
          has_micro_(r.given("train.micro_batch")),
          has_accumulation_(r.given("train.accumulation")),
          has_global_(r.given("train.global_batch")) {}

    void resolve() {
        if (has_global_ && t_.global_batch % data_ != 0) {
            r_.fault("train.global_batch",
                     fmt::format("{} cannot be shared by parallel.data {} copies; would be right: global_batch {}",
                                 t_.global_batch, data_, nearest_multiples(t_.global_batch, data_)));
        } else if (!has_global_) {
            derive_global();
        } else if (has_micro_ && has_accumulation_) {
            check_all();
        } else if (has_accumulation_) {
            divide("train.accumulation", t_.accumulation, "train.micro_batch", t_.micro_batch);
        } else {
            if (!has_micro_) {
                choose_micro();
            }
            divide("train.micro_batch", t_.micro_batch, "train.accumulation", t_.accumulation);
        }
    }

private:
    // global given, one factor known: the other is global / (factor x data).
    void divide(const std::string& known_key, i64 known, const std::string& derived_key, i64& result) {
        const i64 share = t_.global_batch / data_;
        if (share % known != 0) {
            const std::string short_name = known_key.substr(known_key.find('.') + 1);
            r_.fault(known_key,
                     fmt::format("global_batch {} = {} {} x data {} x {:.4g} does not come out even; would be "
                                 "right: {} {}{}",
                                 t_.global_batch, short_name, known, data_,
                                 static_cast<double>(share) / static_cast<double>(known), short_name,
                                 nearest_divisors(share, known), other_global(known)));
            return;
        }
        result = share / known;
        r_.derived[derived_key] = "= global_batch / (the other factor x data)";
    }

    // ", or global_batch 48 or 72", where a multiple can be written down.
    [[nodiscard]] std::string other_global(i64 known) const {
        i64 step = 0;
        if (__builtin_mul_overflow(known, data_, &step)) {
            return "";
        }
        return fmt::format(", or global_batch {}", nearest_multiples(t_.global_batch, step));
    }

    void derive_global() {
        if (!has_micro_) {
            t_.micro_batch = usual_micro_batch;
            r_.derived["train.micro_batch"] = "no batch size was given";
        }
        if (!has_accumulation_) {
            t_.accumulation = 1;
            r_.derived["train.accumulation"] = "no global_batch was given";
        }
        const std::optional<i64> global = product();
        if (!global) {
            r_.fault(has_accumulation_ ? "train.accumulation" : "train.micro_batch",
                     fmt::format("micro_batch {} x accumulation {} x data {} is more than {} samples; would be right: "
                                 "smaller factors",
                                 t_.micro_batch, t_.accumulation, data_, largest_global_batch));
            return;
        }
        t_.global_batch = *global;
        r_.derived["train.global_batch"] = "= micro_batch x accumulation x data";
    }

    void choose_micro() {
        const i64 share = t_.global_batch / data_;
        t_.micro_batch = std::min(usual_micro_batch, share);
        while (share % t_.micro_batch != 0) {
            --t_.micro_batch;
        }
        r_.derived["train.micro_batch"] =
            fmt::format("largest divisor of global_batch / data up to {}", usual_micro_batch);
    }

    void check_all() {
        const std::optional<i64> right = product();
        if ((right && *right == t_.global_batch) || fault_active("config_batch_equation")) {
            return;
        }
        const i64 share = t_.global_batch / data_;
        std::string others = "leave one of the three out";
        if (right) {
            others += fmt::format(", or global_batch = {}", *right);
        }
        if (share % t_.micro_batch == 0) {
            others += fmt::format(", or accumulation = {}", share / t_.micro_batch);
        }
        if (share % t_.accumulation == 0) {
            others += fmt::format(", or micro_batch = {}", share / t_.accumulation);
        }
        r_.fault(
            "train.global_batch",
            fmt::format("global_batch = micro_batch x accumulation x data does not hold: {} is not {} x {} x {}{}; "
                        "would be right: {}",
                        t_.global_batch, t_.micro_batch, t_.accumulation, data_,
                        right ? fmt::format(" = {}", *right) : std::string(), others));
    }

    [[nodiscard]] std::optional<i64> product() const {
        i64 result = 0;
        if (__builtin_mul_overflow(t_.micro_batch, t_.accumulation, &result) ||
            __builtin_mul_overflow(result, data_, &result) || result > largest_global_batch) {
            return std::nullopt;
        }
        return result;
    }

    Resolution& r_;
    TrainConfig& t_;
    i64 data_;
    bool has_micro_, has_accumulation_, has_global_;
};

std::string marked(const Resolution& r, const std::string& name, i64 value) {
    const bool derived = r.derived.contains("train." + name);
    return fmt::format("{} {}{}", name, value, derived ? " (derived)" : "");
}

void resolve_sequence(Resolution& r) {
    TrainConfig& t = r.run.train;
    const ModelConfig& m = r.run.model;
    if (!r.given("train.sequence")) {
        t.sequence = m.sequence;
        r.derived["train.sequence"] = "= model.sequence";
    } else if (r.sound({"train.sequence", "model.sequence"}) && t.sequence > m.sequence) {
        r.fault("train.sequence", fmt::format("{} is longer than model.sequence {}; would be right: at most {}, or a "
                                              "model.sequence of at least {}",
                                              t.sequence, m.sequence, m.sequence, t.sequence));
    }
    if (!r.given("train.logits_rows")) {
        i64 rows = 0;
        const bool large = __builtin_mul_overflow(t.micro_batch, t.sequence, &rows);
        t.logits_rows = large ? usual_logits_rows : std::clamp<i64>(rows, 1, usual_logits_rows);
        r.derived["train.logits_rows"] = fmt::format("micro_batch x sequence, at most {}", usual_logits_rows);
    }
}

}  // namespace

void resolve_batch(Resolution& r) {
    if (r.sound({"train.micro_batch", "train.accumulation", "train.global_batch", "parallel.data"})) {
        Batch(r).resolve();
        const TrainConfig& t = r.run.train;
        r.note(fmt::format("batch: {} = {} x {} x data {}", marked(r, "global_batch", t.global_batch),
                           marked(r, "micro_batch", t.micro_batch), marked(r, "accumulation", t.accumulation),
                           r.run.parallel.data));
    }
    resolve_sequence(r);
}

}  // namespace ogrom
