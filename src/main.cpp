// In: the command line. Out: an exit code (kernels/common/error.h). Next: the chosen file of src/commands.
// The single catch of the program: it names rank, host, phase and last collective and ends the job on every rank.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "kernels/common/error.h"

#include "src/base/text.h"
#include "src/base/version.h"
#include "src/comm/session.h"
#include "src/commands/commands.h"
#include "src/commands/settings.h"

namespace {

constexpr const char* exit_codes =
    "Exit codes: 0 done, 1 inspect --diff found differences, 2 usage or run file, 3 data, 4 checkpoint or file\n"
    "system, 5 numerics stop, 6 rank or communicator failed, 7 does not fit, 8 done with skipped input, 75 saved on\n"
    "signal or time limit: requeue. Of check: 4 the output folder, 6 something is slow, 7 a limit of the system.\n"
    "Documentation: the README.md of each folder; `ogrom keys` lists every key of a run file.";

// No session: every rank meets the same fault, one speaks.
void tell(const std::exception& error) {
    if (ogrom::prints_for_launch()) {
        std::fprintf(stderr, "ogrom: error: %s\n", error.what());
    } else {
        ogrom::let_it_print();
    }
}

int report(ogrom::Session* session, const ogrom::Error& error) {
    if (session != nullptr) {
        session->abort(error);
    }
    tell(error);
    return static_cast<int>(error.code());
}

int run(const ogrom::Invocation& chosen) {
    std::unique_ptr<ogrom::Session> session;
    try {
        if (chosen.needs_session) {
            session = std::make_unique<ogrom::Session>(ogrom::Session::Options{.timeout_s = chosen.timeout_s});
        }
        return chosen.run(session.get());
    } catch (const ogrom::Error& error) {
        return report(session.get(), error);
    } catch (const std::bad_alloc&) {
        return report(session.get(), {ogrom::ExitCode::memory, "host memory exhausted outside the arena"});
    } catch (const std::exception& error) {
        const bool output = std::ferror(stdout) != 0;  // fmt throws where a print did not go out
        return report(session.get(), {output ? ogrom::ExitCode::checkpoint : ogrom::ExitCode::peer,
                                      output ? "cannot write to the standard output" : error.what()});
    }
}

// Commands that take a run file are often given its keys, or other programs' names for them, as options.
std::string advice_on(const CLI::App& app, int argc, char** argv) {
    const std::string name = argc > 1 ? argv[1] : "";
    return name == "train" || name == "plan" || name == "scale"
               ? ogrom::settings_advice(*app.get_subcommand(name), std::vector<std::string>(argv + 2, argv + argc))
               : std::string();
}

int launch(int argc, char** argv) {
    ogrom::Invocation chosen;
    CLI::App app{
        "Ogrom trains GPT models from two cores to thousands of GPUs.\n"
        "Example: mpirun -n 4 ogrom train inputs/runs/demo.toml",
        "ogrom"};
    app.footer(exit_codes);
    app.set_version_flag("--version", ogrom::version_text());
    app.require_subcommand(1);
    ogrom::add_train(app, chosen);
    ogrom::add_plan(app, chosen);
    ogrom::add_scale(app, chosen);
    ogrom::add_report(app, chosen);
    ogrom::add_data(app, chosen);
    ogrom::add_tokenizer(app, chosen);
    ogrom::add_sample(app, chosen);
    ogrom::add_inspect(app, chosen);
    ogrom::add_keys(app, chosen);
    ogrom::add_selftest(app, chosen);
    ogrom::add_check(app, chosen);
    ogrom::add_convert(app, chosen);
    ogrom::add_hosts(app, chosen);
    if (const std::string word = argc > 1 ? argv[1] : ""; !word.empty() && word[0] != '-') {
        std::vector<std::string> names;
        for (const CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
            names.push_back(command->get_name());
        }
        if (std::find(names.begin(), names.end(), word) == names.end()) {
            const std::optional<std::string> meant = ogrom::nearest(word, names);
            ogrom::fail(ogrom::ExitCode::usage,
                        "no command '" + word + "'; " + (meant ? "nearest: " + *meant : "commands: ogrom --help"));
        }
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        const bool asked = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);  // --help, --version
        const std::string advice = asked ? "" : advice_on(app, argc, argv);
        if (!advice.empty()) {
            ogrom::fail(ogrom::ExitCode::usage, advice);
        }
        if (ogrom::prints_for_launch()) {
            app.exit(error);
        } else if (!asked) {
            ogrom::let_it_print();
        }
        return asked ? 0 : static_cast<int>(ogrom::ExitCode::usage);
    }
    if (!chosen.run) {
        std::fputs(app.help().c_str(), stderr);
        return static_cast<int>(ogrom::ExitCode::usage);
    }
    return run(chosen);
}

// What was printed may have met a full disk, which stdio tells only now. Of success nothing else is left to say it.
int with_output(int code) {
    const bool whole = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    const bool succeeded =
        code == static_cast<int>(ogrom::ExitCode::done) || code == static_cast<int>(ogrom::ExitCode::skipped_input);
    if (whole || !succeeded) {
        return code;
    }
    std::fprintf(stderr, "ogrom: error: cannot write to the standard output: the disk is full, or nobody reads it\n");
    return static_cast<int>(ogrom::ExitCode::checkpoint);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return with_output(launch(argc, argv));
    } catch (const std::exception& error) {  // before there is a chosen command
        tell(error);
        return static_cast<int>(ogrom::ExitCode::usage);
    }
}
