#include "src/data/unicode.h"

#include <cstring>
#include <vector>

namespace ogrom {

namespace {

struct Range {
    u32 first, last;
    CharClass kind;
};
constexpr Range ranges[] = {
#include "src/data/unicode_tables.inc"
};
constexpr u32 points = 0x110000;
constexpr u32 replacement = 0xFFFD;

// One byte per code point (1.1 MB, of which a text touches few pages).
std::vector<CharClass> make_classes() {
    std::vector<CharClass> classes(points, CharClass::other);
    for (const Range& range : ranges) {
        for (u32 point = range.first; point <= range.last; ++point) {
            classes[point] = range.kind;
        }
    }
    return classes;
}

u32 tail(const char* at, int i) {
    return static_cast<unsigned char>(at[i]);
}
bool is_tail(u32 byte) {
    return (byte & 0xC0) == 0x80;
}

}  // namespace

Utf8Char decode_utf8(const char* at, const char* end) {
    const u32 lead = tail(at, 0);
    if (lead < 0x80) {
        return {lead, 1, true};
    }
    const int bytes = lead >= 0xC2 && lead < 0xE0   ? 2
                      : lead >= 0xE0 && lead < 0xF0 ? 3
                      : lead >= 0xF0 && lead < 0xF5 ? 4
                                                    : 0;
    if (bytes == 0 || end - at < bytes) {
        return {lead, 1, false};
    }
    u32 point = lead & (0xFFU >> (bytes + 1));
    for (int i = 1; i < bytes; ++i) {
        if (!is_tail(tail(at, i))) {
            return {lead, 1, false};
        }
        point = (point << 6) | (tail(at, i) & 0x3F);
    }
    const bool overlong = (bytes == 3 && point < 0x800) || (bytes == 4 && point < 0x10000);
    const bool surrogate = point >= 0xD800 && point < 0xE000;
    if (overlong || surrogate || point >= points) {
        return {lead, 1, false};
    }
    return {point, bytes, true};
}

void append_utf8(u32 point, std::string& out) {
    const auto put = [&](u32 byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
    if (point < 0x80) {
        put(point);
    } else if (point < 0x800) {
        put(0xC0 | (point >> 6));
        put(0x80 | (point & 0x3F));
    } else if (point < 0x10000) {
        put(0xE0 | (point >> 12));
        put(0x80 | ((point >> 6) & 0x3F));
        put(0x80 | (point & 0x3F));
    } else {
        put(0xF0 | (point >> 18));
        put(0x80 | ((point >> 12) & 0x3F));
        put(0x80 | ((point >> 6) & 0x3F));
        put(0x80 | (point & 0x3F));
    }
}

CharClass class_of(u32 point) {
    static const std::vector<CharClass> classes = make_classes();
    return point < points ? classes[point] : CharClass::other;
}

i64 first_invalid_utf8(std::string_view text) {
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end) {
        u64 word;
        while (end - at >= 8 && (std::memcpy(&word, at, 8), (word & 0x8080808080808080ULL) == 0)) {
            at += 8;
        }
        if (at == end) {
            break;
        }
        const Utf8Char c = decode_utf8(at, end);
        if (!c.valid) {
            return at - text.data();
        }
        at += c.bytes;
    }
    return -1;
}

i64 replace_invalid_utf8(std::string_view text, std::string& out) {
    i64 replaced = 0;
    while (true) {
        const i64 bad = first_invalid_utf8(text);
        out.append(text.substr(0, bad < 0 ? text.size() : static_cast<std::size_t>(bad)));
        if (bad < 0) {
            return replaced;
        }
        append_utf8(replacement, out);
        ++replaced;
        text.remove_prefix(static_cast<std::size_t>(bad) + 1);
    }
}

}  // namespace ogrom
