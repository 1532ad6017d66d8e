// What the readers of run files hand to the parser: one entry per key as written, with the place it came from; and the
// list in which all faults are collected before one error is thrown.
#pragma once
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "src/config/run.h"

namespace ogrom {

// A TOML value of a kind that no key takes (date, table, mixed list ...), by the name of its kind.
struct OtherValue {
    std::string kind;
};
using EntryValue = std::variant<bool, i64, double, std::string, std::vector<std::string>, std::vector<i64>, OtherValue>;

struct Entry {
    std::string section;  // "" for a key above every section
    std::string key;      // "" for a section header without keys
    EntryValue value;
    std::string raw;           // as written: "1_000", "\"adamw\""
    bool plain_digits = true;  // false for hexadecimal, octal and binary integers
    std::string where;         // "run.toml:12" or "--set 2"
    i64 layer = 0;             // base files lower than the file that includes them, --set highest

    [[nodiscard]] std::string full_name() const { return section.empty() ? key : section + "." + key; }
};

// The entries that decide each key: the last one given wins.
using Given = std::map<std::string, Entry>;

class Faults {
public:
    // `where: key: what`, with what = "what is wrong; what would be right".
    void add(const std::string& where, const std::string& key, const std::string& what);
    [[nodiscard]] bool empty() const { return lines_.empty(); }
    // Error(usage) with every fault on a line of its own.
    void throw_if_any(const char* in = "the run file") const;
    [[nodiscard]] i64 size() const { return static_cast<i64>(lines_.size()); }

private:
    std::vector<std::string> lines_;
};

}  // namespace ogrom
