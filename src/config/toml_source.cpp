#include "src/config/toml_source.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <toml++/toml.h>

#include "src/base/file.h"
#include "src/base/text.h"

namespace ogrom {

namespace {

constexpr i64 largest_run_file = i64{1} << 20;
constexpr std::size_t most_files = 64;
constexpr i64 override_layer = i64{1} << 40;

std::string kind_name(const toml::node& node) {
    switch (node.type()) {
        case toml::node_type::table:
            return "a table";
        case toml::node_type::array:
            return "a list";
        case toml::node_type::date:
        case toml::node_type::time:
        case toml::node_type::date_time:
            return "a date or time";
        default:
            return "a value of an unknown kind";
    }
}

// A list of texts (the empty one too) or of integers.
EntryValue convert_list(const toml::array& list) {
    std::vector<std::string> texts;
    std::vector<i64> integers;
    for (const toml::node& element : list) {
        if (const auto* text = element.as_string()) {
            texts.push_back(text->get());
        } else if (const auto* integer = element.as_integer()) {
            integers.push_back(integer->get());
        }
    }
    if (texts.size() == list.size()) {
        return texts;
    }
    if (integers.size() == list.size()) {
        return integers;
    }
    return OtherValue{"a list of something else than texts or integers"};
}

EntryValue convert(const toml::node& node) {
    if (const auto* value = node.as_boolean()) {
        return value->get();
    }
    if (const auto* value = node.as_integer()) {
        return i64{value->get()};
    }
    if (const auto* value = node.as_floating_point()) {
        return value->get();
    }
    if (const auto* value = node.as_string()) {
        return value->get();
    }
    if (const auto* list = node.as_array()) {
        return convert_list(*list);
    }
    return OtherValue{kind_name(node)};
}

// The characters of a value as the user wrote them (one line at most).
std::string raw_text(const std::vector<std::string>& lines, const toml::node& node) {
    const toml::source_region& region = node.source();
    if (region.begin.line == 0 || region.begin.line > lines.size()) {
        return "";
    }
    const std::string& line = lines[region.begin.line - 1];
    const std::size_t first = std::min<std::size_t>(region.begin.column - 1, line.size());
    const std::size_t last = region.end.line == region.begin.line ? region.end.column - 1 : line.size();
    return trim(std::string_view(line).substr(first, std::max(last, first) - first));
}

struct Reader {
    std::vector<Entry>& entries;
    Faults& faults;
    std::vector<std::string> open_files;  // canonical paths, for cycles
    std::vector<std::string> files;       // all that were read: the canonical paths, each once
    i64 layer = 0;

    void file(const std::string& path, const std::string& text, const std::string& asked_at);
    void document(const std::string& path, const std::string& text);
    void includes(const std::string& path, const toml::table& root);
    void section(const std::string& path, const std::vector<std::string>& lines, const std::string& name,
                 const toml::table& table, i64 line);
    Entry entry(const std::string& path, const std::vector<std::string>& lines, const std::string& section,
                const toml::key& key, const toml::node& node) const;
};

// "[train]" of the header line that governs line `number` (from 1); empty above the first.
std::string section_at(const std::vector<std::string>& lines, std::size_t number) {
    for (std::size_t i = std::min(number, lines.size()); i > 0; --i) {
        const std::string line = trim(lines[i - 1]);
        if (line.starts_with('[') && line.find(']') != std::string::npos) {
            const std::size_t first = line.find_first_not_of('[');
            return trim(line.substr(first, line.find(']') - first));
        }
    }
    return "";
}

std::string key_of(const std::string& line) {
    const std::size_t equals = line.find('=');
    return equals == std::string::npos ? "" : trim(std::string_view(line).substr(0, equals));
}

std::string too_large(const std::string& number) {
    const bool real = number.find_first_of(".eE") != std::string::npos;
    return fmt::format("{} is more than 64 bits hold, at most {}", number,
                       real ? "1.79e308" : "9_223_372_036_854_775_807");
}

// "10m", "1MiB": digits with a suffix, which TOML itself cannot say anything helpful about.
bool has_unit_suffix(std::string_view value) {
    const std::size_t digits = value.find_first_not_of("+-0123456789._");
    return digits != std::string_view::npos && digits > 0 &&
           std::all_of(value.begin() + static_cast<std::ptrdiff_t>(digits), value.end(),
                       [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '%'; });
}

// A syntax error in our words: a key given twice, a number with a unit, or what toml++ says.
void add_syntax_fault(const std::string& path, const std::vector<std::string>& lines, const toml::parse_error& error,
                      Faults& faults) {
    const std::size_t number = std::max<std::size_t>(error.source().begin.line, 1);
    const std::string where = fmt::format("{}:{}", path, number);
    const std::string line = number <= lines.size() ? lines[number - 1] : "";
    const std::string section = section_at(lines, number);
    const std::string key = key_of(line);
    const std::string header = section.empty() ? "TOML" : fmt::format("[{}]", section);
    const std::string full_name = section.empty() ? key : fmt::format("{}.{}", section, key);
    const std::string name = key.empty() ? header : full_name;
    if (std::string_view(error.description()).find("redefine") != std::string_view::npos) {
        std::size_t first = 0;
        for (std::size_t i = 1; i < number && first == 0; ++i) {
            const bool same = key.empty() ? trim(lines[i - 1]) == trim(line)
                                          : key_of(lines[i - 1]) == key && section_at(lines, i) == section;
            first = same ? i : 0;
        }
        faults.add(where, name,
                   fmt::format("given twice{}; would be right: once",
                               first > 0 ? fmt::format(" (first in line {})", first) : std::string()));
        return;
    }
    std::string value = key.empty() ? "" : line.substr(line.find('=') + 1);
    value = trim(value.substr(0, value.find('#')));
    if (is_number_too_large(value)) {
        faults.add(where, name, fmt::format("{}; would be right: a smaller one", too_large(value)));
        return;
    }
    if (has_unit_suffix(value)) {
        const Key* known = find_key(name);
        const std::string unit = known != nullptr && !known->unit.empty() ? std::string(known->unit) : "no unit";
        faults.add(where, name,
                   fmt::format("'{}' has a suffix that could mean several things; the unit is fixed ({}): write the "
                               "plain number, as in 1_000_000",
                               value, unit));
        return;
    }
    faults.add(
        where, name,
        fmt::format("not valid TOML: {}; would be right: key = value, texts in \"quotes\"", error.description()));
}

Entry Reader::entry(const std::string& path, const std::vector<std::string>& lines, const std::string& section,
                    const toml::key& key, const toml::node& node) const {
    Entry result;
    result.section = section;
    result.key = std::string(key.str());
    result.value = convert(node);
    result.raw = raw_text(lines, node);
    const auto* integer = node.as_integer();
    result.plain_digits = integer == nullptr || integer->flags() == toml::value_flags::none;
    result.where = fmt::format("{}:{}", path, key.source().begin.line);
    result.layer = layer;
    return result;
}

void Reader::section(const std::string& path, const std::vector<std::string>& lines, const std::string& name,
                     const toml::table& table, i64 line) {
    if (table.empty()) {
        Entry header;
        header.section = name;
        header.where = fmt::format("{}:{}", path, line);
        header.layer = layer;
        entries.push_back(header);
    }
    for (const auto& [key, node] : table) {
        entries.push_back(entry(path, lines, name, key, node));
    }
}

void Reader::includes(const std::string& path, const toml::table& root) {
    const toml::node* node = root.get("include");
    if (node == nullptr) {
        return;
    }
    const std::string where = fmt::format("{}:{}", path, node->source().begin.line);
    EntryValue value = convert(*node);
    if (const auto* single = std::get_if<std::string>(&value)) {
        value = std::vector<std::string>{*single};
    }
    const auto* names = std::get_if<std::vector<std::string>>(&value);
    if (names == nullptr) {
        faults.add(where, "include", "not a list of file names; would be right: include = [\"base.toml\"]");
        return;
    }
    for (const std::string& name : *names) {
        file((std::filesystem::path(path).parent_path() / name).lexically_normal().string(), "", where);
    }
}

void Reader::document(const std::string& path, const std::string& text) {
    const std::vector<std::string> lines = split(text, '\n');
    toml::table root;
    try {
        root = toml::parse(text, path);
    } catch (const toml::parse_error& error) {
        add_syntax_fault(path, lines, error, faults);
        return;
    }
    includes(path, root);
    ++layer;
    const auto first = static_cast<std::ptrdiff_t>(entries.size());
    for (const auto& [key, node] : root) {
        const std::string name(key.str());
        if (const toml::table* table = node.as_table()) {
            section(path, lines, name, *table, static_cast<i64>(key.source().begin.line));
        } else if (name != "include") {
            entries.push_back(entry(path, lines, "", key, node));
        }
    }
    // toml++ keeps keys in alphabetical order; faults read better in the order of the file.
    const auto line_of = [](const Entry& e) {
        return parse_integer(e.where.substr(e.where.rfind(':') + 1)).value_or(0);
    };
    std::stable_sort(entries.begin() + first, entries.end(),
                     [&](const Entry& a, const Entry& b) { return line_of(a) < line_of(b); });
}

void Reader::file(const std::string& path, const std::string& text, const std::string& asked_at) {
    std::error_code status;
    const std::string canonical = std::filesystem::weakly_canonical(path, status).string();
    if (std::find(open_files.begin(), open_files.end(), canonical) != open_files.end()) {
        faults.add(asked_at, "include", fmt::format("{} includes itself; would be right: no cycle of includes", path));
        return;
    }
    // A base that two files share is below both: read again it would undo what the first of them changed.
    if (std::find(files.begin(), files.end(), canonical) != files.end()) {
        return;
    }
    if (files.size() == most_files) {
        faults.add(asked_at, "include",
                   fmt::format("{} would be file number {}; would be right: at most {} files", path, most_files + 1,
                               most_files));
        return;
    }
    files.push_back(canonical);
    std::string content = text;
    if (content.empty()) {
        try {
            content = read_file(path, largest_run_file, ExitCode::usage);
        } catch (const Error& error) {
            faults.add(asked_at.empty() ? path : asked_at, asked_at.empty() ? "run file" : "include",
                       fmt::format("{}; would be right: the path of a readable TOML file", error.what()));
            return;
        }
    }
    open_files.push_back(canonical);
    document(path, content);
    open_files.pop_back();
}

// "a,b" or "[a, b]" as a list of texts: a shell takes the quotes away from ["a", "b"].
std::optional<std::vector<std::string>> bare_list(const std::string& text) {
    const bool brackets = text.starts_with('[') && text.ends_with(']') && text.size() > 2;
    const std::string inner = brackets ? text.substr(1, text.size() - 2) : text;
    if (inner.empty() || inner.find_first_of("\"'[]\r\n") != std::string::npos) {
        return std::nullopt;
    }
    std::vector<std::string> words;
    for (const std::string& part : split(inner, ',')) {
        words.push_back(trim(part));
        if (words.back().empty()) {
            return std::nullopt;
        }
    }
    return words;
}

// The value of --set as TOML; a text without quotes stays a text, and so do those of a list of texts.
void set_value(const std::string& text, const Key* key, Entry& entry) {
    const bool textual = key != nullptr && (key->type() == KeyType::text || key->type() == KeyType::choice);
    const bool quoted = !text.empty() && (text.front() == '"' || text.front() == '\'');
    entry.value = text;
    if (key != nullptr && key->type() == KeyType::list) {
        if (std::optional<std::vector<std::string>> words = bare_list(text)) {
            entry.value = std::move(*words);
            return;
        }
    }
    if ((textual && !quoted) || text.find_first_of("\r\n") != std::string::npos) {
        return;
    }
    try {
        const toml::table root = toml::parse("value = " + text);
        const toml::node* node = root.get("value");
        if (root.size() == 1 && node != nullptr) {
            entry.value = convert(*node);
            const auto* integer = node->as_integer();
            entry.plain_digits = integer == nullptr || integer->flags() == toml::value_flags::none;
        }
    } catch (const toml::parse_error&) {
        // Not TOML ("10m"): it stays a text, and the type check says what the key wants.
        if (is_number_too_large(text)) {
            entry.value = OtherValue{too_large(text)};
        }
    }
}

}  // namespace

std::vector<std::string> read_run_file(const std::string& path, const std::string& text, std::vector<Entry>& entries,
                                       Faults& faults) {
    Reader reader{entries, faults, {}, {}, 0};
    reader.file(path, text, "");
    return reader.files;
}

void read_override(const std::string& argument, i64 index, std::vector<Entry>& entries, Faults& faults) {
    const std::string where = fmt::format("--set {}", index);
    const std::size_t equals = argument.find('=');
    const std::string name = trim(std::string_view(argument).substr(0, equals));
    if (equals == std::string::npos || name.empty()) {
        faults.add(where, argument, "no value; would be right: --set section.key=value");
        return;
    }
    const std::size_t dot = name.find('.');
    Entry entry;
    entry.section = dot == std::string::npos ? "" : trim(name.substr(0, dot));
    entry.key = dot == std::string::npos ? name : trim(name.substr(dot + 1));
    if (entry.key.empty() || (entry.section.empty() && dot != std::string::npos)) {
        faults.add(where, argument, "no key; would be right: --set section.key=value");
        return;
    }
    entry.raw = trim(std::string_view(argument).substr(equals + 1));
    for (const Entry& earlier : entries) {
        if (earlier.layer > override_layer && earlier.section == entry.section && earlier.key == entry.key) {
            faults.add(where, entry.full_name(),
                       fmt::format("given twice: {} by {}, {} here; would be right: once", earlier.raw, earlier.where,
                                   entry.raw));
            return;
        }
    }
    entry.where = where;
    entry.layer = override_layer + index;
    set_value(entry.raw, find_key(entry.section, entry.key), entry);
    entries.push_back(entry);
}

}  // namespace ogrom
