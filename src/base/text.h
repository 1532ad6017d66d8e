// Small text tools: nearest names for error messages, sizes and numbers for people.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

// Edit distance of two names: insertions, deletions, substitutions and swaps of neighbours count 1 each (optimal string
// alignment). Case is ignored.
i64 edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `name`, when it is near enough to be what the user meant: at most a third of the longer
// name's letters (and at least one) differ.
std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates);

// "12.3 GiB"; below 1 KiB "512 B". Negative sizes keep their sign.
std::string human_bytes(i64 bytes);

// "0:42", "12:05", "3:01:07"; negative or non-finite times give "--:--".
std::string human_duration(double seconds);

// "1_000_000": digits in groups of three, in the form that a run file accepts.
std::string group_digits(i64 value);

// Decimal integer with optional sign and single underscores between digits ("1_000_000"); nothing else, no overflow.
std::optional<i64> parse_integer(std::string_view text);

// The whole text as a finite double (C locale); no blanks, no suffix.
std::optional<double> parse_real(std::string_view text);

// Written as a number, of digits, sign, point and exponent, that lies beyond doubles ("1e400") or, without point and
// exponent, beyond 64-bit integers.
bool is_number_too_large(std::string_view text);

// Control characters, C0 (but the tab) and C1 as UTF-8: a terminal would act on them.
bool has_control(std::string_view text);

// Words that end in a zero byte each (/proc/PID/cmdline) as one line that a shell reads back into the same words.
std::string shell_words(const std::string& zero_ended);

std::string join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);  // "a,,b" gives three parts
std::string quote(
    std::string_view text);               // in double quotes, as TOML and JSON read it back; control characters escaped
std::string trim(std::string_view text);  // without blanks at both ends

}  // namespace ogrom
