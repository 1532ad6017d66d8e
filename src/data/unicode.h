// UTF-8 and the three character classes of GPT-2's pattern. A byte that starts no valid sequence (RFC 3629: no
// overlong form, no surrogate, at most U+10FFFF) stands alone: class other, length 1.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/common/extents.h"

namespace ogrom {

enum class CharClass : std::uint8_t { other = 0, letter = 1, number = 2, blank = 3 };

struct Utf8Char {
    u32 point = 0;
    int bytes = 1;
    bool valid = true;
};
// Decodes the character at `at`; at < end.
Utf8Char decode_utf8(const char* at, const char* end);
void append_utf8(u32 point, std::string& out);

CharClass class_of(u32 point);

// Offset of the first byte that is not valid UTF-8, or -1.
i64 first_invalid_utf8(std::string_view text);
// Copies `text` with every invalid byte replaced by U+FFFD; returns how many were.
i64 replace_invalid_utf8(std::string_view text, std::string& out);

}  // namespace ogrom
