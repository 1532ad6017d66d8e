// Comes in: a point. Goes out: where its step went, by rank and in the mean. Next: report/study_tables.cpp
#include <algorithm>
#include <fmt/format.h>

#include "src/base/error.h"
#include "src/report/study.h"

namespace ogrom {

const std::vector<std::string>& cause_names() {
    static const std::vector<std::string> names = {"compute",
                                                   "tensor communication",
                                                   "data communication",
                                                   "pipeline communication",
                                                   "bubble",
                                                   "optimizer",
                                                   "offload",
                                                   "data wait",
                                                   "other"};
    return names;
}

std::vector<double> cause_values(const StepCauses& c) {
    return {c.compute,   c.tensor_comm, c.data_comm, c.pipeline_comm, c.bubble,
            c.optimizer, c.offload,     c.data_wait, c.other};
}

StepCauses mean_causes(const StudyPoint& point) {
    StepCauses sum;
    const auto ranks = static_cast<double>(std::max<std::size_t>(point.causes.size(), 1));
    for (const StepCauses& c : point.causes) {
        sum.compute += c.compute / ranks;
        sum.tensor_comm += c.tensor_comm / ranks;
        sum.data_comm += c.data_comm / ranks;
        sum.pipeline_comm += c.pipeline_comm / ranks;
        sum.bubble += c.bubble / ranks;
        sum.optimizer += c.optimizer / ranks;
        sum.offload += c.offload / ranks;
        sum.data_wait += c.data_wait / ranks;
        sum.other += c.other / ranks;
        sum.step += c.step / ranks;
    }
    return sum;
}

double work_of(const StepCauses& c) {
    return c.step - c.tensor_comm - c.data_comm - c.pipeline_comm - c.bubble;
}

std::size_t slowest_rank(const StudyPoint& point) {
    OGROM_ASSERT(!point.causes.empty());
    const auto slowest =
        std::max_element(point.causes.begin(), point.causes.end(),
                         [](const StepCauses& a, const StepCauses& b) { return work_of(a) < work_of(b); });
    return static_cast<std::size_t>(slowest - point.causes.begin());
}

std::string largest_loss(const StudyPoint& point) {
    const StepCauses mean = mean_causes(point);
    const std::vector<double> values = cause_values(mean);
    const auto largest = std::max_element(values.begin() + 1, values.end());  // the first is compute
    if (*largest <= 0 || mean.step <= 0) {
        return "none";
    }
    std::string name = cause_names()[static_cast<std::size_t>(largest - values.begin())];
    if (const std::size_t at = name.find("communication"); at != std::string::npos) {
        name.replace(at, std::string::npos, "comm.");
    }
    return fmt::format("{}, {:.1f} %", name, 100 * *largest / mean.step);
}

double tflops_per_rank(const StudyPoint& point, double flops_per_token) {
    return point.tokens_per_s.median * flops_per_token / static_cast<double>(point.ranks) / 1e12;
}

}  // namespace ogrom
