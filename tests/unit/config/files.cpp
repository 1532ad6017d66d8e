// Include files, --set, the resolved file, resume, the generated reference, and every file in inputs/.
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/base/file.h"
#include "src/base/text.h"
#include "src/config/resume.h"
#include "src/config/schema.h"
#include "src/plan/machine.h"

#include "tests/unit/config/case.h"

namespace ogrom {
namespace {

std::string source_folder() {
    return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().parent_path().string();
}

class Files : public ::testing::Test {
protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "ogrom-config-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override { remove_tree(folder_); }

    std::string write(const std::string& name, const std::string& text) {
        const std::string path = join_path(folder_, name);
        make_directories(parent_path(path));
        write_file_atomic(path, text);
        return path;
    }
    static RunConfig load(const std::string& path, std::vector<std::string> overrides = {}, i64 ranks = 1) {
        ParseInput input = input_of("", std::move(overrides), ranks);
        input.path = path;
        return parse_run(input);
    }
    static std::string faults(const std::string& path) {
        try {
            load(path);
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            return error.what();
        }
        ADD_FAILURE() << "accepted";
        return "";
    }

    std::string folder_;
};

TEST_F(Files, IncludeIsRelativeAndLaterWins) {
    write("base/deep.toml", "[train]\nsteps = 1\nmicro_batch = 7\n[optimizer]\nwarmup_steps = 1\n");
    write("base/model.toml", "include = 'deep.toml'\n" + small_run);
    write("base/more.toml", "[optimizer]\nlr = 5e-4\n[run]\nthreads = 2\n");
    const std::string path =
        write("runs/run.toml", "include = [\"../base/model.toml\", \"../base/more.toml\"]\n[run]\nthreads = 3\n");
    const RunConfig run = load(path, {"train.sequence=16", "train.steps=60"});
    EXPECT_EQ(run.model.layers, 4);            // from model.toml
    EXPECT_EQ(run.optimizer.warmup_steps, 1);  // from deep.toml
    EXPECT_EQ(run.train.micro_batch, 2);       // model.toml over deep.toml
    EXPECT_EQ(run.optimizer.lr, 5e-4);         // more.toml over model.toml
    EXPECT_EQ(run.run.threads, 3);             // run.toml over more.toml
    EXPECT_EQ(run.train.steps, 60);            // --set over all
    expect_has(run.resolved_toml, "threads = 3  # " + path + ":3\n");
    expect_has(run.resolved_toml, "lr = 0.0005  # " + join_path(folder_, "base/more.toml") + ":2\n");
    expect_has(run.resolved_toml, "steps = 60  # --set 2\n");
}

TEST_F(Files, FaultsNameTheFileTheyAreIn) {
    const std::string base = write("base.toml", "[train]\nstepz = 3\n");
    const std::string path = write("run.toml", "include = ['base.toml']\n" + small_run);
    expect_fault(faults(path), base + ":2: train.stepz: unknown key", "train.steps");
    write("base.toml", "[train]\nsteps = = 3\n");
    expect_has(faults(path), base + ":2: train.steps: not valid TOML");
}

TEST_F(Files, BrokenIncludesAreRefused) {
    const std::string a = write("a.toml", "\ninclude = ['b.toml']\n" + small_run);
    const std::string b = write("b.toml", "include = './a.toml'\n");
    expect_fault(faults(a), b + ":1: include: ", "includes itself");
    const std::string missing = write("c.toml", "include = ['none.toml']\n");
    expect_fault(faults(missing), missing + ":1: include: ", "none.toml: cannot open");
    const std::string wrong = write("d.toml", "include = [3]\n");
    expect_fault(faults(wrong), wrong + ":1: include: ", "include = [\"base.toml\"]");
    expect_has(faults(join_path(folder_, "nothing.toml")), "nothing.toml: cannot open");
    const std::string large = write("large.toml", std::string((std::size_t{1} << 20) + 1, '#'));
    expect_has(faults(large), "at most 1048576");
    // The same base twice is no cycle.
    write("base.toml", small_run);
    write("left.toml", "include = 'base.toml'\n");
    EXPECT_EQ(load(write("both.toml", "include = ['base.toml', 'left.toml']\n")).model.layers, 4);
}

TEST_F(Files, KeyOfABaseFileThatALaterChoiceMakesIdleIsOnlyNoted) {
    write("base.toml", small_run + "[numerics]\non_nonfinite = 'skip'\nmax_skipped_steps = 3\n");
    const RunConfig run = load(write("run.toml", "include = 'base.toml'\n[numerics]\non_nonfinite = 'stop'\n"));
    EXPECT_TRUE(noted(run, "numerics.max_skipped_steps"));
    EXPECT_EQ(run.numerics.max_skipped_steps, 10);
}

TEST(Override, FormsAndFaults) {
    const RunConfig run = parse(small_run, {"run.name=2024", "data.train=\"with space\"", " model.tied = false ",
                                            "checkpoint.allow_changed=[\"optimizer.lr\"]", "data.valid=a=b"});
    EXPECT_EQ(run.run.name, "2024");
    EXPECT_EQ(run.data.train, "with space");
    EXPECT_EQ(run.data.valid, "a=b");
    EXPECT_FALSE(run.model.tied);
    EXPECT_EQ(run.checkpoint.allow_changed, std::vector<std::string>{"optimizer.lr"});
    expect_fault(faults_of(small_run, {"model.layers"}), "--set 1: model.layers: no value", "--set section.key=value");
    for (const char* nameless : {".=3", "train.=3", ".steps=3", "train . = 3"}) {
        expect_fault(faults_of(small_run, {nameless}), std::string("--set 1: ") + nameless + ": no key",
                     "--set section.key=value");
    }
    EXPECT_EQ(parse(small_run, {"train . steps = 7"}).train.steps, 7);
    expect_fault(faults_of(small_run, {"train.steps=99999999999999999999"}),
                 "--set 1: train.steps: ", "at most 9_223_372_036_854_775_807");
    expect_fault(faults_of(small_run, {"train.steps=1000000000001"}),
                 "--set 1: train.steps: ", "at most 1_000_000_000_000 (optimizer steps)");
    expect_fault(faults_of(small_run, {"layers=3"}), "--set 1: layers: layers belongs to [model]", "model.layers");
    expect_fault(faults_of(small_run, {"model.layers=3\n[train]\nsteps = 7"}), "--set 1: model.layers: ", "an integer");
    expect_fault(faults_of(small_run, {"checkpoint.allow_changed=[\"optimizer.lrr\"]"}),
                 "--set 1: checkpoint.allow_changed: unknown key", "optimizer.lrr");
    expect_fault(faults_of(small_run, {"checkpoint.allow_changed=[\"model.layers\"]"}),
                 "--set 1: checkpoint.allow_changed: ", "can never change");
}

TEST(Override, TheSameKeyTwiceIsAnErrorThatNamesBoth) {
    expect_fault(faults_of(small_run, {"train.steps=50", "optimizer.lr=0.5", " train . steps = 60"}),
                 "--set 3: train.steps: given twice: 50 by --set 1, 60 here; would be right: once", "");
    expect_fault(faults_of(small_run, {"train.steps=50", "train.steps=50"}), "--set 2: train.steps: given twice", "");
    EXPECT_EQ(parse(small_run, {"train.seed=3", "data.seed=4"}).data.seed, 4u);
}

TEST(Resolved, ParsesBackToTheSameRun) {
    const std::vector<std::vector<std::string>> variants = {
        {},
        {"optimizer.kind=sgd", "optimizer.momentum=0.9", "optimizer.schedule=constant"},
        {"optimizer.schedule=wsd", "numerics.on_nonfinite=skip", "numerics.compute=fp64"},
        {"data.valid=''", "data.valid_fraction=0.1", "optimizer.lr=0.1", "optimizer.epsilon=1.2345678901234567e-9"},
        {"data.train='with \"quotes\" and \\ and \t tab'", "run.output=/somewhere/else", "model.vocab=509"},
        {"checkpoint.allow_changed=[\"optimizer.lr\", \"train.steps\"]", "train.global_batch=24"},
        {"train.seed=9000000000000000000", "comm.bucket_mib=3", "optimizer.clip_norm=0"},
        {"parallel.tensor=2", "parallel.pipeline=2", "parallel.schedule=zb-h1", "model.vocab=509"},
        {"parallel.pipeline=2", "parallel.schedule=interleaved", "parallel.virtual_stages=2", "parallel.zero=3",
         "parallel.zero_regather=step", "parallel.zero_group=3", "parallel.stage_layers=[1,1,1,1]"},
        {"train.recompute=full", "train.recompute_interval=2", "train.trace='a b.json'", "parallel.tensor=4",
         "parallel.sequence_parallel=false", "comm.check_collectives=true"}};
    for (const auto& overrides : variants) {
        const RunConfig run = parse(small_run, overrides, 12);
        const RunConfig again = parse(run.resolved_toml, {}, 12);
        EXPECT_TRUE(same_values(run, again)) << run.resolved_toml << again.resolved_toml;
        EXPECT_TRUE(same_values(run, parse(run.resolved_toml, {}, 0))) << "0 ranks: the file's own mesh";
        expect_has(faults_of(run.resolved_toml, {}, 7), "but 7 ranks were started");
        for (const Key& key : schema()) {
            const std::string line = std::string(key.name);
            EXPECT_TRUE(run.resolved_toml.find("\n" + line + " = ") != std::string::npos ||
                        run.resolved_toml.find("\n# " + line + ": ") != std::string::npos)
                << key.full_name();
        }
    }
}

TEST(Resolved, SaysWhereEveryValueCameFrom) {
    const std::string text = parse(small_run, {"optimizer.warmup_steps=7"}).resolved_toml;
    expect_has(text, "layers = 4  # case.toml:2\n");
    expect_has(text, "warmup_steps = 7  # --set 1\n");
    expect_has(text, "weight_decay = 0.1  # default\n");
    expect_has(text, "min_lr = 0.0001  # derived: = lr / 10\n");
    expect_has(text, "# momentum: no effect, needs optimizer.kind = \"sgd\"\n");
}

TEST(Resume, B13ScheduleKeysNeedPermission) {
    const std::string saved = parse(small_run).resolved_toml;
    EXPECT_TRUE(resume_conflicts(saved, parse(small_run)).empty());
    // Layout, output, intervals and machine may differ.
    const RunConfig moved = parse(small_run,
                                  {"train.global_batch=2", "train.micro_batch=1", "run.output=x", "run.threads=2",
                                   "checkpoint.interval_steps=5", "comm.bucket_mib=1"},
                                  2);
    EXPECT_TRUE(resume_conflicts(saved, moved).empty());
    const RunConfig spread =
        parse(small_run,
              {"train.global_batch=2", "parallel.tensor=2", "parallel.pipeline=2", "parallel.zero=3",
               "parallel.schedule=interleaved", "parallel.virtual_stages=2", "parallel.zero_regather=step",
               "parallel.sequence_parallel=false", "train.recompute=full", "train.trace=t.json",
               "numerics.deterministic=true", "train.micro_batch=1"},
              8);
    EXPECT_TRUE(resume_conflicts(saved, spread).empty());
    EXPECT_TRUE(resume_conflicts(spread.resolved_toml, parse(small_run)).empty());
    const std::vector<std::string> conflicts = resume_conflicts(saved, parse(small_run, {"train.steps=200"}));
    ASSERT_EQ(conflicts.size(), 2u);  // train.steps and the decay_steps derived from it
    EXPECT_EQ(conflicts[0],
              "train.steps: 100 in the checkpoint, 200 in the run file; would be right: 100, or "
              "checkpoint.allow_changed = [\"train.steps\", \"optimizer.decay_steps\"] to go on with 200");
    const RunConfig allowed =
        parse(small_run, {"train.steps=200", "checkpoint.allow_changed=['train.steps', 'optimizer.decay_steps']"});
    EXPECT_TRUE(resume_conflicts(saved, allowed).empty());
    const std::vector<ResumeChange> changes = resume_changes(saved, allowed);
    ASSERT_EQ(changes.size(), 2u);
    expect_has(changes[0].text, "200 is used");
}

TEST(Resume, ShapesNeverChangeAndTheBatchAndSeedNeedPermission) {
    const std::string saved = parse(small_run).resolved_toml;
    for (const char* setting : {"train.global_batch=4", "data.seed=1", "train.seed=7", "optimizer.lr=0.1",
                                "optimizer.beta2=0.9", "optimizer.warmup_steps=3", "train.sequence=16"}) {
        EXPECT_FALSE(resume_conflicts(saved, parse(small_run, {setting})).empty()) << setting;
    }
    // One line allows every change at once, what was allowed already included.
    const std::vector<std::string> two = resume_conflicts(
        saved, parse(small_run, {"optimizer.lr=0.1", "data.seed=1", "optimizer.beta2=0.9",
                                 "checkpoint.allow_changed=['optimizer.beta2']", "optimizer.min_lr=1e-4"}));
    ASSERT_EQ(two.size(), 2u);
    expect_has(two[1], "checkpoint.allow_changed = [\"optimizer.beta2\", \"data.seed\", \"optimizer.lr\"]");
    const std::vector<std::string> shape = resume_conflicts(saved, parse(small_run, {"model.layers=5"}));
    ASSERT_EQ(shape.size(), 1u);
    expect_has(shape[0], "model.layers: 4 in the checkpoint, 5 in the run file; would be right: 4 (this decides");
    try {
        resume_conflicts("[model]\nlayerz = 3\n", parse(small_run));
        FAIL() << "an unreadable run file was accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::checkpoint);
    }
}

TEST(Schema, EveryRowIsComplete) {
    std::vector<std::string> names;
    for (const Key& key : schema()) {
        const std::string name = key.full_name();
        EXPECT_EQ(find_key(name), &key) << name << " stands twice";
        EXPECT_FALSE(key.meaning.empty()) << name;
        EXPECT_EQ(key.type() == KeyType::choice, !key.choices.empty()) << name;
        EXPECT_TRUE(key.limits.has_value() || (key.type() != KeyType::integer && key.type() != KeyType::real)) << name;
        for (const std::string& built : split(key.built, ' ')) {
            EXPECT_TRUE(built.empty() || key.choices.empty() ||
                        std::find(key.choices.begin(), key.choices.end(), built) != key.choices.end())
                << name << ": " << built;
        }
        EXPECT_TRUE(key.effect.decider.empty() || find_key(key.effect.decider) != nullptr) << name;
    }
    EXPECT_EQ(section_names().size(), 10u);
}

TEST(Schema, ReadmeIsTheGeneratedReference) {
    const std::string path = join_path(source_folder(), "inputs/README.md");
    EXPECT_TRUE(read_file(path, i64{1} << 20) == schema_markdown())
        << path << " is not what `ogrom keys --markdown` prints; write it anew";
}

TEST(Schema, TextAndJsonHoldEveryKeyAndFilter) {
    for (const Key& key : schema()) {
        expect_has(schema_json(), "\"key\": \"" + key.full_name() + "\"");
        expect_has(schema_text(), "  " + std::string(key.name) + " ");
    }
    EXPECT_EQ(schema_text("optimizer.lr").find("[train]"), std::string::npos);
    expect_has(schema_text("optimizer.lr"), "peak learning rate");
    EXPECT_EQ(schema_json("no such key"), "[]\n");
}

// "# 4 ranks: ..." in the first line of a file per layout; the others take any number.
i64 ranks_named(const std::string& text) {
    const bool named = text.starts_with("# ") && text.substr(0, text.find(':')).find(" rank") != std::string::npos;
    return named ? parse_integer(text.substr(2, text.find(' ', 2) - 2)).value_or(-1) : 2;
}

TEST(Inputs, EveryFileParses) {
    const std::string inputs = join_path(source_folder(), "inputs");
    int runs = 0;
    std::vector<i64> lines;
    for (const std::string& name : list_directory(join_path(inputs, "runs"))) {
        ParseInput input;
        input.path = join_path(join_path(inputs, "runs"), name);
        const std::string text = read_file(input.path, i64{1} << 20);
        input.ranks = ranks_named(text);
        try {
            const RunConfig run = parse_run(input);
            for (const std::string& note : run.notes) {
                const bool own = note.find(input.path + ":") != std::string::npos;
                EXPECT_FALSE(own && note.find("without effect") != std::string::npos) << note;
            }
        } catch (const Error& error) {
            ADD_FAILURE() << name << ": " << error.what();
        }
        lines.push_back(std::count(text.begin(), text.end(), '\n'));
        ++runs;
    }
    EXPECT_GE(runs, 17);
    std::sort(lines.begin(), lines.end());
    EXPECT_LT(lines[lines.size() / 2], 30);
    const std::string rest = "\n[data]\ntrain='x'\n[train]\nsteps=1\n[optimizer]\nlr=1.0\n";
    for (const std::string& name : list_directory(join_path(inputs, "models"))) {
        EXPECT_NO_THROW(parse(read_file(join_path(join_path(inputs, "models"), name), 10'000) + rest)) << name;
    }
    const std::string model = "\n[model]\nlayers=1\nhidden=4\nheads=1\nsequence=2\n";
    for (const std::string& name : list_directory(join_path(inputs, "machines"))) {
        const std::string text = read_file(join_path(join_path(inputs, "machines"), name), 10'000);
        const std::string whole = fmt::format("{}{}{}", text, rest, model);
        if (is_machine_file(text)) {  // measured (unit/plan/machine.cpp), and no part of a run file
            EXPECT_THROW(parse(whole), Error) << name;
            continue;
        }
        EXPECT_NO_THROW(parse(whole)) << name;
    }
}

// The files per layout are about that layout, and every schedule, ZeRO stage and kind of recomputation has one.
TEST(Inputs, ThereIsAFilePerLayout) {
    struct Layout {
        const char* name;
        i64 ranks, pp, dp, tp, zero, group;
        PipelineSchedule schedule;
        Recompute recompute;
        bool sequence_parallel;
    };
    constexpr auto usual = PipelineSchedule::one_f_one_b;
    constexpr auto kept = Recompute::none;
    const std::vector<Layout> layouts = {
        {"tp2", 2, 1, 1, 2, 0, 1, usual, kept, true},
        {"tp4-replicated", 4, 1, 1, 4, 0, 1, usual, kept, false},
        {"pp2-gpipe", 2, 2, 1, 1, 0, 1, PipelineSchedule::gpipe, kept, false},
        {"pp2-1f1b", 2, 2, 1, 1, 0, 1, usual, kept, false},
        {"pp2-interleaved", 2, 2, 1, 1, 0, 1, PipelineSchedule::interleaved, kept, false},
        {"pp2-zb-h1", 2, 2, 1, 1, 0, 1, PipelineSchedule::zero_bubble, kept, false},
        {"zero1", 2, 1, 2, 1, 1, 2, usual, kept, false},
        {"zero2", 2, 1, 2, 1, 2, 2, usual, kept, false},
        {"zero3", 2, 1, 2, 1, 3, 2, usual, kept, false},
        {"hsdp", 4, 1, 4, 1, 3, 2, usual, kept, false},
        {"tp2-pp2-zero1", 8, 2, 2, 2, 1, 2, usual, kept, true},
        {"tp2-pp2-zero3", 8, 2, 2, 2, 3, 2, PipelineSchedule::zero_bubble, kept, true},
        {"recompute-selective", 1, 1, 1, 1, 0, 1, usual, Recompute::selective, false},
        {"recompute-full", 1, 1, 1, 1, 0, 1, usual, Recompute::full, false},
    };
    for (const Layout& layout : layouts) {
        ParseInput input;
        input.path = join_path(source_folder(), std::string("inputs/runs/") + layout.name + ".toml");
        input.ranks = ranks_named(read_file(input.path, 10'000));
        EXPECT_EQ(input.ranks, layout.ranks) << layout.name;
        const RunConfig run = parse_run(input);
        const ParallelConfig& p = run.parallel;
        EXPECT_EQ(std::vector<i64>({p.pipeline, p.data, p.tensor, p.zero, p.zero_group}),
                  std::vector<i64>({layout.pp, layout.dp, layout.tp, layout.zero, layout.group}))
            << layout.name;
        EXPECT_EQ(p.schedule, layout.schedule) << layout.name;
        EXPECT_EQ(run.train.recompute, layout.recompute) << layout.name;
        EXPECT_EQ(p.sequence_parallel, layout.sequence_parallel) << layout.name;
    }
}

}  // namespace
}  // namespace ogrom
