// `ogrom sample` from the command line down: a checkpoint written here, text and JSON, refusals.
#include <filesystem>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "kernels/common/error.h"

#include "src/commands/commands.h"
#include "src/data/tokenizer.h"
#include "src/io/checkpoint.h"
#include "src/io/checkpoint_type.h"
#include "src/model/parameters.h"

namespace ogrom::test {
namespace {

ModelConfig byte_model() {
    ModelConfig model;
    model.layers = 2;
    model.hidden = 12;
    model.heads = model.kv_heads = 3;
    model.head_dim = 4;
    model.ffn_hidden = 20;
    model.vocab = 257;
    model.padded_vocab = 320;
    model.sequence = 16;
    model.init_std = 0.3;
    return model;
}

class Sample : public testing::Test {
protected:
    Sample() : folder_(std::filesystem::temp_directory_path() / ("ogrom-sample-" + std::to_string(getpid()))) {
        std::filesystem::remove_all(folder_);
        std::filesystem::create_directories(folder_);
    }
    ~Sample() override { std::filesystem::remove_all(folder_); }

    template <class T>
    std::string save(i64 step, const std::string& identity, const std::string& tokenizer_path = "byte") {
        const ModelConfig model = byte_model();
        const ParameterTable table = make_parameters(model, dtype_of<T>());
        const ParameterLayout layout(table, {.first_layer = 0, .last_layer = model.layers});
        std::vector<T> weights(static_cast<std::size_t>(layout.size()));
        initialise<T>(weights, layout, static_cast<u64>(step));
        CheckpointHeader header;
        header.step = step;
        header.tokenizer = identity;
        header.tokenizer_path = tokenizer_path;
        header.weight_hash = weight_hash<T>(weights, layout);
        const std::string directory = folder_ / "checkpoints";
        const std::unique_ptr<Communicator> alone = make_single_communicator();
        save_checkpoint<T>(*alone, directory, header, layout, model, {weights, {}, {}}, 5);
        return directory;
    }
    // What the command prints.
    static std::string run(std::vector<std::string> arguments) {
        CLI::App app;
        Invocation chosen;
        add_sample(app, chosen);
        arguments.insert(arguments.begin(), "sample");
        std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
        app.parse(arguments);
        EXPECT_FALSE(chosen.needs_session);
        testing::internal::CaptureStdout();
        try {
            const int code = chosen.run(nullptr);
            EXPECT_EQ(code, 0);
        } catch (...) {
            testing::internal::GetCapturedStdout();
            throw;
        }
        return testing::internal::GetCapturedStdout();
    }
    static nlohmann::json run_json(std::vector<std::string> arguments) {
        arguments.emplace_back("--json");
        return nlohmann::json::parse(run(std::move(arguments)));
    }
    static ExitCode refusal(const std::vector<std::string>& arguments) {
        try {
            run(arguments);
        } catch (const Error& error) {
            EXPECT_STRNE(error.what(), "");
            return error.code();
        }
        return ExitCode::done;
    }

    std::filesystem::path folder_;
    std::string byte_identity_ = Tokenizer::byte_level().identity();
};

TEST_F(Sample, TheSameSeedGivesTheSameText) {
    const std::string checkpoints = save<float>(3, byte_identity_);
    const std::vector<std::string> arguments = {checkpoints, "--prompt", "abc", "--tokens", "12", "--seed", "5"};
    const nlohmann::json first = run_json(arguments);
    EXPECT_EQ(first, run_json(arguments));
    EXPECT_EQ(first.at("step"), 3);
    EXPECT_EQ(first.at("format"), 1);
    const nlohmann::json other = run_json({checkpoints, "--prompt", "abc", "--tokens", "12", "--seed", "6"});
    EXPECT_NE(first.at("tokens"), other.at("tokens"));
    const nlohmann::json greedy = run_json({checkpoints, "--temperature", "0", "--tokens", "12", "--seed", "5"});
    const nlohmann::json greedy_other = run_json({checkpoints, "--temperature", "0", "--tokens", "12", "--seed", "6"});
    EXPECT_EQ(greedy.at("tokens"), greedy_other.at("tokens"));
}

TEST_F(Sample, NeverEmitsPaddingAndSlidesBeyondTheSequence) {
    const std::string checkpoints = save<float>(3, byte_identity_);
    i64 tokens = 0;
    i64 left_window = 0;
    for (int seed = 0; seed < 5; ++seed) {
        const nlohmann::json json =
            run_json({checkpoints, "--tokens", "120", "--temperature", "3", "--seed", std::to_string(seed)});
        for (const i64 token : json.at("tokens")) {
            EXPECT_GE(token, 0);
            EXPECT_LT(token, 256);  // 256 ends the document and is not emitted, 257 to 319 are padding
            ++tokens;
        }
        EXPECT_TRUE(json.at("finish") == "end_of_document" || json.at("tokens").size() == 120U);
        left_window += json.at("left_window").get<i64>();
    }
    EXPECT_GT(tokens, 100);
    EXPECT_GT(left_window, 0);
}

TEST_F(Sample, PlainTextIsPromptAndContinuation) {
    const std::string checkpoints = save<double>(4, byte_identity_);
    EXPECT_EQ(read_weight_type(checkpoints), Dtype::fp64);
    const std::string prompt = "a prompt that is longer than sixteen bytes";
    const nlohmann::json json = run_json({checkpoints, "--prompt", prompt, "--tokens", "7"});
    std::string expected = prompt;
    for (const int token : json.at("tokens")) {
        expected += static_cast<char>(token);
    }
    EXPECT_EQ(run({checkpoints, "--prompt", prompt, "--tokens", "7"}), expected + "\n");
    // Only the last 16 bytes reach the model.
    const nlohmann::json tail = run_json({checkpoints, "--prompt", prompt.substr(prompt.size() - 16), "--tokens", "7"});
    EXPECT_EQ(tail.at("tokens"), json.at("tokens"));
}

TEST_F(Sample, TakesAStepACheckpointsOrARunFolder) {
    const std::string checkpoints = save<float>(3, byte_identity_);
    save<float>(9, byte_identity_);
    EXPECT_EQ(run_json({checkpoints, "--tokens", "2"}).at("step"), 9);
    EXPECT_EQ(run_json({folder_.string(), "--tokens", "2"}).at("step"), 9);
    EXPECT_EQ(run_json({checkpoints + "/step-00000003", "--tokens", "2"}).at("step"), 3);
}

TEST_F(Sample, RefusesAnotherTokenizerAndBadOptions) {
    const std::string other = save<float>(3, "another identity");
    EXPECT_EQ(refusal({other}), ExitCode::data);
    EXPECT_EQ(refusal({other, "--tokenizer", "byte"}), ExitCode::data);
    const std::string moved = save<float>(5, byte_identity_, "no/such/tokenizer.json");
    EXPECT_EQ(refusal({moved}), ExitCode::data);
    EXPECT_EQ(refusal({moved, "--tokenizer", "byte", "--tokens", "2"}), ExitCode::done);
    EXPECT_EQ(refusal({moved, "--tokenizer", "byte", "--tokens", "0"}), ExitCode::usage);
    EXPECT_EQ(refusal({moved, "--tokenizer", "byte", "--temperature", "-1"}), ExitCode::usage);
    EXPECT_EQ(refusal({moved, "--tokenizer", "byte", "--top-p", "0"}), ExitCode::usage);
    EXPECT_EQ(refusal({(folder_ / "nothing").string()}), ExitCode::checkpoint);
}

}  // namespace
}  // namespace ogrom::test
