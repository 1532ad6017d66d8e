// Comes in: a table. Goes out: one of its writings. Next: report/page.cpp, report/document.cpp
#include "src/report/table.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "src/base/error.h"

namespace ogrom {
namespace {

bool fits(const Cell& cell, Column::Kind kind) {
    return std::holds_alternative<std::monostate>(cell) ||
           (kind == Column::Kind::text && std::holds_alternative<std::string>(cell)) ||
           (kind == Column::Kind::integer && std::holds_alternative<i64>(cell)) ||
           (kind == Column::Kind::real && std::holds_alternative<double>(cell));
}

// Digits before the point in groups of three.
std::string group(std::string digits) {
    const std::size_t first = digits.starts_with('-') ? 1 : 0;
    const std::size_t end = std::min(digits.find('.'), digits.size());
    for (std::size_t at = end; at > first + 3;) {
        at -= 3;
        digits.insert(at, 1, ',');
    }
    return digits;
}

// `digits` significant ones without an exponent where that reads well.
std::string real_text(double value, int digits) {
    const double size = std::abs(value);
    if (size == 0) {
        return "0";
    }
    const std::string rounded = fmt::format("{:.{}e}", size, digits - 1);  // 9.9996 has one digit more than it seems
    const int exponent = std::stoi(rounded.substr(rounded.find('e') + 1));
    if (exponent < -4 || exponent > 14) {
        return fmt::format("{:.{}e}", value, digits - 1);
    }
    const bool whole = digits > 5 && size == std::floor(size);  // a count among other figures
    return group(fmt::format("{:.{}f}", value, whole ? 0 : std::max(0, digits - 1 - exponent)));
}

template <class Value>
h5::Dataset make_column(hid_t parent, const Column& column, const std::vector<Value>& values, hid_t stored,
                        hid_t memory, const std::string& file) {
    const hsize_t extent = values.size();
    const h5::Space space(h5::check(H5Screate_simple(1, &extent, nullptr), file, column.key));
    h5::Dataset dataset(
        h5::check(H5Dcreate2(parent, column.key.c_str(), stored, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                  file, column.key));
    if (!values.empty()) {
        h5::check_status(H5Dwrite(dataset.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), file,
                         column.key);
    }
    return dataset;
}

// Fixed length UTF-8, closed by zeros, as long as the longest.
h5::Dataset put_texts(hid_t parent, const Column& column, const std::vector<std::string>& texts,
                      const std::string& file) {
    std::size_t size = 1;
    for (const std::string& text : texts) {
        size = std::max(size, text.size());
    }
    const h5::Type type(h5::check(H5Tcopy(H5T_C_S1), file, column.key));
    h5::check_status(H5Tset_size(type.get(), size), file, column.key);
    h5::check_status(H5Tset_cset(type.get(), H5T_CSET_UTF8), file, column.key);
    h5::check_status(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), file, column.key);
    std::string flat(size * texts.size(), '\0');
    for (std::size_t i = 0; i < texts.size(); ++i) {
        std::copy(texts[i].begin(), texts[i].end(), flat.begin() + static_cast<std::ptrdiff_t>(i * size));
    }
    const hsize_t extent = texts.size();
    const h5::Space space(h5::check(H5Screate_simple(1, &extent, nullptr), file, column.key));
    h5::Dataset dataset(h5::check(
        H5Dcreate2(parent, column.key.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), file,
        column.key));
    if (!texts.empty()) {
        h5::check_status(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, flat.data()), file,
                         column.key);
    }
    return dataset;
}

template <class Value>
std::vector<Value> column_values(const Table& table, std::size_t column, const Value& missing) {
    std::vector<Value> values;
    values.reserve(table.rows.size());
    for (const std::vector<Cell>& row : table.rows) {
        const auto* const value = std::get_if<Value>(&row[column]);
        values.push_back(value == nullptr ? missing : *value);
    }
    return values;
}

}  // namespace

void Table::add(std::vector<Cell> row) {
    OGROM_ASSERT(row.size() == columns.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
        OGROM_ASSERT(fits(row[i], columns[i].kind));
    }
    rows.push_back(std::move(row));
}

Cell real(double value) {
    return std::isfinite(value) ? Cell(value) : Cell();
}

Cell text(std::string_view words) {
    constexpr std::size_t most = 2000;
    if (words.size() <= most) {
        return std::string(words);
    }
    std::size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(words[end]) & 0xC0) == 0x80) {
        --end;  // not within a character
    }
    return std::string(words.substr(0, end)) + "\u2026";
}

std::string grouped(i64 value) {
    return group(fmt::format("{}", value));
}

std::string shown(const Cell& cell, const Column& column) {
    if (const auto* const text = std::get_if<std::string>(&cell)) {
        return *text;
    }
    if (const auto* const integer = std::get_if<i64>(&cell)) {
        return grouped(*integer);
    }
    const auto* const value = std::get_if<double>(&cell);
    return value == nullptr ? "\u2212" : real_text(*value, column.digits);
}

std::string exact(const Cell& cell) {
    if (const auto* const text = std::get_if<std::string>(&cell)) {
        return *text;
    }
    if (const auto* const integer = std::get_if<i64>(&cell)) {
        return fmt::format("{}", *integer);
    }
    const auto* const value = std::get_if<double>(&cell);
    return value == nullptr ? "" : fmt::format("{}", *value);
}

std::string csv_field(std::string_view text) {
    const bool formula = !text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos;
    std::string field(formula ? 1 : 0, '\'');
    field += text;
    if (field.find_first_of(",\"\r\n") == std::string::npos) {
        return field;
    }
    std::string quoted(1, '"');
    for (const char c : field) {
        quoted.append(c == '"' ? 2 : 1, c);
    }
    quoted += '"';
    return quoted;
}

std::string to_csv(const Table& table) {
    std::string csv;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
        csv += i == 0 ? "" : ",";
        csv += csv_field(table.columns[i].key);
    }
    csv += "\n";
    for (const std::vector<Cell>& row : table.rows) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::string text = exact(row[i]);
            csv += i == 0 ? "" : ",";
            csv += table.columns[i].kind == Column::Kind::text ? csv_field(text) : text;
        }
        csv += "\n";
    }
    return csv;
}

nlohmann::ordered_json to_json(const Table& table) {
    nlohmann::ordered_json columns = nlohmann::ordered_json::array(), rows = nlohmann::ordered_json::array();
    for (const Column& column : table.columns) {
        columns.push_back({{"key", column.key}, {"title", column.title}, {"unit", column.unit}});
    }
    for (const std::vector<Cell>& row : table.rows) {
        nlohmann::ordered_json object = nlohmann::ordered_json::object();
        for (std::size_t i = 0; i < row.size(); ++i) {
            nlohmann::ordered_json& value = object[table.columns[i].key];
            if (const auto* const text = std::get_if<std::string>(&row[i])) {
                value = *text;
            } else if (const auto* const integer = std::get_if<i64>(&row[i])) {
                value = *integer;
            } else if (const auto* const number = std::get_if<double>(&row[i])) {
                value = *number;
            }
        }
        rows.push_back(std::move(object));
    }
    return {
        {"caption", table.caption}, {"note", table.note}, {"columns", std::move(columns)}, {"rows", std::move(rows)}};
}

void put_table(hid_t parent, const Table& table, const std::string& file) {
    const h5::Group group = h5::make_group(parent, table.id, file);
    h5::put(group.get(), "rows", static_cast<i64>(table.rows.size()), file);
    h5::put(group.get(), "caption", table.caption.substr(0, 4096), file);
    h5::put(group.get(), "note", table.note.substr(0, 4096), file);
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
        const Column& column = table.columns[i];
        h5::Dataset dataset;
        switch (column.kind) {
            case Column::Kind::text:
                dataset = put_texts(group.get(), column, column_values<std::string>(table, i, ""), file);
                break;
            case Column::Kind::integer:
                dataset =
                    make_column(group.get(), column, column_values<i64>(table, i, std::numeric_limits<i64>::min()),
                                h5::file_type(Dtype::i64), h5::memory_type(Dtype::i64), file);
                break;
            case Column::Kind::real:
                dataset = make_column(group.get(), column,
                                      column_values<double>(table, i, std::numeric_limits<double>::quiet_NaN()),
                                      h5::file_type(Dtype::fp64), h5::memory_type(Dtype::fp64), file);
                break;
        }
        if (!column.unit.empty()) {
            h5::put(dataset.get(), "unit", column.unit, file);
        }
    }
}

}  // namespace ogrom
