// One line of a JSON Lines file: the text of one member of the object that the whole line must be (RFC 8259; control
// characters inside strings, which the RFC wants escaped, are kept as they are).
#pragma once
#include <string>
#include <string_view>

#include "kernels/common/extents.h"

namespace ogrom {

// What to do with bytes or escapes that are no characters (invalid UTF-8, halves of surrogate pairs).
enum class InvalidText { error, replace, skip };

struct JsonlLine {
    std::string fault;  // empty = read; else what is wrong at byte `at` of the line
    i64 at = 0;
    i64 replaced = 0;  // characters replaced by U+FFFD
};

// Puts the member's text into `text`. With InvalidText::replace invalid characters are replaced and counted, otherwise
// they are faults; a line that is not such an object is always a fault.
JsonlLine read_jsonl_line(std::string_view line, std::string_view member, InvalidText on_invalid, std::string& text);

}  // namespace ogrom
