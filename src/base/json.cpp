#include "src/base/json.h"

#include <fmt/format.h>
#include <unordered_set>
#include <vector>

#include "src/base/text.h"

namespace ogrom {

template <class Json>
Json parse_json(std::string_view text, const std::string& path, ExitCode code) {
    std::vector<std::unordered_set<std::string>> keys;
    const auto watch = [&](int depth, typename Json::parse_event_t event, Json& value) {
        using Event = typename Json::parse_event_t;
        if (depth > deepest_json) {
            fail(code, fmt::format("{}: groups are nested more than {} deep", path, deepest_json));
        }
        if (event == Event::object_start) {
            keys.emplace_back();
        } else if (event == Event::object_end) {
            keys.pop_back();
        } else if (event == Event::key) {
            const auto& name = value.template get_ref<const std::string&>();
            if (!keys.back().insert(name).second) {
                fail(code, fmt::format("{}: key {} stands twice in one object", path, quote(name)));
            }
        }
        return true;
    };
    try {
        return Json::parse(text, watch);
    } catch (const typename Json::exception& error) {
        fail(code, fmt::format("{}: no JSON: {}", path, error.what()));
    }
}
template nlohmann::json parse_json(std::string_view, const std::string&, ExitCode);
template nlohmann::ordered_json parse_json(std::string_view, const std::string&, ExitCode);

template <class Json>
std::string json_text(const Json& value) {
    constexpr std::size_t longest = 200;
    return value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, longest);
}
template std::string json_text(const nlohmann::json&);
template std::string json_text(const nlohmann::ordered_json&);

}  // namespace ogrom
