// In: text of a hostfile. Out: hosts with their slots. Next: comm/host_addresses.cpp, commands/hosts.cpp.
#include "src/config/hosts.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <optional>
#include <unordered_map>

#include "src/base/error.h"
#include "src/base/text.h"
#include "src/config/entry.h"
#include "src/config/host_name.h"

namespace ogrom {
namespace {

constexpr i64 most_faults = 50;  // told at once: a file of another kind has one in every line

std::string shown(std::string_view line) {
    constexpr std::size_t longest = 160;
    return quote(line.size() > longest ? std::string(line.substr(0, longest)) + "..." : std::string(line));
}

std::string_view without_comment(std::string_view line) {
    return line.substr(0, std::min(line.find('#'), line.find("//")));
}

// Words between blanks; "slots = 8" (as Open MPI reads it too) is the one word "slots=8".
std::vector<std::string> words_of(std::string_view line) {
    std::vector<std::string> words;
    bool joins = false;
    std::size_t at = 0;
    while (at < line.size()) {
        if (line[at] == ' ' || line[at] == '\t') {
            ++at;
            continue;
        }
        std::size_t end = at;
        while (end < line.size() && line[end] != ' ' && line[end] != '\t') {
            ++end;
        }
        const std::string word(line.substr(at, end - at));
        if (!words.empty() && (joins || word.front() == '=')) {
            words.back() += word;
        } else {
            words.push_back(word);
        }
        joins = word.back() == '=';
        at = end;
    }
    return words;
}

// "" or what is wrong with NAME=VALUE of a line.
std::string take_setting(const std::string& word, HostEntry& host) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (equals == std::string::npos) {
        return fmt::format("{} is neither a comment nor name=number; would be right: {} slots=8", quote(key),
                           host.name);
    }
    const bool most = key == "max_slots" || key == "max-slots";
    if (!most && key != "slots") {
        static const std::array<std::string, 2> known = {"slots", "max_slots"};
        const std::optional<std::string> near = nearest(key, known);
        return fmt::format("unknown name {}; {}", quote(key),
                           near ? "nearest: " + *near : std::string("would be right: slots or max_slots"));
    }
    const std::string digits = word.substr(equals + 1);
    const std::optional<i64> number = parse_integer(digits);
    if (!number || *number < 1 || *number > most_slots) {
        return fmt::format("{} = {} is no number of ranks; would be right: 1 to {}", key, quote(digits), most_slots);
    }
    i64& place = most ? host.max_slots : host.slots;
    if (place != 0) {
        return fmt::format("{} stands twice", key);
    }
    place = *number;
    return {};
}

// "" or what is wrong with the line.
std::string take_line(const std::vector<std::string>& words, HostEntry& host) {
    std::string name = words.front();
    if (const std::size_t sign = name.find('@'); sign != std::string::npos) {
        host.user = name.substr(0, sign);
        name = name.substr(sign + 1);
        if (const std::string wrong = wrong_user_name(host.user); !wrong.empty()) {
            return wrong;
        }
    }
    host.name = name;
    if (const std::string wrong = wrong_host_name(name); !wrong.empty()) {
        return wrong;
    }
    for (std::size_t i = 1; i < words.size(); ++i) {
        if (const std::string wrong = take_setting(words[i], host); !wrong.empty()) {
            return wrong;
        }
    }
    if (host.max_slots != 0 && host.max_slots < host.slots) {
        return fmt::format("max_slots = {} is below slots = {}", host.max_slots, host.slots);
    }
    return {};
}

}  // namespace

std::string HostEntry::text() const {
    std::string line = user.empty() ? name : user + "@" + name;
    line += slots > 0 ? fmt::format(" slots={}", slots) : "";
    line += max_slots > 0 ? fmt::format(" max_slots={}", max_slots) : "";
    return line;
}

std::vector<HostEntry> parse_hostfile(std::string_view text, const std::string& path) {
    std::vector<HostEntry> hosts;
    std::unordered_map<std::string, std::string> seen;  // spelling for comparison, where it stands
    Faults faults;
    i64 number = 0;
    while (!text.empty() && faults.size() < most_faults) {
        ++number;
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.ends_with('\r')) {
            line.remove_suffix(1);
        }
        const std::vector<std::string> words = words_of(without_comment(line));
        if (words.empty()) {
            continue;
        }
        HostEntry host;
        host.where = fmt::format("{}:{}", path, number);
        if (const std::string wrong = take_line(words, host); !wrong.empty()) {
            faults.add(host.where, shown(line), wrong);
            continue;
        }
        const auto [at, is_new] = seen.emplace(same_host_key(host.name), host.where);
        if (!is_new) {
            faults.add(host.where, shown(line),
                       fmt::format("host {} stands at {} already; would be right: one line with all its slots",
                                   host.name, at->second));
            continue;
        }
        require(static_cast<i64>(hosts.size()) < most_hosts, ExitCode::usage,
                fmt::format("{}: more than {} hosts", path, most_hosts));
        hosts.push_back(std::move(host));
    }
    faults.throw_if_any("the hostfile");
    require(!hosts.empty(), ExitCode::usage,
            fmt::format("{}: names no host; mpirun would run everything on this machine. Would be right: one line "
                        "`node1 slots=8` per host",
                        path));
    return hosts;
}

void set_slots(std::vector<HostEntry>& hosts, std::string_view slots, const std::string& where) {
    std::vector<i64> counts;
    const auto refuse = [&](const std::string& part) {
        fail(ExitCode::usage,
             fmt::format("{} {}: {} is no number of ranks per host; would be right: 8, or as SLURM_TASKS_PER_NODE "
                         "has it, 4(x2),3",
                         where, shown(slots), quote(part)));
    };
    const std::vector<std::string> parts = split(slots, ',');
    for (const std::string& part : parts) {
        const std::size_t open = part.find("(x");
        const std::optional<i64> count = parse_integer(part.substr(0, open));
        std::optional<i64> times = 1;
        if (open != std::string::npos) {
            times = part.back() == ')' ? parse_integer(part.substr(open + 2, part.size() - open - 3)) : std::nullopt;
        }
        if (!count || !times || *count < 1 || *count > most_slots || *times < 1 || *times > most_hosts ||
            static_cast<i64>(counts.size()) + *times > most_hosts) {
            refuse(part);
        }
        counts.insert(counts.end(), static_cast<std::size_t>(*times), *count);
    }
    const bool one_for_all = parts.size() == 1 && slots.find('(') == std::string_view::npos;
    require(
        one_for_all || counts.size() == hosts.size(), ExitCode::usage,
        fmt::format("{} {}: numbers for {} hosts, but there are {}", where, shown(slots), counts.size(), hosts.size()));
    for (std::size_t i = 0; i < hosts.size(); ++i) {
        if (hosts[i].slots != 0) {
            continue;
        }
        hosts[i].slots = one_for_all ? counts.front() : counts[i];
        require(hosts[i].max_slots == 0 || hosts[i].max_slots >= hosts[i].slots, ExitCode::usage,
                fmt::format("{}: {}: max_slots = {} is below {} {}", hosts[i].where, hosts[i].name, hosts[i].max_slots,
                            where, hosts[i].slots));
    }
}

void require_slots(const std::vector<HostEntry>& hosts) {
    for (const HostEntry& host : hosts) {
        require(host.slots > 0, ExitCode::usage,
                fmt::format("{}: {}: no number of ranks; would be right: `{} slots=8`, or --slots 8 for all",
                            host.where, host.name, host.name));
    }
}

}  // namespace ogrom
