// Run files that would cost the user something, or mislead: include trees that double, pipes, numbers beyond 64 bits,
// control characters, a trace over an input.
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>

#include "src/base/file.h"

#include "case.h"

namespace ogrom {
namespace {

class Hostile : public ::testing::Test {
protected:
    void SetUp() override {
        folder_ = ::testing::TempDir() + "ogrom-hostile-XXXXXX";
        ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    std::string write(const std::string& name, const std::string& text) const {
        const std::string path = join_path(folder_, name);
        write_file_atomic(path, text);
        return path;
    }
    static ParseInput of_file(const std::string& path, std::vector<std::string> overrides = {}) {
        ParseInput input;
        input.path = path;
        input.overrides = std::move(overrides);
        return input;
    }
    static std::string faults(const std::string& path, std::vector<std::string> overrides = {}) {
        try {
            parse_run(of_file(path, std::move(overrides)));
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            return error.what();
        }
        return "";
    }
    std::string folder_;
};

// 20 levels, each including the next one by two files: 2^20 readings if each were read again.
TEST_F(Hostile, AnIncludeTreeIsReadOncePerFile) {
    write("base.toml", small_run);
    std::string below = "base.toml";
    for (int level = 0; level < 20; ++level) {
        const std::string left = fmt::format("left{}.toml", level), right = fmt::format("right{}.toml", level);
        write(left, fmt::format("include = '{}'\n", below));
        write(right, fmt::format("include = '{}'\n", below));
        below = fmt::format("both{}.toml", level);
        write(below, fmt::format("include = ['{}', '{}']\n", left, right));
    }
    EXPECT_EQ(parse_run(of_file(join_path(folder_, below))).model.layers, 4);
}

TEST_F(Hostile, ASharedBaseStaysBelowBothThatIncludeIt) {
    write("base.toml", small_run);
    write("left.toml", "include = 'base.toml'\n[optimizer]\nlr = 5e-4\n");
    write("right.toml", "include = 'base.toml'\n[train]\nsteps = 7\n");
    const RunConfig run = parse_run(of_file(write("run.toml", "include = ['left.toml', 'right.toml']\n")));
    EXPECT_EQ(run.optimizer.lr, 5e-4);
    EXPECT_EQ(run.train.steps, 7);
}

TEST_F(Hostile, MoreThan64FilesAreRefused) {
    write("file0.toml", small_run);
    for (int i = 1; i <= 64; ++i) {
        write(fmt::format("file{}.toml", i), fmt::format("include = 'file{}.toml'\n", i - 1));
    }
    EXPECT_EQ(parse_run(of_file(join_path(folder_, "file63.toml"))).model.layers, 4);
    expect_has(faults(join_path(folder_, "file64.toml")), "at most 64 files");
}

TEST_F(Hostile, APipeIsRefusedByNameAndNotWaitedFor) {
    const std::string pipe = join_path(folder_, "pipe.toml");
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    expect_has(faults(pipe), "pipe.toml: is a pipe");
}

TEST_F(Hostile, NumbersBeyond64BitsAreSaidToBeThat) {
    expect_fault(faults_of(small_run, {"optimizer.lr=1e400"}),
                 "--set 1: optimizer.lr: 1e400 is more than 64 bits hold, at most 1.79e308", "a number");
    expect_fault(faults_of(small_run, {"train.steps=18446744073709551615"}),
                 "--set 1: train.steps: 18446744073709551615 is more than 64 bits hold", "9_223_372_036_854_775_807");
    const std::string huge = faults_of(small_run, {"optimizer.lr=1e308"});
    EXPECT_EQ(huge.find("at most -"), std::string::npos) << huge;
    for (const char* line : {"lr = 1e400", "lr = 99999999999999999999"}) {
        expect_fault(faults(write("run.toml", "[optimizer]\n" + std::string(line) + "\n")),
                     join_path(folder_, "run.toml") + ":2: optimizer.lr: ", "more than 64 bits hold");
    }
}

TEST_F(Hostile, ControlCharactersAreRefusedWhereverANameComesFrom) {
    expect_fault(faults(write("run.toml", small_run), {"run.name=\"a\\u001b[31mb\""}),
                 "--set 1: run.name: has a line break or control character: \"a\\u001B[31mb\"", "plain text");
    expect_fault(faults(write("run.toml", small_run), {"run.output=\"a\\u009bb\""}),
                 "--set 1: run.output: ", "control character");
    const std::string nameless = small_run.substr(0, small_run.find("[run]"));
    expect_has(faults(write("r\x1b[31m.toml", nameless)), "run.name: \"r\\u001B[31m\" cannot name a folder");
}

TEST_F(Hostile, ATraceNeverReplacesAnInputOrAFileOfTheRun) {
    const std::string base = write("base.toml", small_run);
    const std::string run = write("run.toml", "include = 'base.toml'\n");
    const std::string output = join_path(folder_, "out");
    const auto refused = [&](const std::string& trace) {
        return faults(run, {"run.output=" + output, "data.train=" + join_path(folder_, "set"),
                            "data.tokenizer=" + join_path(folder_, "bpe"), "train.trace=" + trace});
    };
    for (const char* name : {"run.toml", "base.toml", "./x/../base.toml", "set.bin", "set.idx", "set.json",
                             "out/metrics.csv", "out/run.toml", "out/checkpoints", "bpe/tokenizer.json", "bpe"}) {
        expect_has(refused(folder_ + "/" + name), "would be overwritten; would be right: a name of its own");
    }
    for (const char* name : {"trace.json", "out/trace.json", "set.trace"}) {
        EXPECT_EQ(refused(folder_ + "/" + name), "") << name;
    }
}

}  // namespace
}  // namespace ogrom
