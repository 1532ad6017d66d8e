#include "src/base/text.h"

#include <gtest/gtest.h>
#include <limits>

namespace ogrom {
namespace {

TEST(Text, EditDistanceCountsInsertionsDeletionsSubstitutionsAndSwaps) {
    EXPECT_EQ(edit_distance("", ""), 0);
    EXPECT_EQ(edit_distance("abc", ""), 3);
    EXPECT_EQ(edit_distance("", "abc"), 3);
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
    EXPECT_EQ(edit_distance("wramup", "warmup"), 1);  // swapped neighbours
    EXPECT_EQ(edit_distance("LR", "lr"), 0);          // case does not count
}

TEST(Text, NearestRefusesWhatIsTooFarAndPrefersTheCloser) {
    const std::vector<std::string> names = {"steps", "sequence", "seed", "lr"};
    EXPECT_EQ(nearest("stepz", names), "steps");
    EXPECT_EQ(nearest("sequnece", names), "sequence");
    EXPECT_EQ(nearest("sed", names), "seed");
    EXPECT_EQ(nearest("xyzxyz", names), std::nullopt);
    EXPECT_EQ(nearest("steps", {}), std::nullopt);
}

TEST(Text, SizesForPeople) {
    EXPECT_EQ(human_bytes(0), "0 B");
    EXPECT_EQ(human_bytes(1023), "1023 B");
    EXPECT_EQ(human_bytes(1024), "1.0 KiB");
    EXPECT_EQ(human_bytes(1024 * 1024 - 1), "1.0 MiB");  // never "1024.0 KiB"
    EXPECT_EQ(human_bytes(13207024435), "12.3 GiB");
    EXPECT_EQ(human_bytes(-2048), "-2.0 KiB");
    EXPECT_EQ(human_bytes(std::numeric_limits<i64>::max()), "8.0 EiB");
}

TEST(Text, DurationsForPeople) {
    EXPECT_EQ(human_duration(0), "0:00");
    EXPECT_EQ(human_duration(59.6), "1:00");
    EXPECT_EQ(human_duration(725), "12:05");
    EXPECT_EQ(human_duration(3 * 3600 + 67), "3:01:07");
    EXPECT_EQ(human_duration(-1), "--:--");
    EXPECT_EQ(human_duration(std::numeric_limits<double>::infinity()), "--:--");
}

TEST(Text, GroupedDigitsReadBack) {
    for (const i64 value : {i64{0}, i64{7}, i64{999}, i64{1000}, i64{-1000}, i64{-999}, i64{1'234'567},
                            std::numeric_limits<i64>::max(), std::numeric_limits<i64>::min()}) {
        EXPECT_EQ(parse_integer(group_digits(value)), value) << group_digits(value);
    }
    EXPECT_EQ(group_digits(1'000'000), "1_000_000");
    EXPECT_EQ(group_digits(-100), "-100");
}

TEST(Text, IntegersAreParsedStrictly) {
    EXPECT_EQ(parse_integer("+5"), 5);
    for (const char* bad :
         {"", "_1", "1_", "1__0", "1 ", " 1", "1.0", "1e3", "0x10", "--1", "+-1", "-_1", "9223372036854775808", "1M"}) {
        EXPECT_EQ(parse_integer(bad), std::nullopt) << bad;
    }
}

TEST(Text, RealsAreParsedStrictly) {
    EXPECT_EQ(parse_real("1e-5"), 1e-5);
    for (const char* bad : {"", "nan", "inf", "1.0x", " 1", "1e999"}) {
        EXPECT_EQ(parse_real(bad), std::nullopt) << bad;
    }
}

TEST(Text, SplitTrimJoin) {
    EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
    EXPECT_EQ(split("", ','), std::vector<std::string>{""});
    EXPECT_EQ(join(split("a,,b", ','), ","), "a,,b");
    EXPECT_EQ(trim(" \t a b \r\n"), "a b");
    EXPECT_EQ(trim(" \t"), "");
    EXPECT_EQ(quote("a\"b\\c\nd"), "\"a\\\"b\\\\c\\u000Ad\"");
}

TEST(Text, WordsOfACommandAreQuotedForTheShell) {
    const auto words = [](std::initializer_list<std::string_view> list) {
        std::string text;
        for (const std::string_view word : list) {
            text += std::string(word) + '\0';
        }
        return shell_words(text);
    };
    EXPECT_EQ(words({"ogrom", "train", "--set", "run.name=a-b"}), "ogrom train --set run.name=a-b");
    EXPECT_EQ(words({"ogrom", "allow=[\"x\"]", "", "it's"}), "ogrom 'allow=[\"x\"]' '' 'it'\\''s'");
    EXPECT_EQ(shell_words(""), "");
}

}  // namespace
}  // namespace ogrom
