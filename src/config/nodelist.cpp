// In: SLURM_JOB_NODELIST. Out: the names it stands for. A name is a row of fixed parts and brackets; each bracket holds
// numbers and ranges, and several brackets multiply, the last one fastest. Next: config/hosts.cpp (set_slots).
#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <unordered_set>

#include "src/base/error.h"
#include "src/base/text.h"
#include "src/config/host_name.h"
#include "src/config/hosts.h"

namespace ogrom {
namespace {

class Nodelist {
public:
    Nodelist(std::string_view text, const std::string& where) : text_(text), where_(where) {}

    std::vector<HostEntry> expand() {
        if (trim(text_).empty()) {
            refuse("names no node");
        }
        for (const std::string_view group : groups()) {
            expand_group(group);
        }
        return std::move(hosts_);
    }

private:
    [[noreturn]] void refuse(const std::string& what) const {
        constexpr std::size_t longest = 160;
        const std::string shown(text_.substr(0, longest));
        fail(ExitCode::usage, fmt::format("{} {}{}: {}; would be right: node[01-03,07],gpu1", where_, quote(shown),
                                          text_.size() > longest ? "..." : "", what));
    }

    // Parts between the commas that stand outside brackets.
    std::vector<std::string_view> groups() const {
        std::vector<std::string_view> parts;
        std::size_t begin = 0;
        bool inside = false;
        for (std::size_t i = 0; i < text_.size(); ++i) {
            const char c = text_[i];
            if ((c == '[' && inside) || (c == ']' && !inside)) {
                refuse(fmt::format("a '{}' at letter {} that fits no other bracket", c, i + 1));
            }
            inside = c == '[' || (inside && c != ']');
            if (c == ',' && !inside) {
                parts.push_back(text_.substr(begin, i - begin));
                begin = i + 1;
            }
        }
        if (inside) {
            refuse("a '[' without ']'");
        }
        parts.push_back(text_.substr(begin));
        return parts;
    }

    void expand_group(std::string_view group) {
        if (group.empty()) {
            refuse("an empty name between commas");
        }
        std::vector<std::string> names = {""};
        while (!group.empty()) {
            const std::size_t open = std::min(group.find('['), group.size());
            for (std::string& name : names) {
                name += group.substr(0, open);
            }
            group.remove_prefix(open);
            if (group.empty()) {
                break;
            }
            const std::size_t close = group.find(']');
            multiply(names, numbers(group.substr(1, close - 1), names.size()));
            group.remove_prefix(close + 1);
        }
        for (std::string& name : names) {
            add(std::move(name));
        }
    }

    static void multiply(std::vector<std::string>& names, const std::vector<std::string>& numbers) {
        std::vector<std::string> product;
        product.reserve(names.size() * numbers.size());
        for (const std::string& name : names) {
            for (const std::string& number : numbers) {
                product.push_back(name + number);
            }
        }
        names = std::move(product);
    }

    // What the bracket holds; `before` names stand before it, so that the product stays bounded before it is made.
    std::vector<std::string> numbers(std::string_view bracket, std::size_t before) const {
        std::vector<std::string> all;
        for (const std::string& range : split(bracket, ',')) {
            const std::size_t dash = range.find('-');
            const std::string low_text = range.substr(0, dash);
            const std::string high_text = dash == std::string::npos ? low_text : range.substr(dash + 1);
            const i64 low = number(low_text, range), high = number(high_text, range);
            if (high < low) {
                refuse(fmt::format("the range [{}] runs downwards", range));
            }
            if (high_text.size() < low_text.size() || (high_text.size() > low_text.size() && high_text[0] == '0') ||
                (high_text.size() > low_text.size() && low_text.size() > 1 && low_text[0] == '0')) {
                refuse(fmt::format("the ends of [{}] differ in leading zeros", range));
            }
            const i64 room = most_hosts / static_cast<i64>(before) - static_cast<i64>(all.size());
            if (high - low + 1 > room) {
                refuse(fmt::format("more than {} names", most_hosts));
            }
            for (i64 value = low; value <= high; ++value) {
                all.push_back(fmt::format("{:0{}}", value, low_text.size()));
            }
        }
        return all;
    }

    i64 number(const std::string& digits, const std::string& range) const {
        constexpr std::size_t longest = 18;
        const bool plain = !digits.empty() && digits.size() <= longest &&
                           std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
        if (!plain) {
            refuse(fmt::format("[{}] is no number and no range of numbers", range));
        }
        return std::stoll(digits);
    }

    void add(std::string name) {
        if (const std::string wrong = wrong_host_name(name); !wrong.empty()) {
            refuse(wrong);
        }
        if (!seen_.insert(same_host_key(name)).second) {
            refuse(fmt::format("node {} stands twice", name));
        }
        if (static_cast<i64>(hosts_.size()) == most_hosts) {
            refuse(fmt::format("more than {} names", most_hosts));
        }
        HostEntry host;
        host.name = std::move(name);
        host.where = where_;
        hosts_.push_back(std::move(host));
    }

    const std::string_view text_;
    const std::string& where_;
    std::vector<HostEntry> hosts_;
    std::unordered_set<std::string> seen_;
};

}  // namespace

std::vector<HostEntry> parse_nodelist(std::string_view text, const std::string& where) {
    return Nodelist(text, where).expand();
}

}  // namespace ogrom
