// Text as HTML and XML. Whatever a file holds is text: nothing of it becomes a tag, an attribute or a control.
#pragma once
#include <string>
#include <string_view>

#include "src/report/table.h"

namespace ogrom {

// For content and for attributes in double quotes: & < > " ' are named; what XML forbids (controls, invalid UTF-8)
// becomes U+FFFD.
std::string escape(std::string_view text);

// <table> in a box that scrolls: caption, units in the header, heads of rows, and each number beside its exact value
// (<data value>).
std::string table_html(const Table& table);

// The page around `body`: style, the shared marks and hatches of charts. Needs no network and no script.
std::string page_html(const std::string& title, const std::string& body);

// Definitions that charts and legends refer to (report/figure).
std::string_view shared_marks();

}  // namespace ogrom
