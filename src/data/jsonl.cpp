#include "src/data/jsonl.h"

#include <fmt/core.h>

#include "src/data/unicode.h"

namespace ogrom {

namespace {

constexpr int deepest = 512;
constexpr u32 replacement = 0xFFFD;

struct Fault {
    i64 at;
    std::string what;
};

// Walks the line once; strings that nobody asked for are checked and passed over.
class LineParser {
public:
    LineParser(std::string_view line, InvalidText on_invalid) : line_(line), on_invalid_(on_invalid) {}

    void object_with(std::string_view member, std::string& text) {
        bool found = false;
        blanks();
        expect('{', "an object");
        blanks();
        if (peek() != '}') {
            do {
                found = pair(member, text, found) || found;
            } while (comma());
        }
        expect('}', "',' or '}'");
        blanks();
        if (at_ < line_.size()) {
            refuse("something follows the object");
        }
        if (!found) {
            refuse(fmt::format("no member \"{}\"", member));
        }
    }
    [[nodiscard]] i64 replaced() const { return replaced_; }

private:
    [[noreturn]] void refuse(const std::string& what) const { throw Fault{static_cast<i64>(at_), what}; }
    [[nodiscard]] char peek() const { return at_ < line_.size() ? line_[at_] : '\0'; }
    void blanks() {
        while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) {
            ++at_;
        }
    }
    void expect(char wanted, const char* name) {
        if (at_ >= line_.size() || line_[at_] != wanted) {
            refuse(fmt::format("{} is missing here", name));
        }
        ++at_;
    }
    bool comma() {
        blanks();
        if (peek() != ',') {
            return false;
        }
        ++at_;
        return true;
    }
    void key(std::string& name) {
        blanks();
        name.clear();
        string(&name);
        blanks();
        expect(':', "':'");
        blanks();
    }
    // One "name": value; true where it is the wanted member.
    bool pair(std::string_view member, std::string& text, bool found) {
        std::string name;
        key(name);
        if (name != member) {
            value(1);
            return false;
        }
        if (found) {
            refuse(fmt::format("member \"{}\" stands twice", member));
        }
        if (peek() != '"') {
            refuse(fmt::format("member \"{}\" is not a string", member));
        }
        string(&text);
        return true;
    }
    void value(int depth) {
        if (depth > deepest) {
            refuse(fmt::format("nested more than {} deep", deepest));
        }
        blanks();
        switch (peek()) {
            case '{':
                members(depth);
                break;
            case '[':
                elements(depth);
                break;
            case '"':
                string(nullptr);
                break;
            case 't':
                word("true");
                break;
            case 'f':
                word("false");
                break;
            case 'n':
                word("null");
                break;
            default:
                number();
        }
    }
    void members(int depth) {
        ++at_;
        blanks();
        if (peek() != '}') {
            std::string name;
            do {
                key(name);
                value(depth + 1);
            } while (comma());
        }
        expect('}', "',' or '}'");
    }
    void elements(int depth) {
        ++at_;
        blanks();
        if (peek() != ']') {
            do {
                value(depth + 1);
            } while (comma());
        }
        expect(']', "',' or ']'");
    }
    void word(std::string_view name) {
        if (line_.substr(at_, name.size()) != name) {
            refuse("not a JSON value");
        }
        at_ += name.size();
    }
    std::size_t digits() {
        const std::size_t first = at_;
        while (peek() >= '0' && peek() <= '9') {
            ++at_;
        }
        return at_ - first;
    }
    void number() {
        at_ += peek() == '-' ? 1 : 0;
        const bool zero = peek() == '0';
        const std::size_t whole = digits();
        bool good = whole == 1 || (whole > 1 && !zero);
        if (peek() == '.') {
            ++at_;
            good = digits() > 0 && good;
        }
        if (peek() == 'e' || peek() == 'E') {
            ++at_;
            at_ += peek() == '+' || peek() == '-' ? 1 : 0;
            good = digits() > 0 && good;
        }
        if (!good) {
            refuse("not a JSON value");
        }
    }

    // A string; its text is appended to `text` unless that is null.
    void string(std::string* text) {
        expect('"', "'\"'");
        while (true) {
            const std::size_t first = at_;
            while (at_ < line_.size() && line_[at_] != '"' && line_[at_] != '\\') {
                ++at_;
            }
            if (text != nullptr) {
                text->append(line_, first, at_ - first);
            }
            if (at_ >= line_.size()) {
                refuse("the line ends inside a string");
            }
            if (line_[at_] == '"') {
                ++at_;
                return;
            }
            escape(text);
        }
    }
    void escape(std::string* text) {
        constexpr std::string_view names = "\"\\/bfnrt";
        constexpr std::string_view values = "\"\\/\b\f\n\r\t";
        const char name = at_ + 1 < line_.size() ? line_[at_ + 1] : '\0';
        u32 point = 0;
        if (name == 'u') {
            point = unicode_escape();
        } else {
            const std::size_t found = name == '\0' ? std::string_view::npos : names.find(name);
            if (found == std::string_view::npos) {
                refuse("an unknown escape");
            }
            point = static_cast<unsigned char>(values[found]);
            at_ += 2;
        }
        if (text != nullptr) {
            append_utf8(point, *text);
        }
    }
    // The four digits of \uXXXX at `from`; -1 where there is no such escape.
    [[nodiscard]] i64 hex4(std::size_t from) const {
        if (line_.size() < from + 6 || line_[from] != '\\' || line_[from + 1] != 'u') {
            return -1;
        }
        i64 point = 0;
        for (std::size_t i = from + 2; i < from + 6; ++i) {
            const char c = line_[i];
            const int digit = c >= '0' && c <= '9'   ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
            if (digit < 0) {
                return -1;
            }
            point = point * 16 + digit;
        }
        return point;
    }
    u32 unicode_escape() {
        const i64 first = hex4(at_);
        if (first < 0) {
            refuse("\\u needs four hexadecimal digits");
        }
        if (first < 0xD800 || first > 0xDFFF) {
            at_ += 6;
            return static_cast<u32>(first);
        }
        const i64 second = first < 0xDC00 ? hex4(at_ + 6) : -1;
        if (second >= 0xDC00 && second <= 0xDFFF) {
            at_ += 12;
            return static_cast<u32>(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00));
        }
        if (on_invalid_ != InvalidText::replace) {
            refuse(fmt::format("\\u{:04x} is half of a surrogate pair", first));
        }
        ++replaced_;
        at_ += 6;
        return replacement;
    }

    std::string_view line_;
    InvalidText on_invalid_;
    std::size_t at_ = 0;
    i64 replaced_ = 0;
};

}  // namespace

JsonlLine read_jsonl_line(std::string_view line, std::string_view member, InvalidText on_invalid, std::string& text) {
    JsonlLine result;
    text.clear();
    std::string repaired;
    if (const i64 bad = first_invalid_utf8(line); bad >= 0) {
        if (on_invalid != InvalidText::replace) {
            return {fmt::format("invalid UTF-8 (0x{:02X})", static_cast<unsigned char>(line[bad])), bad, 0};
        }
        result.replaced = replace_invalid_utf8(line, repaired);
        line = repaired;
    }
    LineParser parser(line, on_invalid);
    try {
        parser.object_with(member, text);
    } catch (const Fault& fault) {
        return {fault.what, fault.at, 0};
    }
    result.replaced += parser.replaced();
    return result;
}

}  // namespace ogrom
