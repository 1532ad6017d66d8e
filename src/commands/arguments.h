// What several commands share: number checks whose messages say what would be right, options of input text, and the
// rule that a command without MPI is one process.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "kernels/common/extents.h"

#include "src/comm/session.h"
#include "src/data/documents.h"

namespace ogrom {

// Decimal integers >= `low`, with single underscores if the user likes. (CLI11 itself wraps a negative number round to
// a huge one where the variable is unsigned.)
CLI::Validator whole_number(i64 low);
// Finite numbers above 0.
CLI::Validator positive_number();

// The value of an enumeration by its word; help and faults show the words alone.
template <class Enumeration>
CLI::Validator one_of(std::map<std::string, Enumeration> words) {
    return {[words = std::move(words)](std::string& text) {
                const auto found = words.find(text);
                if (found != words.end()) {
                    text = std::to_string(static_cast<int>(found->second));
                    return std::string();
                }
                std::string right;
                for (const auto& [word, value] : words) {
                    right += right.empty() ? word : " or " + word;
                }
                return "unknown word \"" + text + "\"; would be right: " + right;
            },
            ""};
}

// --on-invalid error|replace|skip
void add_invalid_option(CLI::App& command, DocumentOptions& documents);

// 0, or 8 with a line that says so when input was skipped.
int finish_code(i64 skipped);

// `run` on rank 0 of a launch; further ranks of mpirun or srun end at once with code 0, else all of them would write
// the same files.
std::function<int(Session*)> alone(const std::string& command, std::function<int()> run);

}  // namespace ogrom
