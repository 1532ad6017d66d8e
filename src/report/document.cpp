// Comes in: a document. Goes out: its files. Next: report/html.cpp, report/table.cpp
#include "src/report/document.h"

#include <algorithm>
#include <fmt/format.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "src/io/hdf5_image.h"
#include "src/io/io_thread.h"
#include "src/report/html.h"

namespace ogrom {
namespace {

std::string block_html(const Heading& heading) {
    return fmt::format("<h{0}>{1}</h{0}>\n", heading.level, escape(heading.text));
}
std::string block_html(const Paragraph& paragraph) {
    return fmt::format("<p>{}</p>\n", escape(paragraph.text));
}
std::string block_html(const Items& items) {
    std::string html = "<ul>\n";
    for (const std::string& text : items.texts) {
        html += fmt::format("<li>{}</li>\n", escape(text));
    }
    return items.texts.empty() ? "" : html + "</ul>\n";
}
std::string block_html(const Charts& charts) {
    std::string html = "<div class=\"charts\">\n";
    for (const std::string& figure : charts.figures) {
        html += figure;
    }
    return charts.figures.empty() ? "" : html + "</div>\n";
}
std::string block_html(const Table& table) {
    return table_html(table);
}
std::string block_html(const Folded& folded) {
    std::string html = fmt::format("<details>\n<summary>{}</summary>\n", escape(folded.summary));
    html += folded.text.empty() ? "" : fmt::format("<pre>{}</pre>\n", escape(folded.text));
    for (const Table& table : folded.tables) {
        html += table_html(table);
    }
    return html + "</details>\n";
}

std::string h5_bytes(const Document& document) {
    const std::string name = "report.h5";
    h5::Image image;
    image.create(name);
    h5::put(image.file(), "format", i64{1}, name);
    h5::put(image.file(), "title", document.title.substr(0, 4096), name);
    {
        const h5::Group group = h5::make_group(image.file(), "provenance", name);
        for (const auto& [key, value] : document.provenance) {
            h5::put_text(group.get(), key, value, name);
        }
    }
    {
        const h5::Group group = h5::make_group(image.file(), "tables", name);
        for (const Table* table : document.tables()) {
            put_table(group.get(), *table, name);
        }
    }
    image.close();
    std::string bytes(static_cast<std::size_t>(image.size()), '\0');
    image.fetch(0, bytes.data(), bytes.size());
    return bytes;
}

bool is_id(const std::string& text) {
    return !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
}

// Ids of the report that stands in `folder`, as its own report.json says; whatever else is there is not ours.
std::vector<std::string> earlier_tables(const std::string& folder) {
    constexpr i64 largest = i64{256} << 20;
    const std::string path = join_path(folder, "report.json");
    std::vector<std::string> ids;
    if (!file_exists(path)) {
        return ids;
    }
    try {
        const auto root = parse_json<nlohmann::ordered_json>(read_file(path, largest), path, ExitCode::data);
        if (root.is_object() && root.contains("main_table") && root.contains("tables") && root["tables"].is_object()) {
            for (const auto& [id, table] : root["tables"].items()) {
                if (is_id(id)) {
                    ids.push_back(id);
                }
            }
        }
    } catch (const Error&) {
        ids.clear();  // no report of ours
    }
    return ids;
}

}  // namespace

std::vector<const Table*> Document::tables() const {
    std::vector<const Table*> list;
    for (const auto& block : blocks) {
        if (const auto* const table = std::get_if<Table>(&block)) {
            list.push_back(table);
        } else if (const auto* const folded = std::get_if<Folded>(&block)) {
            for (const Table& inner : folded->tables) {
                list.push_back(&inner);
            }
        }
    }
    return list;
}

std::string document_html(const Document& document) {
    std::string body = fmt::format("<h1>{}</h1>\n", escape(document.title));
    for (const auto& block : document.blocks) {
        body += std::visit([](const auto& each) { return block_html(each); }, block);
    }
    return page_html(document.title, body);
}

std::string document_json(const Document& document) {
    nlohmann::ordered_json tables = nlohmann::ordered_json::object();
    for (const Table* table : document.tables()) {
        tables[table->id] = to_json(*table);
    }
    nlohmann::ordered_json provenance = nlohmann::ordered_json::object();
    for (const auto& [key, value] : document.provenance) {
        provenance[key] = value;
    }
    const nlohmann::ordered_json root = {{"format", 1},
                                         {"title", document.title},
                                         {"main_table", document.main_table},
                                         {"tables", std::move(tables)},
                                         {"provenance", std::move(provenance)}};
    return root.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::vector<std::string> write_document(const std::string& folder, const Document& document) {
    std::vector<std::string> written;
    const auto write = [&](const std::string& name, const std::string& bytes) {
        write_file_atomic(join_path(folder, name), bytes);
        written.push_back(name);
    };
    const std::string tables = join_path(folder, "tables");
    make_directories(tables);
    const std::vector<std::string> earlier = earlier_tables(folder);
    std::vector<std::string> ids;
    for (const Table* table : document.tables()) {
        write_file_atomic(join_path(tables, table->id + ".csv"), to_csv(*table));
        ids.push_back(table->id);
        if (table->id == document.main_table) {
            write("report.csv", to_csv(*table));
        }
    }
    for (const std::string& id : earlier) {
        if (std::find(ids.begin(), ids.end(), id) == ids.end()) {
            remove_file(join_path(tables, id + ".csv"));
        }
    }
    write("report.json", document_json(document));
    write("report.h5", on_io_thread([&] { return h5_bytes(document); }));
    write("report.html", document_html(document));
    written.emplace_back("tables");
    return written;
}

}  // namespace ogrom
