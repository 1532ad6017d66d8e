#include "src/train/stop_time.h"

#include <gtest/gtest.h>
#include <map>

#include "src/base/error.h"

namespace ogrom {
namespace {

constexpr double now = 1'000'000;  // 1970-01-12T13:46:40Z

TimeLimit limit(const std::string& stop_before, double minutes, const std::string& job_end = "") {
    return time_limit(stop_before, minutes, {now, 5, [&](const char* name) -> const char* {
                                                 const bool asked = std::string(name) == "SLURM_JOB_END_TIME";
                                                 return asked && !job_end.empty() ? job_end.c_str() : nullptr;
                                             }});
}

std::string refusal(const std::string& stop_before, const std::string& job_end = "") {
    try {
        return "accepted: " + limit(stop_before, 0, job_end).name;
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
}

void expect_refused(const std::string& said, const std::string& part) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
    EXPECT_FALSE(said.starts_with("accepted")) << said;
}

TEST(TimeLimit, counts_from_launch) {
    EXPECT_EQ(limit("", 0).after_launch_s, 0);
    EXPECT_EQ(limit("", 0.5).after_launch_s, 30);
    EXPECT_EQ(limit("1970-01-12T13:47:40Z", 0).after_launch_s, 5 + 60);
    EXPECT_EQ(limit("job-end-10s", 0, "1000100").after_launch_s, 5 + 90);
}

TEST(TimeLimit, the_earlier_of_two_holds_and_is_named) {
    EXPECT_EQ(limit("job-end-10s", 1, "1000100").name, "--time-limit 1");
    EXPECT_EQ(limit("job-end-10s", 1, "1000100").after_launch_s, 60);
    EXPECT_EQ(limit("job-end-10s", 2, "1000100").name, "train.stop_before = \"job-end-10s\"");
}

TEST(TimeLimit, a_time_that_has_passed_or_is_not_known_is_refused) {
    expect_refused(refusal("1970-01-12T13:46:40Z"), "ago already");
    expect_refused(refusal("job-end-200s", "1000100"), "1:40 ago already");
    expect_refused(refusal("job-end-10s"), "SLURM_JOB_END_TIME is not set");
    expect_refused(refusal("job-end-10s", "soon"), "SLURM_JOB_END_TIME is \"soon\"");
    expect_refused(refusal("job-end-10s", "0"), "SLURM_JOB_END_TIME is \"0\"");
}

}  // namespace
}  // namespace ogrom
