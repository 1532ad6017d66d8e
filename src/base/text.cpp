#include "src/base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace ogrom {

namespace {

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

}  // namespace

i64 edit_distance(std::string_view a, std::string_view b) {
    const std::size_t columns = b.size() + 1;
    std::vector<i64> before(columns), above(columns), row(columns);
    for (std::size_t j = 0; j < columns; ++j) {
        above[j] = static_cast<i64>(j);
    }
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = static_cast<i64>(i);
        for (std::size_t j = 1; j < columns; ++j) {
            const bool same = lower(a[i - 1]) == lower(b[j - 1]);
            row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
                row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
        before.swap(above);
        above.swap(row);
    }
    return above[b.size()];
}

std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates) {
    std::optional<std::string> best;
    i64 best_distance = 0;
    for (const std::string& candidate : candidates) {
        const i64 distance = edit_distance(name, candidate);
        const i64 limit = std::max<i64>(1, static_cast<i64>(std::max(name.size(), candidate.size())) / 3);
        if (distance <= limit && (!best || distance < best_distance)) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}

std::string human_bytes(i64 bytes) {
    constexpr std::array<std::string_view, 7> units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes > -1024 && bytes < 1024) {
        return fmt::format("{} B", bytes);
    }
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    // 1023.95 would print as "1024.0": such values belong to the next unit.
    while (std::abs(value) >= 1023.95 && unit + 1 < units.size()) {
        value /= 1024;
        ++unit;
    }
    return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string human_duration(double seconds) {
    if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e12) {
        return "--:--";
    }
    const i64 total = static_cast<i64>(std::llround(seconds));
    if (total >= 3600) {
        return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
    }
    return fmt::format("{}:{:02}", total / 60, total % 60);
}

std::string group_digits(i64 value) {
    std::string text = fmt::format("{}", value);
    const std::size_t first = value < 0 ? 1 : 0;
    for (std::size_t at = text.size(); at > first + 3;) {
        at -= 3;
        text.insert(at, 1, '_');
    }
    return text;
}

std::optional<i64> parse_integer(std::string_view text) {
    std::string digits;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '_') {
            if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
                return std::nullopt;
            }
        } else if (is_digit(text[i]) || (i == 0 && text[i] == '-')) {
            digits += text[i];
        } else if (!(i == 0 && text[i] == '+' && text.size() > 1)) {
            return std::nullopt;
        }
    }
    i64 value = 0;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (status != std::errc() || end != digits.data() + digits.size()) {
        return std::nullopt;
    }
    return value;
}

std::optional<double> parse_real(std::string_view text) {
    double value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
        return std::nullopt;
    }
    return value;
}

bool is_number_too_large(std::string_view text) {
    std::string digits;
    for (const char c : text) {
        if (c != '_') {
            digits += c;
        }
    }
    if (digits.starts_with('+')) {
        digits.erase(0, 1);
    }
    const auto beyond = [&](auto value) {
        const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        return status == std::errc::result_out_of_range && end == digits.data() + digits.size();
    };
    // A double too small is out of range as well: its exponent is negative.
    return beyond(i64{0}) ||
           (beyond(0.0) && digits.find("e-") == std::string::npos && digits.find("E-") == std::string::npos);
}

bool has_control(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto code = static_cast<unsigned char>(text[i]);
        const bool c1 = code == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                        static_cast<unsigned char>(text[i + 1]) < 0xA0;
        if ((code < 0x20 && code != '\t') || code == 0x7F || c1) {
            return true;
        }
    }
    return false;
}

std::string shell_words(const std::string& zero_ended) {
    constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
    std::string text;
    for (std::size_t at = 0; at < zero_ended.size();) {
        const std::size_t end = std::min(zero_ended.find('\0', at), zero_ended.size());
        const std::string word = zero_ended.substr(at, end - at);
        text += text.empty() ? "" : " ";
        if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) {
            text += word;
        } else {
            text += '\'';
            for (const char c : word) {
                text += c == '\'' ? std::string("'\\''") : std::string(1, c);
            }
            text += '\'';
        }
        at = end + 1;
    }
    return text;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
    return fmt::format("{}", fmt::join(parts, separator));
}

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    std::size_t start = 0;
    for (std::size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator, start)) {
        parts.emplace_back(text.substr(start, end - start));
        start = end + 1;
    }
    parts.emplace_back(text.substr(start));
    return parts;
}

std::string quote(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        const auto code = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            result += '\\';
            result += c;
        } else if (code < 0x20 || code == 0x7f) {
            result += fmt::format("\\u{:04X}", code);
        } else {
            result += c;
        }
    }
    return result + "\"";
}

std::string trim(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n\v\f";
    const std::size_t first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) {
        return "";
    }
    return std::string(text.substr(first, text.find_last_not_of(blanks) - first + 1));
}

}  // namespace ogrom
