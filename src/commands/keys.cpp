// ogrom keys: the run-file reference.
#include <cctype>
#include <cstdio>
#include <fmt/format.h>
#include <memory>

#include "src/base/text.h"
#include "src/commands/arguments.h"
#include "src/commands/commands.h"
#include "src/config/schema.h"

namespace ogrom {

namespace {

struct KeysOptions {
    std::string filter;
    bool markdown = false, json = false;
};

// "[Optimizer]" as it stands in a run file finds the section's keys.
std::string plain(const std::string& filter) {
    std::string text;
    for (const char c : filter) {
        if (c != '[' && c != ']') {
            text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        }
    }
    return text;
}

std::string near_name(const std::string& filter) {
    std::vector<std::string> names(section_names().begin(), section_names().end());
    for (const Key& key : schema()) {
        names.emplace_back(key.name);
        names.push_back(key.full_name());
    }
    const auto near = nearest(filter, names);
    return near ? fmt::format("; nearest: {}", *near) : std::string();
}

int run_keys(const KeysOptions& options) {
    const std::string filter = plain(options.filter);
    const std::string text = options.markdown ? schema_markdown()
                             : options.json   ? schema_json(filter)
                                              : schema_text(filter);
    if (text.empty() || text == "[]\n") {
        fail(ExitCode::usage,
             fmt::format("keys: no key contains \"{}\"{}; `ogrom keys` lists all", options.filter, near_name(filter)));
    }
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        fail(ExitCode::checkpoint, "keys: cannot write to the standard output");
    }
    return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_keys(CLI::App& app, Invocation& chosen) {
    CLI::App* command = app.add_subcommand("keys", "Reference of every key of a run file");
    const auto options = std::make_shared<KeysOptions>();
    command->add_option("FILTER", options->filter,
                        "only keys whose name contains this, as in optimizer or train.steps");
    CLI::Option* markdown = command->add_flag("--markdown", options->markdown, "as Markdown (inputs/README.md)");
    command->add_flag("--json", options->json, "as JSON, one object per key")->excludes(markdown);
    command->footer("Example: ogrom keys optimizer");
    command->callback([options, &chosen] {
        chosen.needs_session = false;
        chosen.run = alone("keys", [options] { return run_keys(*options); });
    });
}

}  // namespace ogrom
