// train.stop_before: each key has one unit or a suffix (field case B53); a time that is none is refused.
#include "src/config/stop_time.h"

#include <gtest/gtest.h>

namespace ogrom {
namespace {

TEST(StopTime, times_are_utc) {
    EXPECT_EQ(parse_stop_time("1970-01-01T00:00:00Z")->unix_s, 0);
    EXPECT_EQ(parse_stop_time("2026-01-31T23:59:00Z")->unix_s, 1769903940);  // date -u -d 2026-01-31T23:59:00 +%s
    EXPECT_EQ(parse_stop_time("2024-02-29T00:00:01Z")->unix_s, 1709164801);
}

TEST(StopTime, the_end_of_the_job_less_a_length_with_its_unit) {
    EXPECT_TRUE(parse_stop_time("job-end")->of_job);
    EXPECT_EQ(parse_stop_time("job-end")->seconds_before, 0);
    EXPECT_EQ(parse_stop_time("job-end-300s")->seconds_before, 300);
    EXPECT_EQ(parse_stop_time("job-end-5min")->seconds_before, 300);
    EXPECT_EQ(parse_stop_time("job-end-1h")->seconds_before, 3600);
}

TEST(StopTime, what_could_be_meant_otherwise_is_none) {
    for (const char* text : {"",
                             "tomorrow",
                             "13:00",
                             "2026-01-31",
                             "2026-01-31 23:59:00",
                             "2026-01-31T23:59:00",
                             "2026-02-30T00:00:00Z",
                             "2026-13-01T00:00:00Z",
                             "2026-01-31T24:00:00Z",
                             "2026-01-31T23:60:00Z",
                             "2026-01-31T23:59:60Z",
                             "2026-01-31T23:59:0xZ",
                             "2026-01-31T23:59:00+01:00",
                             "job-end-300",
                             "job-end-5m",
                             "job-end--5s",
                             "job-end-",
                             "job-end-s",
                             "job-end+5s",
                             "job-ends",
                             "job-end-99999999999h",
                             "300s",
                             "300"}) {
        EXPECT_FALSE(parse_stop_time(text)) << text;
    }
}

}  // namespace
}  // namespace ogrom
