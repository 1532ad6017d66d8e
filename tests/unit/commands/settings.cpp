// Settings typed as options of `ogrom train`, and the last line of `ogrom plan`.
#include "src/commands/settings.h"

#include <gtest/gtest.h>

#include "src/commands/commands.h"
#include "src/plan/decide.h"

namespace ogrom::test {
namespace {

std::string advice(const std::vector<std::string>& words) {
    Invocation chosen;
    CLI::App app;
    add_train(app, chosen);
    return settings_advice(*app.get_subcommand("train"), words);
}

TEST(Settings, NothingIsSaidOfOptionsAndTheirValues) {
    EXPECT_EQ(advice({"run.toml", "--set", "train.steps=3", "--stop-after", "2", "--resume=auto", "--json"}), "");
    EXPECT_EQ(advice({"--set=train.steps=3", "run.toml"}), "");
    EXPECT_EQ(advice({}), "");
}

TEST(Settings, WordsOfOtherProgramsComeBackInOrderAsOurs) {
    EXPECT_EQ(advice({"--tensor-model-parallel-size", "2", "run.toml", "parallel.pipeline=2"}),
              "--tensor-model-parallel-size 2: no option of train; would be right: --set parallel.tensor=2\n"
              "parallel.pipeline=2: no option of train; would be right: --set parallel.pipeline=2");
    EXPECT_EQ(advice({"run.toml", "--parallel.tensor=2"}),
              "--parallel.tensor=2: no option of train; would be right: --set parallel.tensor=2");
    EXPECT_EQ(advice({"--sequence-parallel", "run.toml"}),
              "--sequence-parallel: no option of train; would be right: --set parallel.sequence_parallel=true");
    EXPECT_EQ(advice({"--seed", "7"}),
              "--seed 7: no option of train; would be right: --set data.seed=7 or --set train.seed=7");
    EXPECT_EQ(advice({"--weight-decay", "-1"}),
              "--weight-decay -1: no option of train; would be right: --set optimizer.weight_decay=-1");
    EXPECT_NE(advice({"--load", "x"}).find("would be right: the option --resume"), std::string::npos);
    EXPECT_EQ(advice({"--stop-aftr", "2"}), "--stop-aftr 2: no option of train; would be right: --stop-after");
    EXPECT_NE(advice({"--qqqq"}).find("--set section.key=value"), std::string::npos);
}

TEST(Verdict, SaysWhatTrainWouldDo) {
    constexpr i64 gib = i64{1} << 30;
    EXPECT_EQ(verdict_text({1, gib, gib, Dtype::fp32}, 2 * gib), "fits: 1 rank in fp32 needs 1.0 GiB, free 2.0 GiB\n");
    EXPECT_EQ(verdict_text({2, gib, gib, Dtype::fp64}, 2 * gib),
              "fits: all 2 ranks on this machine in fp64 need 2.0 GiB (2 x at most 1.0 GiB), free 2.0 GiB\n");
    EXPECT_EQ(
        verdict_text({1, 3 * gib, 3 * gib, Dtype::fp32}, 2 * gib),
        "does not fit on this machine: 1 rank in fp32 needs 3.0 GiB, free 2.0 GiB (train would end with exit code "
        "7)\n");
    EXPECT_NE(verdict_text({1, 3 * gib, gib, Dtype::fp32}, 2 * gib).find("train would start, then run short"),
              std::string::npos);
    EXPECT_NE(verdict_text({3, gib, gib, Dtype::fp32}, 2 * gib).find("several machines"), std::string::npos);
}

}  // namespace
}  // namespace ogrom::test
