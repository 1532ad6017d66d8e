// JSON that others wrote. Comes in: a text from a file that nobody vouches for. Goes out: values, or an Error that
// names the file.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "src/base/error.h"

namespace ogrom {

// Groups within groups that are read: nlohmann's writer, copies and comparisons call themselves for each level, so a
// file of brackets would overrun the stack.
inline constexpr int deepest_json = 64;

// Throws Error(`code`) that names `path`: no JSON, nested beyond deepest_json, or a key that stands twice in one object
// (the parser would keep the last and say nothing). For nlohmann::json and nlohmann::ordered_json.
template <class Json>
Json parse_json(std::string_view text, const std::string& path, ExitCode code);

// A value for a message: at most 200 bytes of it.
template <class Json>
std::string json_text(const Json& value);

}  // namespace ogrom
