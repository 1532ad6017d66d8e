// A folder that goes with its test, and hand-made study points.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

#include "src/io/study_point.h"

namespace ogrom::test {

struct Folder {
    Folder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "ogrom report-XXXXXX").string();
        path = ::mkdtemp(pattern.data());
    }
    ~Folder() {
        std::error_code error;
        std::filesystem::remove_all(path, error);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::string path;
};

// A point of two repeats whose medians are `rate` and 10 % more: tokens/s low = rate, high = 1.1 rate.
inline StudyPoint study_point(StudyKind kind, const std::string& layout, i64 ranks, double rate) {
    StudyPoint p;
    p.study = "s";
    p.kind = kind;
    p.layout = layout;
    p.axis = "dp";
    p.id = study_point_id(kind, layout, ranks);
    p.ranks = p.data = p.ranks_per_node = ranks;
    p.device = "cpu";
    p.model = "tiny";
    p.parameters = 1'000'000;
    p.layers = 2;
    p.hidden = 64;
    p.heads = 4;
    p.sequence = 10;
    p.vocabulary = 100;
    p.weights_dtype = "fp32";
    p.recompute = "none";
    p.schedule = "1f1b";
    p.micro_batch = 1;
    p.accumulation = 1;
    p.global_batch = kind == StudyKind::weak ? 4 * ranks : 16;
    p.tokens_per_step = p.global_batch * p.sequence;
    p.steps = 1;
    const auto tokens = static_cast<double>(p.tokens_per_step);
    p.step_s = {{tokens / rate}, {tokens / (1.1 * rate)}};
    p.tokens_per_s = {1.05 * rate, rate, 1.1 * rate};
    p.step_median_s = {tokens / (1.05 * rate), tokens / (1.1 * rate), tokens / rate};
    p.model_flops_per_token = 6e6;
    p.model_flops_square_per_token = 7e6;
    p.hardware_flops_per_token = 8e6;
    p.matmul_rate = 1e11;
    const double step = p.step_median_s.median;
    for (i64 rank = 0; rank < ranks; ++rank) {
        StepCauses c;
        c.data_comm = 0.1 * step * static_cast<double>(ranks - rank) / static_cast<double>(ranks);
        c.optimizer = 0.05 * step;
        c.other = 0.01 * step;
        c.compute = step - c.data_comm - c.optimizer - c.other;
        c.step = step;
        p.causes.push_back(c);
    }
    p.ledger = {{"weights", "device", 4'000'000}, {"batch", "host", 1'048'576}};
    p.traffic = {{"dp", 1000 * (ranks - 1)}};
    p.machine = "m";
    p.host = "h";
    p.commit = "c";
    p.date = "2026-01-01T00:00:00Z";
    p.command = "ogrom scale";
    p.run_file = "[model]\n";
    return p;
}

}  // namespace ogrom::test
