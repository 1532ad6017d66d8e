// A table of figures with units, kept as values: the page, the CSV, the JSON and the HDF5 file of a report are four
// writings of the same tables, so no figure can differ between them.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/common/extents.h"

#include "src/io/hdf5.h"

namespace ogrom {

using Cell = std::variant<std::monostate, std::string, i64, double>;  // monostate: no figure there

struct Column {
    enum class Kind { text, integer, real };
    std::string key;    // in files: lower case with underscores, the unit at its end where there is one
    std::string title;  // for people
    std::string unit;   // empty: none
    Kind kind = Kind::text;
    int digits = 4;  // significant, as people read it
};

struct Table {
    std::string id;  // in files and as anchor: lower case, digits, minus
    std::string caption;
    std::vector<Column> columns;
    std::vector<std::vector<Cell>> rows;
    std::size_t heads = 1;  // columns from the left that name a row
    std::string note = {};  // how its figures are to be read

    void add(std::vector<Cell> row);  // as many cells as columns, each of its column's kind
};

Cell real(double value);            // NaN and infinity are no figure
Cell text(std::string_view words);  // what goes beyond 2000 bytes is cut, with an ellipsis
std::string grouped(i64 value);     // "1,234,567"

// As people read it: integers in groups of three, reals with the column's significant digits, a minus for no figure.
std::string shown(const Cell& cell, const Column& column);
// As files have it: the shortest text that reads back to the same bits; empty for no figure.
std::string exact(const Cell& cell);

// RFC 4180 with a header of keys. A text that a spreadsheet would take for a formula gets an apostrophe in front.
std::string to_csv(const Table& table);
std::string csv_field(std::string_view text);
// {"caption", "note", "columns": [{"key", "title", "unit"}], "rows": [{key: value}]}; no figure is null.
nlohmann::ordered_json to_json(const Table& table);
// Group `id` under `parent` with one dataset for each column and its unit as attribute; no figure is NaN, and for an
// integer -9223372036854775808. On the I/O thread.
void put_table(hid_t parent, const Table& table, const std::string& file);

}  // namespace ogrom
