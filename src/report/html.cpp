// Comes in: texts and tables. Goes out: HTML that an XML parser reads too. Next: report/document.cpp
#include "src/report/html.h"

#include <fmt/format.h>

#include "kernels/common/fault.h"

namespace ogrom {
namespace {

// Bytes of the UTF-8 character at the start of `text`; 0 where there is none that XML allows.
std::size_t character_bytes(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : '\0'); };
    const unsigned first = byte(0);
    if (first < 0x80) {
        return first >= 0x20 && first != 0x7F ? 1 : 0;
    }
    const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4) {
        return 0;
    }
    unsigned code = first & (0xFFU >> (size + 1));
    for (std::size_t i = 1; i < size; ++i) {
        if ((byte(i) & 0xC0U) != 0x80U) {
            return 0;
        }
        code = code << 6U | (byte(i) & 0x3FU);
    }
    const unsigned least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    // U+202A to U+202E and U+2066 to U+2069 turn the direction of what follows.
    const bool turns = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
    return code < least || code > 0x10FFFF || surrogate || turns || code < 0xA0 || (code & 0xFFFEU) == 0xFFFEU ? 0
                                                                                                               : size;
}

std::string head_cell(const Column& column) {
    const std::string unit =
        column.unit.empty() ? "" : fmt::format(" <span class=\"unit\">[{}]</span>", escape(column.unit));
    return fmt::format("<th scope=\"col\"{}>{}{}</th>", column.kind == Column::Kind::text ? "" : " class=\"n\"",
                       escape(column.title), unit);
}

std::string body_cell(const Cell& cell, const Column& column, bool head) {
    const std::string text = escape(shown(cell, column));
    if (column.kind == Column::Kind::text) {
        const char* const wraps = text.size() > 40 ? " class=\"long\"" : "";
        return head ? fmt::format("<th scope=\"row\"{}>{}</th>", wraps, text)
                    : fmt::format("<td{}>{}</td>", wraps, text);
    }
    const std::string value = std::holds_alternative<std::monostate>(cell)
                                  ? fmt::format("<span class=\"none\" title=\"no figure\">{}</span>", text)
                                  : fmt::format("<data value=\"{}\">{}</data>", exact(cell), text);
    return head ? fmt::format("<th scope=\"row\" class=\"n\">{}</th>", value)
                : fmt::format("<td class=\"n\">{}</td>", value);
}

}  // namespace

std::string escape(std::string_view text) {
    if (fault_active("names_become_markup")) {
        return std::string(text);
    }
    std::string result;
    result.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const char c = text[at];
        if (c == '\n' || c == '\t') {
            result += c;
            ++at;
            continue;
        }
        const std::size_t bytes = character_bytes(text.substr(at));
        if (bytes == 0) {
            result += "\uFFFD";
            ++at;
            continue;
        }
        switch (c) {
            case '&':
                result += "&amp;";
                break;
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '"':
                result += "&quot;";
                break;
            case '\'':
                result += "&#39;";
                break;
            default:
                result += text.substr(at, bytes);
        }
        at += bytes;
    }
    return result;
}

std::string table_html(const Table& table) {
    std::string html = fmt::format(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"{0}-caption\"><table id=\"{0}\">\n"
        "<caption id=\"{0}-caption\">{1}</caption>\n<thead><tr>",
        escape(table.id), escape(table.caption));
    for (const Column& column : table.columns) {
        html += head_cell(column);
    }
    html += "</tr></thead>\n<tbody>\n";
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
        const std::vector<Cell>& row = table.rows[r];
        // A line above where the first column changes.
        const bool begins = r > 0 && table.heads > 1 && row.front() != table.rows[r - 1].front();
        html += begins ? "<tr class=\"begins\">" : "<tr>";
        for (std::size_t i = 0; i < row.size(); ++i) {
            html += body_cell(row[i], table.columns[i], i < table.heads);
        }
        html += "</tr>\n";
    }
    html += "</tbody></table></div>\n";
    return html + (table.note.empty() ? "" : fmt::format("<p class=\"note\">{}</p>\n", escape(table.note)));
}

std::string page_html(const std::string& title, const std::string& body) {
    static constexpr std::string_view style = R"css(
:root{color-scheme:light dark;--ground:#fff;--ink:#1a1a1a;--soft:#595959;--line:#c9c9c9;--grid:#dcdcdc;--stripe:#f4f4f4;
--c1:#0b5fa5;--c2:#b34700;--c3:#187a3c;--c4:#8b2a8b;--c5:#7a5c00;--c6:#00727a;--c7:#a3223a;--c8:#444;
--f1:#a9cbea;--f2:#f2b27a;--f3:#a8d8a8;--f4:#dcb0dc;--f5:#eedc82;--f6:#9fdce0;--f7:#f0a9b4;--f8:#cfcfcf;--f9:#fff}
@media (prefers-color-scheme:dark){:root{--ground:#161616;--ink:#ececec;--soft:#a8a8a8;--line:#4c4c4c;--grid:#333;
--stripe:#1f1f1f;--c1:#6db3f2;--c2:#ff9d57;--c3:#6fd08c;--c4:#e08be0;--c5:#e0c050;--c6:#5cd0da;--c7:#ff8b9d;--c8:#bbb;
--f1:#1f4d78;--f2:#80470f;--f3:#21602a;--f4:#6a2f6a;--f5:#665500;--f6:#0d5b61;--f7:#7d2535;--f8:#555;--f9:#161616}}
*{box-sizing:border-box}
body{margin:0 auto;padding:14px;max-width:1280px;background:var(--ground);color:var(--ink);
font:16px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.2;margin:.4em 0}
h2{font-size:1.25rem;margin:2em 0 .4em;padding-top:.5em;border-top:2px solid var(--ink)}
h3{font-size:1.05rem;margin:1.6em 0 .3em}
p{max-width:75ch;margin:.5em 0}
ul{padding-left:1.3em;max-width:75ch}
.scroll{overflow-x:auto;margin:1.4em 0 .3em}
table{border-collapse:collapse;font-size:.84rem;font-variant-numeric:tabular-nums;overflow-wrap:normal}
caption{text-align:left;font-weight:600;padding:.2em 0 .4em;max-width:min(75ch,calc(100vw - 3em))}
th,td{padding:.22em .45em;text-align:left;vertical-align:top;border-bottom:1px solid var(--line);white-space:nowrap}
.long{white-space:normal;min-width:16em;max-width:28em}
thead th{vertical-align:bottom;border-bottom:2px solid var(--ink);font-weight:600}
tbody th{font-weight:400}
tr.begins>*{border-top:1px solid var(--ink)}
tbody tr:nth-child(even){background:var(--stripe)}
.n{text-align:right}
thead th{white-space:normal}
.unit{font-weight:400;color:var(--soft);white-space:nowrap}
.none,.note{color:var(--soft)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:28px;margin:1em 0}
figure{margin:0;min-width:0}
figcaption{font-weight:600;margin-bottom:.3em}
figure>svg{display:block;width:100%;height:auto;max-width:640px}
figure text{fill:var(--ink)}
.note{font-size:.9rem;margin:.3em 0}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2em 1.3em;padding:0;margin:.4em 0;font-size:.9rem}
.legend svg{width:46px;height:14px;margin-right:.5em;vertical-align:-2px}
details{margin:.6em 0}
summary{cursor:pointer;font-weight:600}
pre{overflow-x:auto;font-size:.82rem;line-height:1.35;padding:.7em;border:1px solid var(--line);white-space:pre-wrap}
@media (max-width:480px){body{padding:10px}th,td{padding:.2em .45em}}
@media print{details>*{display:block}.scroll{overflow:visible}}
)css";
    return fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\"/>\n<meta http-equiv=\"Content-Security-Policy\" "
        "content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n<title>{}</title>\n<style>{}</style>\n</head>\n"
        "<body>\n{}<main>\n{}</main>\n</body>\n</html>\n",
        escape(title), style, shared_marks(), body);
}

}  // namespace ogrom
