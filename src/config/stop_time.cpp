#include "src/config/stop_time.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "src/base/text.h"

namespace ogrom {
namespace {

// The number of the digits at [at, at + count); -1 where one is no digit.
int digits(std::string_view text, std::size_t at, std::size_t count) {
    int value = 0;
    for (std::size_t i = at; i < at + count; ++i) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

std::optional<i64> parse_utc(std::string_view text) {
    constexpr std::string_view form = "0000-00-00T00:00:00Z";
    if (text.size() != form.size()) {
        return std::nullopt;
    }
    for (std::size_t i = 0; i < form.size(); ++i) {
        if (form[i] != '0' && text[i] != form[i]) {
            return std::nullopt;
        }
    }
    const int year = digits(text, 0, 4), month = digits(text, 5, 2), day = digits(text, 8, 2);
    const int hour = digits(text, 11, 2), minute = digits(text, 14, 2), second = digits(text, 17, 2);
    if (std::min({year, month, day, hour, minute, second}) < 0 || hour > 23 || minute > 59 || second > 59) {
        return std::nullopt;
    }
    const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                           std::chrono::day{static_cast<unsigned>(day)}};
    if (!date.ok()) {
        return std::nullopt;
    }
    const i64 days = std::chrono::sys_days{date}.time_since_epoch().count();
    return ((days * 24 + hour) * 60 + minute) * 60 + second;
}

// "300s", "5min", "1h"
std::optional<i64> parse_length(std::string_view text) {
    constexpr i64 longest = i64{365} * 86400;
    i64 unit = 0;
    for (const auto& [suffix, seconds] : {std::pair{"min", 60}, std::pair{"s", 1}, std::pair{"h", 3600}}) {
        if (text.ends_with(suffix)) {
            unit = seconds;
            text.remove_suffix(std::string_view(suffix).size());
            break;
        }
    }
    const std::optional<i64> count = parse_integer(text);
    return unit > 0 && count && *count >= 0 && *count <= longest / unit ? std::optional<i64>(*count * unit)
                                                                        : std::nullopt;
}

}  // namespace

std::optional<StopTime> parse_stop_time(std::string_view text) {
    constexpr std::string_view job = "job-end";
    if (text == job) {
        return StopTime{.of_job = true};
    }
    if (text.starts_with(job) && text.substr(job.size()).starts_with('-')) {
        const std::optional<i64> before = parse_length(text.substr(job.size() + 1));
        return before ? std::optional(StopTime{.of_job = true, .seconds_before = *before}) : std::nullopt;
    }
    const std::optional<i64> time = parse_utc(text);
    return time ? std::optional(StopTime{.unix_s = *time}) : std::nullopt;
}

std::string stop_time_forms() {
    return R"("2026-01-31T23:59:00Z" (UTC), or "job-end-300s" (s, min or h before the end of the SLURM job))";
}

}  // namespace ogrom
