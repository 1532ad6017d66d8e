#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "src/base/file.h"
#include "src/train/console.h"
#include "src/train/control.h"
#include "src/train/layout_trial.h"
#include "src/train/run_folder.h"
#include "src/train/step.h"

namespace ogrom {
namespace {

class Folder {
public:
    Folder() : root_(std::filesystem::temp_directory_path() / fmt::format("ogrom-train-{}", getpid())) {
        std::filesystem::create_directories(root_);
    }
    ~Folder() { std::filesystem::remove_all(root_); }
    [[nodiscard]] RunConfig run(const std::string& name) const {
        RunConfig run;
        run.run.name = name;
        run.run.output = (root_ / name).string();
        run.resolved_toml = "[run]\nname = \"" + name + "\"\n";
        return run;
    }

private:
    std::filesystem::path root_;
};

std::string refusal(const std::function<void()>& action, ExitCode code) {
    try {
        action();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), code);
        return error.what();
    }
    ADD_FAILURE() << "nothing was refused";
    return {};
}

TEST(RunFolder, ASecondRunNeedsResume) {
    const Folder folder;
    const RunConfig run = folder.run("twice");
    { const RunFolder refused_later_on(run, Resume::none); }
    EXPECT_FALSE(file_exists(run.run.output)) << "a run that is refused leaves no trace";
    {
        RunFolder held(run, Resume::none);
        archive(run, "{\"format\": 1}");
        held.keep();
    }
    EXPECT_EQ(read_file(join_path(run.run.output, "run.toml"), 1000), run.resolved_toml);
    EXPECT_EQ(read_file(join_path(run.run.output, "provenance.json"), 1000), "{\"format\": 1}");
    const std::string message = refusal([&] { const RunFolder again(run, Resume::none); }, ExitCode::usage);
    EXPECT_NE(message.find("--resume"), std::string::npos) << message;
    EXPECT_NE(message.find(run.run.output), std::string::npos) << message;
    { const RunFolder resumed(run, Resume::newest); }
    { const RunFolder resumed(run, Resume::newest_or_fresh); }
    EXPECT_TRUE(file_exists(join_path(run.run.output, "run.toml")));
}

TEST(RunFolder, ResumeForms) {
    EXPECT_EQ(parse_resume("").kind, Resume::newest);
    EXPECT_EQ(parse_resume("auto").kind, Resume::newest_or_fresh);
    EXPECT_EQ(parse_resume("x/step-00000004").kind, Resume::path);
    EXPECT_EQ(parse_resume("x/step-00000004").path, "x/step-00000004");
}

TEST(RunFolder, BareResumeNeedsACheckpointAutoDoesNot) {
    const Folder folder;
    const RunConfig run = folder.run("empty");
    const RunFolder held(run, Resume::newest);
    const std::unique_ptr<Communicator> alone = make_single_communicator();
    const std::string message =
        refusal([&] { (void)choose_checkpoint(*alone, run, parse_resume("")); }, ExitCode::checkpoint);
    EXPECT_NE(message.find("holds no checkpoint"), std::string::npos) << message;
    EXPECT_EQ(choose_checkpoint(*alone, run, parse_resume("auto")), "");
    EXPECT_EQ(choose_checkpoint(*alone, run, ResumeChoice{}), "");
    const std::string absent =
        refusal([&] { (void)choose_checkpoint(*alone, run, parse_resume("some/path")); }, ExitCode::checkpoint);
    EXPECT_NE(absent.find("some/path does not exist"), std::string::npos) << absent;
}

TEST(Control, CountsTargetsAndHearsAWish) {
    const std::unique_ptr<Communicator> alone = make_single_communicator();
    const Mesh mesh = make_mesh(*alone, ParallelConfig{});
    std::vector<Batch> batches(2);
    batches[0].unmasked = 11;
    batches[1].unmasked = 101;
    EXPECT_EQ(agree_control(mesh, batches, Wish::go_on).targets, 112);
    EXPECT_FALSE(agree_control(mesh, batches, Wish::go_on).stop);
    EXPECT_TRUE(agree_control(mesh, batches, Wish::stop).stop);
}

TEST(Control, LossIsPerTargetAndDefinedWithoutAny) {
    const std::unique_ptr<Communicator> alone = make_single_communicator();
    const RunConfig run = parse_layout(selftest_serial(0), 1);
    Mesh mesh = make_mesh(*alone, run.parallel);
    const std::unique_ptr<Engine<double>> engine = make_trial<double>(run, mesh);
    const std::vector<Batch> batches(2);
    EXPECT_EQ(loss_scale(batches, 112, 2), 1.0 / 112);
    EXPECT_EQ(loss_scale(batches, 0, 2), 0.0);
    EXPECT_EQ(agree_loss(*engine, 336, 112), 3.0);
    EXPECT_EQ(agree_loss(*engine, 0, 0), 0.0);
}

// Every rank of a data index has the same batches: they count once.
TEST(Control, TensorRanksAndStagesDoNotCountAgain) {
    std::vector<Batch> batches(1);
    batches[0].unmasked = 11;
    const std::unique_ptr<Communicator> alone = make_single_communicator();
    for (const MeshPlace& place : {MeshPlace{.tp = 1}, MeshPlace{.pp = 1}}) {
        Mesh mesh = make_mesh(*alone, ParallelConfig{});
        mesh.place = place;
        EXPECT_EQ(agree_control(mesh, batches, Wish::go_on).targets, 0);
        EXPECT_TRUE(agree_control(mesh, batches, Wish::stop).stop);
    }
}

TEST(Evaluation, PartsCoverEverySampleOnce) {
    for (const i64 samples : {0, 1, 7, 64, 1001}) {
        for (const int ranks : {1, 2, 3, 8}) {
            i64 next = 0;
            for (int rank = 0; rank < ranks; ++rank) {
                const SamplePart part = evaluation_part(samples, ranks, rank);
                EXPECT_EQ(part.first, next);
                EXPECT_LE(part.last - part.first, samples / ranks + 1);
                next = part.last;
            }
            EXPECT_EQ(next, samples);
        }
    }
}

TEST(Console, StepLineHasEveryFigure) {
    StepMetrics row;
    row.step = 7;
    row.loss = 3.25;
    row.gradient_norm = 1.5;
    row.lr = 3e-4;
    row.tokens_per_s = 12345;
    row.model_tflops = 0.0987;
    row.hardware_tflops = 0.1;
    row.fraction_of_sgemm = 0.76;
    row.memory_bytes = i64{3} << 30;
    const std::string line = step_line(row, 200, 65);
    for (const char* part : {"7/200", "loss 3.2500", "norm 1.500", "lr 3.000e-04", "12.3k tokens/s", "0.0987 TFLOP/s",
                             "76.0 % of SGEMM", "3.0 GiB", "left 1:05"}) {
        EXPECT_NE(line.find(part), std::string::npos) << part << " is not in: " << line;
    }
}

TEST(Console, SummaryGivesTheMargin) {
    TrainSummary summary;
    summary.steps = 200;
    summary.loss = 2.5;
    summary.valid = Evaluation{2.25, std::exp(2.25), 64, 4096};
    summary.unigram_entropy = 3.0;
    summary.memory_peak = 1030;
    summary.memory_ledger = 1000;
    summary.weight_hash = 0xabc;
    const std::string text = summary_text(summary);
    EXPECT_NE(text.find("margin 0.7500 nats"), std::string::npos) << text;
    EXPECT_NE(text.find("+3.0 %"), std::string::npos) << text;
    const nlohmann::json json = nlohmann::json::parse(summary_json(summary));
    EXPECT_EQ(json["steps"], 200);
    EXPECT_EQ(json["weight_hash"], "0000000000000abc");
    EXPECT_DOUBLE_EQ(json["margin_nats"], 0.75);
    EXPECT_EQ(json["memory_peak_bytes"], 1030);
}

}  // namespace
}  // namespace ogrom
