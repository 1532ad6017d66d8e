// `ogrom selftest`: every layout of the ranks that were started trains the same
// model.
#include "src/train/selftest.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/base/progress.h"
#include "src/base/text.h"
#include "src/base/timer.h"
#include "src/comm/signals.h"
#include "src/commands/commands.h"
#include "src/train/selftest_chosen.h"

namespace ogrom {
namespace {

struct SelftestArguments {
    bool full = false, chosen = false, json = false;
    std::string only, slice;
    Selftest::Where where;
};

struct Tally {
    i64 run = 0, refused = 0, failed = 0;
    double loss = 0, norm = 0, weights = 0;

    void add(const SelftestRow& row) {
        if (!row.refused.empty()) {
            ++refused;
            return;
        }
        ++run;
        failed += row.failed.empty() ? 0 : 1;
        loss = std::max(loss, row.loss);
        norm = std::max(norm, row.norm);
        weights = std::max(weights, row.weights);
    }
};

// The first line of a refusal, without the name of the text that was parsed.
std::string short_reason(const std::string& text) {
    return split(text, '\n').front();
}

void print_row(const SelftestRow& row) {
    if (!row.refused.empty()) {
        std::printf("refused    %-96s %s\n", row.layout.name().c_str(), short_reason(row.refused).c_str());
    } else {
        std::printf("%-10s %-96s %8.1e %8.1e %8.1e %6.2f s%s%s\n", row.failed.empty() ? "agrees" : "DISAGREES",
                    row.layout.name().c_str(), row.loss, row.norm, row.weights, row.seconds,
                    row.failed.empty() ? "" : "  ", row.failed.c_str());
    }
    std::fflush(stdout);
}

nlohmann::ordered_json json_of(const SelftestRow& row) {
    return {{"layout", row.layout.name()},
            {"refused", row.refused},
            {"failed", row.failed},
            {"loss", row.loss},
            {"norm", row.norm},
            {"weights", row.weights},
            {"seconds", row.seconds}};
}

// Every N-th layout from the K-th on, of the text "K/N".
void keep_slice(std::vector<SelftestLayout>& layouts, const std::string& text) {
    if (text.empty()) {
        return;
    }
    std::size_t k = 0, n = 0;
    int end = 0;
    const bool read =
        std::sscanf(text.c_str(), "%zu/%zu%n", &k, &n, &end) == 2 && text[static_cast<std::size_t>(end)] == 0;
    require(
        read && k >= 1 && k <= n && n <= layouts.size(), ExitCode::usage,
        fmt::format("selftest: --slice {} is not K/N with 1 <= K <= N <= {}, the number of layouts; as in --slice 1/3",
                    text, layouts.size()));
    std::vector<SelftestLayout> kept;
    for (std::size_t i = k - 1; i < layouts.size(); i += n) {
        kept.push_back(layouts[i]);
    }
    layouts = std::move(kept);
}

std::vector<SelftestLayout> layouts_of(const SelftestArguments& arguments, int ranks) {
    std::vector<SelftestLayout> layouts;
    if (arguments.chosen) {
        for (const ChosenLayout& chosen : selftest_chosen(ranks)) {
            layouts.push_back(chosen.layout);
        }
        require(!layouts.empty(), ExitCode::usage,
                fmt::format("selftest: --chosen has layouts of 2, 4 and 8 ranks, {} were started", ranks));
    } else {
        layouts = selftest_layouts(ranks, arguments.full ? Coverage::full : Coverage::pairwise);
    }
    const std::size_t all = layouts.size();
    std::erase_if(layouts, [&](const SelftestLayout& layout) {
        return layout.name().find(arguments.only) == std::string::npos;  // an empty text is in every name
    });
    require(!layouts.empty(), ExitCode::usage,
            fmt::format("selftest: --only {} is in the name of none of the {} layouts over {} rank{}; as in --only {}",
                        arguments.only, all, ranks, ranks == 1 ? "" : "s", "zero"));
    keep_slice(layouts, arguments.slice);
    return layouts;
}

// What the chosen layouts are there for.
void print_reasons(int ranks) {
    for (const ChosenLayout& chosen : selftest_chosen(ranks)) {
        std::printf("chosen     %-72s %s\n", chosen.layout.name().c_str(), std::string(chosen.why).c_str());
    }
}

int selftest_command(const SelftestArguments& arguments, Session& session) {
    end_on_stop_signals();
    const Timer timer;
    const bool leads = session.rank() == 0;
    const std::vector<SelftestLayout> layouts = layouts_of(arguments, session.size());
    session.set_phase(Phase::train, 0);
    Selftest selftest(session, arguments.where);
    if (leads && !arguments.json) {
        std::printf(
            "%zu layouts over %d ranks %s against one rank; largest relative "
            "deviation of loss, norm, weights; "
            "allowed %.0e\n",
            layouts.size(), session.size(), selftest.place().c_str(), selftest_bound);
        if (arguments.chosen) {
            print_reasons(session.size());
        }
    }
    Tally tally;
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const SelftestLayout& layout : layouts) {
        const SelftestRow row = selftest.run(layout);
        tally.add(row);
        if (leads && arguments.json) {
            rows.push_back(json_of(row));
        } else if (leads) {
            print_row(row);
        }
    }
    if (leads && arguments.json) {
        std::printf("%s\n", rows.dump(1).c_str());
    } else if (leads) {
        std::printf(
            "%lld layouts agree, %lld disagree, %lld refused; largest "
            "deviation: loss %.1e, norm %.1e, weights "
            "%.1e; %s\n",
            static_cast<long long>(tally.run - tally.failed), static_cast<long long>(tally.failed),
            static_cast<long long>(tally.refused), tally.loss, tally.norm, tally.weights,
            human_duration(timer.seconds()).c_str());
    }
    return static_cast<int>(tally.failed == 0 ? ExitCode::done : ExitCode::numerics);
}

}  // namespace

void add_selftest(CLI::App& app, Invocation& chosen) {
    const auto arguments = std::make_shared<SelftestArguments>();
    CLI::App* command = app.add_subcommand("selftest", "Train tiny models under every layout of the ranks and compare");
    command->footer(
        "Example: mpirun -n 8 --oversubscribe ogrom selftest\n"
        "Two models of 3 and 16 layers in double precision, 3 steps: "
        "every mesh, ZeRO stage and pipeline schedule, the "
        "other factors pairwise. Exit code 5 when a layout disagrees "
        "with one rank.");
    CLI::Option* const full = command->add_flag("--full", arguments->full, "every combination of every factor (days)");
    command
        ->add_flag("--chosen", arguments->chosen,
                   "the few layouts (22 over 2, 4 and 8 ranks) that make each collective on each axis of the mesh: for "
                   "NCCL with several ranks on one GPU, where all take hours")
        ->excludes(full);
    command->add_option("--only", arguments->only, "layouts whose name contains this text");
    command->add_option("--slice", arguments->slice,
                        "K/N: every N-th layout from the K-th on, so that N calls of bounded time run all");
    command->add_option("--device", arguments->where.device, "auto, cpu or cuda, as run.device; ranks may share a GPU")
        ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
        ->capture_default_str();
    command->add_option("--backend", arguments->where.backend, "auto, mpi or nccl, as comm.backend")
        ->check(CLI::IsMember({"auto", "mpi", "nccl"}))
        ->capture_default_str();
    command->add_flag("--json", arguments->json, "the rows as JSON");
    command->callback([arguments, &chosen] {
        chosen.needs_session = true;
        chosen.run = [arguments](Session* session) { return selftest_command(*arguments, *session); };
    });
}

}  // namespace ogrom
