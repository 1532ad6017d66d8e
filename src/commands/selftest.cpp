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

namespace ogrom {
namespace {

struct SelftestArguments {
    bool full = false, json = false;
    std::string only;
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

int selftest_command(const SelftestArguments& arguments, Session& session) {
    end_on_stop_signals();
    const Timer timer;
    const bool leads = session.rank() == 0;
    std::vector<SelftestLayout> layouts =
        selftest_layouts(session.size(), arguments.full ? Coverage::full : Coverage::pairwise);
    const std::size_t all = layouts.size();
    std::erase_if(layouts, [&](const SelftestLayout& layout) {
        return layout.name().find(arguments.only) == std::string::npos;  // an empty text is in every name
    });
    require(!layouts.empty(), ExitCode::usage,
            fmt::format("selftest: --only {} is in the name of none of the {} layouts over {} rank{}; as in --only {}",
                        arguments.only, all, session.size(), session.size() == 1 ? "" : "s", "zero"));
    session.set_phase(Phase::train, 0);
    Selftest selftest(session, arguments.where);
    if (leads && !arguments.json) {
        std::printf(
            "%zu layouts over %d ranks %s against one rank; largest relative "
            "deviation of loss, norm, weights; "
            "allowed %.0e\n",
            layouts.size(), session.size(), selftest.place().c_str(), selftest_bound);
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
    command->add_flag("--full", arguments->full, "every combination of every factor (days)");
    command->add_option("--only", arguments->only, "layouts whose name contains this text");
    command->add_option("--device", arguments->where.device, "auto, cpu or cuda, as run.device; ranks may share a GPU")
        ->capture_default_str();
    command->add_option("--backend", arguments->where.backend, "auto, mpi or nccl, as comm.backend")
        ->capture_default_str();
    command->add_flag("--json", arguments->json, "the rows as JSON");
    command->callback([arguments, &chosen] {
        chosen.needs_session = true;
        chosen.run = [arguments](Session* session) { return selftest_command(*arguments, *session); };
    });
}

}  // namespace ogrom
