// Run files for tests: a small valid one, changes to it, and the faults that a parse reports.
#pragma once
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/config/run.h"

namespace ogrom {

// Lines 1 to 16; tests append further lines from 17 on or set keys by --set.
inline const std::string small_run = R"([model]
layers = 4
hidden = 64
heads = 4
vocab = 512
sequence = 32
[data]
train = "corpus"
valid = "corpus-valid"
[train]
steps = 100
micro_batch = 2
[optimizer]
lr = 1e-3
[run]
name = "case"
)";

inline ParseInput input_of(const std::string& text, std::vector<std::string> overrides = {}, i64 ranks = 1) {
    ParseInput input;
    input.path = "case.toml";
    input.text = text;
    input.overrides = std::move(overrides);
    input.ranks = ranks;
    return input;
}

inline RunConfig parse(const std::string& text, std::vector<std::string> overrides = {}, i64 ranks = 1) {
    return parse_run(input_of(text, std::move(overrides), ranks));
}

// The message of the usage error; empty (and a failure) when the file was accepted.
inline std::string faults_of(const std::string& text, std::vector<std::string> overrides = {}, i64 ranks = 1) {
    try {
        parse_run(input_of(text, std::move(overrides), ranks));
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    ADD_FAILURE() << "accepted: " << text;
    return "";
}

inline void expect_has(const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << "wanted: " << part << "\nmessage: " << message;
}

// Exactly one fault, which says both parts.
inline void expect_fault(const std::string& message, const std::string& start, const std::string& part) {
    EXPECT_TRUE(message.starts_with(start)) << "wanted: " << start << "\nmessage: " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    expect_has(message, part);
}

inline bool noted(const RunConfig& run, const std::string& part) {
    for (const std::string& note : run.notes) {
        if (note.find(part) != std::string::npos) {
            return true;
        }
    }
    return false;
}

}  // namespace ogrom
