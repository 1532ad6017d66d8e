#include "src/optim/loss_scaling.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

#include "src/base/text.h"

namespace ogrom {
namespace {

constexpr const char* factor_key = "loss_scale";
constexpr const char* good_steps_key = "loss_scale_good_steps";
constexpr i64 most_steps = 1'000'000'000'000;

std::optional<i64> integer_at(const std::map<std::string, std::string>& state, const char* key, i64 most) {
    const auto found = state.find(key);
    if (found == state.end()) {
        return std::nullopt;
    }
    const std::optional<i64> value = parse_integer(found->second);
    require(
        value && *value >= 0 && *value <= most, ExitCode::checkpoint,
        fmt::format("the checkpoint's {} is '{}': a whole number from 0 to {} is wanted", key, found->second, most));
    return value;
}

}  // namespace

LossScaling::LossScaling(const PrecisionConfig& precision) {
    if (precision.weights != Dtype::fp16) {
        return;
    }
    factor_ = smallest_ = static_cast<double>(precision.loss_scale_initial);
    if (precision.loss_scale == LossScaleKind::dynamic) {
        smallest_ = static_cast<double>(precision.loss_scale_min);
        window_ = precision.loss_scale_window;
    }
}

LossScaling::Outcome LossScaling::judge(double loss, double norm) {
    const bool moves = window_ > 0;
    if (std::isfinite(loss) && std::isfinite(norm)) {
        ++good_steps_;
        if (moves && good_steps_ >= window_) {
            factor_ = std::min(2 * factor_, largest);
            good_steps_ = 0;
        }
        return Outcome::good;
    }
    good_steps_ = 0;
    if (!std::isfinite(loss) || factor_ <= smallest_) {
        return Outcome::fault;
    }
    factor_ = fault_active("loss_scale_not_halved") ? factor_ : factor_ / 2;
    return Outcome::overflow;
}

void LossScaling::save(std::map<std::string, std::string>& state) const {
    if (window_ > 0) {
        state[factor_key] = std::to_string(static_cast<i64>(factor_));
        state[good_steps_key] = std::to_string(good_steps_);
    }
}

void LossScaling::load(const std::map<std::string, std::string>& state) {
    if (window_ == 0 || fault_active("loss_scale_not_restored")) {
        return;
    }
    if (const auto factor = integer_at(state, factor_key, static_cast<i64>(largest))) {
        require(*factor > 0 && (*factor & (*factor - 1)) == 0, ExitCode::checkpoint,
                fmt::format("the checkpoint's {} is {}: a power of two is wanted", factor_key, *factor));
        factor_ = std::max(static_cast<double>(*factor), smallest_);
    }
    good_steps_ = std::min(integer_at(state, good_steps_key, most_steps).value_or(0), window_ - 1);
}

}  // namespace ogrom
