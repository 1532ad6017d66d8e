// A report before it is written: text, tables and charts in order. Its tables go into four kinds of file.
#pragma once
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/report/table.h"

namespace ogrom {

struct Heading {
    int level = 2;
    std::string text;
};
struct Paragraph {
    std::string text;
};
struct Items {  // a list
    std::vector<std::string> texts;
};
struct Charts {
    std::vector<std::string> figures;  // HTML of report/figure
};
struct Folded {  // opened by a click
    std::string summary;
    std::string text;           // as it is, in a fixed font; may be empty
    std::vector<Table> tables;  // below it
};

struct Document {
    std::string title;
    std::vector<std::variant<Heading, Paragraph, Items, Charts, Table, Folded>> blocks;
    std::string main_table;                                       // id of the table that is report.csv
    std::vector<std::pair<std::string, std::string>> provenance;  // key, value: in JSON and HDF5

    [[nodiscard]] std::vector<const Table*> tables() const;
};

std::string document_html(const Document& document);
std::string document_json(const Document& document);

// report.html, report.json, report.h5, report.csv (the main table) and tables/ID.csv in `folder`, each whole or not at
// all. Tables that the report.json of an earlier report names and this one has not are removed. Returns the names.
std::vector<std::string> write_document(const std::string& folder, const Document& document);

}  // namespace ogrom
