// ogrom report: charts and tables from the files of a scaling study or of a run. Next: report/sources.cpp
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <vector>

#include "src/base/text.h"
#include "src/commands/arguments.h"
#include "src/commands/commands.h"
#include "src/report/document.h"
#include "src/report/run.h"
#include "src/report/sources.h"
#include "src/report/study_page.h"

namespace ogrom {
namespace {

struct ReportArguments {
    std::vector<std::string> paths;
    std::string output;
    bool json = false;
};

void print(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        fail(ExitCode::checkpoint, "report: cannot write to the standard output");
    }
}

// Names of layouts and hosts come from files; a terminal would act on controls in them.
std::string printable(const std::string& text) {
    std::string result;
    for (const std::string& line : split(text, '\n')) {
        result += (has_control(line) ? quote(line) : line) + "\n";
    }
    return trim(result) + "\n";
}

int report_command(const ReportArguments& arguments) {
    const ReportSources sources = find_sources(arguments.paths);
    Document document;
    std::string words;
    if (sources.run_folder.empty()) {
        Study study = join_points(sources.points);
        study.notes.insert(study.notes.end(), sources.notes.begin(), sources.notes.end());
        document = study_document(study);
        words = study_text(study);
    } else {
        const RunRecord run = read_run(sources.run_folder);
        document = run_document(run);
        words = run_text(run);
    }
    const std::string output = arguments.output.empty() ? sources.default_output : arguments.output;
    const std::vector<std::string> files = write_document(output, document);
    print(arguments.json ? document_json(document)
                         : printable(words) + fmt::format("{}/{{{}}}\n", output, join(files, ",")));
    return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_report(CLI::App& app, Invocation& chosen) {
    const auto arguments = std::make_shared<ReportArguments>();
    CLI::App* command = app.add_subcommand("report", "Charts and tables of a scaling study or of a run");
    command->footer(
        "Example: ogrom report results/studies/demo\n"
        "         ogrom report results/studies/*            (the parts that a job array measured, as one)\n"
        "         ogrom report results/runs/demo\n"
        "Writes report.html (one file, no network, no script), report.csv (a row for each point, or step), "
        "tables/*.csv, "
        "report.json and report.h5 with the same figures. Charts need gnuplot; without it the page has the tables.");
    command
        ->add_option("paths", arguments->paths,
                     "studies (folders with points/), folders of studies, files of points, or the folder of one run")
        ->required();
    const CLI::Option* output = command->add_option(
        "--output", arguments->output,
        "folder for the report (default: report/ in the study or run; of several studies beside them)");
    command->add_flag("--json", arguments->json, "print report.json on standard output instead of a summary");
    command->callback([arguments, output, &chosen] {
        require(output->count() == 0 || !arguments->output.empty(), ExitCode::usage,
                "--output: no folder; would be right: a folder for the report, or no --output");
        chosen.needs_session = false;
        chosen.run = alone("report", [arguments] { return report_command(*arguments); });
    });
}

}  // namespace ogrom
