// Names of other programs with dashes, words that lead to no key, bare lists of --set, and the ranks of a plan.
#include <gtest/gtest.h>

#include "src/config/unknown.h"

#include "tests/unit/config/case.h"

namespace ogrom {
namespace {

TEST(ForeignNames, DashesAreFoldedBeforeTheLookUp) {
    struct Case {
        const char* setting;
        const char* key;
    };
    const Case cases[] = {
        {"tensor-model-parallel-size=2", "parallel.tensor"},
        {"--tensor-model-parallel-size=2", "parallel.tensor"},
        {"num-layers=2", "model.layers"},
        {"hidden-size=64", "model.hidden"},
        {"micro-batch-size=2", "train.micro_batch"},
        {"train.micro-batch=2", "train.micro_batch"},
        {"global-batch-size=2", "train.global_batch"},
        {"seq-length=32", "model.sequence and train.sequence"},
        {"train-iters=3", "train.steps"},
        {"save-interval=3", "checkpoint.interval_steps"},
        {"clip-grad=1", "optimizer.clip_norm"},
        {"override-opt-param-scheduler=1", "checkpoint.allow_changed"},
        {"train_micro_batch_size_per_gpu=2", "train.micro_batch"},
        {"virtual_pipeline=2", "parallel.virtual_stages"},
        {"bf16=true", "precision.weights, with \"bf16\" or \"fp16\", on a GPU"},
        {"fp8=true", "numerics.linears"},
        {"fp8-recipe=tensorwise", "numerics.linears"},
        {"load=x", "the option --resume"},
        {"epochs=3", "train.steps, in optimizer steps"},
        {"offload=true", "without it: offloading is not built"},
    };
    for (const Case& c : cases) {
        expect_fault(faults_of(small_run, {c.setting}),
                     "--set 1: ", std::string("unknown key; would be right: ") + c.key);
    }
    expect_fault(faults_of(small_run + "num-layers = 3\n"), "case.toml:17: run.num-layers: unknown key",
                 "would be right: model.layers");
}

TEST(ForeignNames, AWordOfTheCommandLineIsASetting) {
    const auto name = [](const char* word) {
        const MeantSetting meant = meant_setting(word);
        return meant.keys.empty() ? meant.advice : meant.keys.front()->full_name();
    };
    EXPECT_EQ(name("--parallel.tensor"), "parallel.tensor");
    EXPECT_EQ(name("parallel.tensr"), "parallel.tensor");
    EXPECT_EQ(name("--train-iters"), "train.steps");
    EXPECT_EQ(name("--rank"), "");  // near to nothing but an option
    EXPECT_NE(name("--load").find("--resume"), std::string::npos);
    EXPECT_TRUE(meant_setting("--seed").either);
    EXPECT_EQ(meant_setting("--seed").keys.size(), 2u);
    EXPECT_FALSE(meant_setting("--adam-beta1").either);
}

TEST(ForeignNames, ListsOfTextsNeedNoQuotesInAnOverride) {
    const std::vector<std::string> wanted = {"train.steps", "optimizer.lr"};
    for (const char* list : {"train.steps,optimizer.lr", "train.steps, optimizer.lr", "[train.steps,optimizer.lr]",
                             "['train.steps','optimizer.lr']", "[\"train.steps\", \"optimizer.lr\"]"}) {
        EXPECT_EQ(parse(small_run, {std::string("checkpoint.allow_changed=") + list}).checkpoint.allow_changed, wanted)
            << list;
    }
    EXPECT_TRUE(parse(small_run, {"checkpoint.allow_changed=[]"}).checkpoint.allow_changed.empty());
    for (const char* list : {"", "train.steps,", "\"train.steps\"", "3]"}) {
        expect_fault(faults_of(small_run, {std::string("checkpoint.allow_changed=") + list}),
                     "--set 1: checkpoint.allow_changed: ", "would be right: a list of texts");
    }
}

TEST(PlannedRanks, FaultsNameTheOptionOfThePlan) {
    ParseInput input = input_of(small_run, {"parallel.tensor=2"}, 3);
    input.planned = true;
    const auto fault = [&] {
        try {
            parse_run(input);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    expect_fault(fault(), "--set 1: parallel.tensor: pipeline 1 x tensor 2 = 2 does not divide the 3 ranks that were",
                 "planned, 1 would stand idle; would be right: --ranks 2 or 4, a multiple of 2, or keys whose product "
                 "divides 3 (1 or 3)");
    input.overrides = {"parallel.data=2"};
    expect_has(fault(), "= 2, but 3 ranks were planned, 1 would stand idle; would be right: data = 3, or --ranks 2");
    expect_has(faults_of(small_run, {"parallel.tensor=2"}, 1), "the 1 rank that was started, too few");
    expect_has(faults_of(small_run, {"parallel.tensor=2"}, 1), "would be right: start 2 ranks, a multiple of 2");
}

}  // namespace
}  // namespace ogrom
