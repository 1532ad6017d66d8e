// Comes in: an SVG of gnuplot's in marked colours. Goes out: the same for a page. The colours rgb(1,1,K) are ink and
// grid, rgb(1,2,K) lines, rgb(1,3,K) fills of bars. Next: report/html.cpp
#include <array>
#include <cctype>
#include <fmt/format.h>

#include "src/base/text.h"
#include "src/report/figure.h"
#include "src/report/html.h"

namespace ogrom {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
        text.replace(at, from.size(), to);
    }
}

// What stands for the colour "1,2,3"; empty: it is none of ours.
std::string role(std::string_view colour) {
    std::array<i64, 3> parts = {0, 0, 0};
    const std::vector<std::string> words = split(colour, ',');
    for (std::size_t i = 0; i < words.size() && i < parts.size(); ++i) {
        parts[i] = parse_integer(trim(words[i])).value_or(0);
    }
    if (words.size() != 3 || parts[0] != 1) {
        return "";
    }
    switch (parts[1]) {
        case 1:
            return parts[2] == 2 ? "var(--grid)" : "var(--ink)";
        case 2:
            return fmt::format("var(--c{})", parts[2]);
        case 3:
            return fmt::format("url(#h{})", parts[2]);
        default:
            return "";
    }
}

void replace_colours(std::string& svg) {
    for (std::size_t at = 0; (at = svg.find("rgb(", at)) != std::string::npos;) {
        const std::size_t end = svg.find(')', at);
        if (end == std::string::npos) {
            return;
        }
        const std::string name = role(std::string_view(svg).substr(at + 4, end - at - 4));
        if (name.empty()) {
            at = end;
        } else {
            svg.replace(at, end + 1 - at, name);
            at += name.size();
        }
    }
}

// Without elements <g ...></g> that hold nothing.
void drop_empty_groups(std::string& svg) {
    for (std::size_t close = 0; (close = svg.find("</g>", close)) != std::string::npos;) {
        std::size_t end = close;
        while (end > 0 && std::isspace(static_cast<unsigned char>(svg[end - 1])) != 0) {
            --end;
        }
        const std::size_t open = end > 0 && svg[end - 1] == '>' ? svg.rfind('<', end - 1) : std::string::npos;
        if (open != std::string::npos && svg.compare(open, 3, "<g ") == 0) {
            svg.erase(open, close + 4 - open);
            close = open;
        } else {
            close += 4;
        }
    }
}

bool erase_between(std::string& text, std::string_view first, std::string_view last) {
    const std::size_t at = text.find(first);
    const std::size_t end = at == std::string::npos ? at : text.find(last, at);
    if (end != std::string::npos) {
        text.erase(at, end + last.size() - at);
    }
    return end != std::string::npos;
}

}  // namespace

std::string inline_svg(const std::string& svg, const std::string& id, const std::string& title) {
    const std::size_t box = svg.find("viewBox=\""), begin = svg.find("<g id=\"gnuplot_canvas\">");
    const std::size_t box_end = box == std::string::npos ? box : svg.find('"', box + 9);
    if (box_end == std::string::npos || begin == std::string::npos) {
        return {};
    }
    std::string body = svg.substr(begin);
    replace_all(body, "<g id=\"gnuplot_canvas\">", "<g>");
    erase_between(body, "<defs>", "</defs>");  // gnuplot's marks; ours are below
    while (erase_between(body, "<title>", "</title>")) {
    }
    for (std::size_t at = 0; (at = body.find(" id=\"gnuplot_plot_", at)) != std::string::npos;) {
        const std::size_t end = body.find('"', at + 5);
        body.erase(at, end == std::string::npos ? end : end + 1 - at);  // the page has several charts
    }
    drop_empty_groups(body);
    drop_empty_groups(body);
    replace_colours(body);
    replace_all(body, "xlink:href='#gpPt", "href='#m");
    replace_all(body, "\"black\"", "\"var(--ink)\"");
    replace_all(body, "'black'", "'var(--ink)'");
    return fmt::format("<svg {}\" role=\"img\" aria-labelledby=\"{}-title\">\n<title id=\"{}-title\">{}</title>\n{}",
                       svg.substr(box, box_end - box), escape(id), escape(id), escape(title), body);
}

// Marks are those of gnuplot's numbers, in units of half a mark; hatches fill what is filled with rgb(1,3,K).
std::string_view shared_marks() {
    return R"svg(<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>
<circle id="m6" r="1" fill="currentColor" stroke="none"/>
<rect id="m4" x="-.9" y="-.9" width="1.8" height="1.8" fill="currentColor" stroke="none"/>
<path id="m8" d="M0-1.3 1.15.75-1.15.75z" fill="currentColor" stroke="none"/>
<path id="m12" d="M0-1.3 1.3 0 0 1.3-1.3 0z" fill="currentColor" stroke="none"/>
<circle id="m5" r=".95" fill="var(--ground)" stroke="currentColor" stroke-width=".4"/>
<rect id="m3" x="-.9" y="-.9" width="1.8" height="1.8" fill="var(--ground)" stroke="currentColor" stroke-width=".4"/>
<path id="m7" d="M0-1.3 1.15.75-1.15.75z" fill="var(--ground)" stroke="currentColor" stroke-width=".4"/>
<path id="m11" d="M0-1.3 1.3 0 0 1.3-1.3 0z" fill="var(--ground)" stroke="currentColor" stroke-width=".4"/>
<g stroke="var(--ink)" stroke-width="1.1">
<pattern id="h1" width="8" height="8" patternUnits="userSpaceOnUse"><rect width="8" height="8" fill="var(--f1)" stroke="none"/></pattern>
<pattern id="h2" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="var(--f2)" stroke="none"/><path d="M0 0V6"/></pattern>
<pattern id="h3" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect width="6" height="6" fill="var(--f3)" stroke="none"/><path d="M0 0V6"/></pattern>
<pattern id="h4" width="7" height="7" patternUnits="userSpaceOnUse"><rect width="7" height="7" fill="var(--f4)" stroke="none"/><path d="M0 0H7M0 0V7"/></pattern>
<pattern id="h5" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" fill="var(--f5)" stroke="none"/><circle cx="3" cy="3" r="1.1" fill="var(--ink)" stroke="none"/></pattern>
<pattern id="h6" width="5" height="5" patternUnits="userSpaceOnUse"><rect width="5" height="5" fill="var(--f6)" stroke="none"/><path d="M0 0V5"/></pattern>
<pattern id="h7" width="5" height="5" patternUnits="userSpaceOnUse"><rect width="5" height="5" fill="var(--f7)" stroke="none"/><path d="M0 0H5"/></pattern>
<pattern id="h8" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="8" height="8" fill="var(--f8)" stroke="none"/><path d="M0 0H8M0 0V8"/></pattern>
<pattern id="h9" width="8" height="8" patternUnits="userSpaceOnUse"><rect width="8" height="8" fill="var(--f9)" stroke="none"/></pattern>
</g></defs></svg>
)svg";
}

}  // namespace ogrom
