#include "src/commands/arguments.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <unistd.h>

#include "kernels/common/error.h"

#include "src/base/log.h"
#include "src/base/text.h"
#include "src/comm/launch.h"

namespace ogrom {

CLI::Validator whole_number(i64 low) {
    return {[low](std::string& text) {
                const auto value = parse_integer(text);
                if (!value || *value < low) {
                    return fmt::format("{} is not right; would be right: a whole number >= {}{}", quote(text), low,
                                       is_number_too_large(text) ? ", at most 9_223_372_036_854_775_807" : "");
                }
                text = fmt::format("{}", *value);  // CLI11 takes no underscores
                return std::string();
            },
            ""};
}

CLI::Validator positive_number() {
    return {[](std::string& text) {
                const auto value = parse_real(text);
                return value && *value > 0
                           ? std::string()
                           : fmt::format("{} is not right; would be right: a finite number > 0", quote(text));
            },
            ""};
}

void add_invalid_option(CLI::App& command, DocumentOptions& documents) {
    const std::map<std::string, InvalidText> policies = {
        {"error", InvalidText::error}, {"replace", InvalidText::replace}, {"skip", InvalidText::skip}};
    command
        .add_option(
            "--on-invalid", documents.on_invalid,
            "invalid UTF-8, half surrogates: stop, put U+FFFD, or leave the document out and end with exit code "
            "8 (default: error). Malformed JSON lines stop unless skipped")
        ->transform(one_of(policies))
        ->type_name("error|replace|skip");
}

int finish_code(i64 skipped) {
    if (skipped == 0) {
        return static_cast<int>(ExitCode::done);
    }
    log_warning("{} documents or lines were skipped as invalid (exit code 8)", skipped);
    return static_cast<int>(ExitCode::skipped_input);
}

std::function<int(Session*)> alone(const std::string& command, std::function<int()> run) {
    return [command, run = std::move(run)](Session*) {
        const LaunchFacts facts = read_launch([](const char* name) { return std::getenv(name); }, geteuid() == 0);
        if (facts.rank.value_or(0) > 0) {
            return static_cast<int>(ExitCode::done);
        }
        if (facts.tasks.value_or(1) > 1) {
            log_warning("ogrom {} is one process: rank 0 works, further ranks have nothing to do", command);
        }
        return run();
    };
}

}  // namespace ogrom
