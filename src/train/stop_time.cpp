#include "src/train/stop_time.h"

#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <optional>

#include "src/base/error.h"
#include "src/base/text.h"
#include "src/config/stop_time.h"
#include "src/device/memory.h"

namespace ogrom {
namespace {

[[noreturn]] void refuse(const std::string& stop_before, const std::string& what) {
    fail(ExitCode::usage, fmt::format("train.stop_before = {}: {}", quote(stop_before), what));
}

double end_of_job(const std::string& stop_before, const StopClock& clock) {
    const char* text = clock.environment("SLURM_JOB_END_TIME");
    if (text == nullptr || *text == 0) {
        refuse(stop_before,
               "SLURM_JOB_END_TIME is not set, so the end of the job is not known; would be right: in a job, as "
               "jobscripts/slurm sets it where SLURM itself does not; elsewhere a time, or no such key");
    }
    const std::optional<i64> end = parse_integer(text);
    if (!end || *end <= 0) {
        refuse(stop_before, fmt::format("SLURM_JOB_END_TIME is {}; would be right: seconds since 1970", quote(text)));
    }
    return static_cast<double>(*end);
}

}  // namespace

TimeLimit time_limit(const std::string& stop_before, double limit_minutes, const StopClock& clock) {
    TimeLimit limit;
    if (limit_minutes > 0) {
        limit = {limit_minutes * 60, fmt::format("--time-limit {:g}", limit_minutes)};
    }
    if (stop_before.empty()) {
        return limit;
    }
    const StopTime stop = parse_stop_time(stop_before).value();  // config/resolve_stop.cpp has checked the form
    const double at = stop.of_job ? end_of_job(stop_before, clock) - static_cast<double>(stop.seconds_before)
                                  : static_cast<double>(stop.unix_s);
    const double left = at - clock.unix_s;
    if (left <= 0) {
        refuse(stop_before, fmt::format("{} ago already; would be right: a later time", human_duration(-left)));
    }
    const double after_launch = clock.since_launch_s + left;
    if (limit.name.empty() || after_launch < limit.after_launch_s) {
        limit = {after_launch, fmt::format("train.stop_before = {}", quote(stop_before))};
    }
    return limit;
}

TimeLimit agree_time_limit(Communicator& world, const std::string& stop_before, double limit_minutes) {
    // Rank 0 alone has read SLURM's variables: the ranks of other hosts may not have got them.
    std::string mine;
    if (world.rank() == 0) {
        try {
            const auto now = std::chrono::system_clock::now().time_since_epoch();
            const TimeLimit limit =
                time_limit(stop_before, limit_minutes,
                           {std::chrono::duration<double>(now).count(), seconds_since_launch(),
                            [](const char* name) { return static_cast<const char*>(std::getenv(name)); }});
            // Launches lie apart: what is left is told, not when it began.
            mine = fmt::format("{} {}", limit.name.empty() ? 0 : limit.after_launch_s - seconds_since_launch(),
                               limit.name);
        } catch (const Error& error) {
            mine = std::string("!") + error.what();
        }
    }
    const std::string told = gather_text(world, mine, "time limit")[0];
    require(!told.starts_with('!'), ExitCode::usage, told.substr(1));
    const std::size_t blank = told.find(' ');
    const double left = std::strtod(told.c_str(), nullptr);
    const std::string name = told.substr(blank + 1);
    return name.empty() ? TimeLimit{} : TimeLimit{seconds_since_launch() + left, name};
}

}  // namespace ogrom
