#include "src/data/pretokenize.h"

#include <array>

#include "src/data/unicode.h"

namespace ogrom {

namespace {

constexpr std::array<CharClass, 128> make_ascii() {
    std::array<CharClass, 128> table{};
    for (unsigned c = 0; c < 128; ++c) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        const bool blank = c == ' ' || (c >= '\t' && c <= '\r');
        table[c] = letter                 ? CharClass::letter
                   : c >= '0' && c <= '9' ? CharClass::number
                   : blank                ? CharClass::blank
                                          : CharClass::other;
    }
    return table;
}
constexpr auto ascii = make_ascii();

struct Seen {
    CharClass kind;
    int bytes;
};

inline Seen look(const char* at, const char* end) {
    const auto byte = static_cast<unsigned char>(*at);
    if (byte < 0x80) [[likely]] {
        return {ascii[byte], 1};
    }
    const Utf8Char c = decode_utf8(at, end);
    return {c.valid ? class_of(c.point) : CharClass::other, c.bytes};
}

// End of the run of characters of one class.
const char* run_end(const char* at, const char* end, CharClass kind) {
    while (at < end) {
        const Seen seen = look(at, end);
        if (seen.kind != kind) {
            break;
        }
        at += seen.bytes;
    }
    return at;
}

// Bytes of the contraction that starts at the apostrophe `at`; 0 = none.
int contraction(const char* at, const char* end) {
    if (end - at < 2) {
        return 0;
    }
    const char a = at[1];
    if (a == 's' || a == 't' || a == 'm' || a == 'd') {
        return 2;
    }
    if (end - at < 3) {
        return 0;
    }
    const char b = at[2];
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

// \s+(?!\S)|\s+ : all blanks at the end of the text; else all but the last, which goes with the next word.
const char* blanks_end(const char* at, const char* end) {
    const char* last = at;
    const char* now = at;
    while (now < end) {
        const Seen seen = look(now, end);
        if (seen.kind != CharClass::blank) {
            return last > at ? last : now;
        }
        last = now;
        now += seen.bytes;
    }
    return now;
}

}  // namespace

const char* word_end(const char* at, const char* end) {
    if (*at == '\'') {
        const int bytes = contraction(at, end);
        if (bytes > 0) {
            return at + bytes;
        }
    }
    const char* const start = *at == ' ' && end - at > 1 ? at + 1 : at;
    const Seen seen = look(start, end);
    if (seen.kind == CharClass::blank) {
        return blanks_end(at, end);
    }
    return run_end(start + seen.bytes, end, seen.kind);
}

}  // namespace ogrom
