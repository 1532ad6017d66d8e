#include "src/comm/source_text.h"

#include <fmt/format.h>
#include <string_view>

namespace ogrom {

std::string source_text(const SourcePlace& where) {
    constexpr std::string_view here = __FILE__;
    constexpr std::string_view own = "src/comm/source_text.cpp";
    static_assert(here.ends_with(own), "the path of this file within the repository");
    constexpr std::string_view root = here.substr(0, here.size() - own.size());
    std::string_view file = where.file_name();
    if (file.starts_with(root)) {
        file.remove_prefix(root.size());
    }
    return fmt::format("{}:{}", file, where.line());
}

}  // namespace ogrom
