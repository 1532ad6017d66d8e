#include "src/report/table.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "src/io/hdf5.h"
#include "src/report/html.h"

namespace ogrom {
namespace {

using Kind = Column::Kind;

Table sample() {
    Table table{"t-1",
                "Caption <b>",
                {{"name", "name", "", Kind::text},
                 {"count", "count", "B", Kind::integer},
                 {"rate_ms", "rate & more", "ms", Kind::real}},
                {}};
    table.add({std::string("a"), i64{1'234'567}, 0.1});
    table.add({std::string("=1+1"), Cell(), Cell()});
    return table;
}

TEST(Table, NumbersReadWell) {
    const Column real_column{"x", "x", "", Kind::real, 4};
    const auto show = [&](double value) { return shown(real(value), real_column); };
    EXPECT_EQ(show(0), "0");
    EXPECT_EQ(show(1234567.8), "1,234,568");
    EXPECT_EQ(show(12.3456), "12.35");
    EXPECT_EQ(show(9.9996), "10.00");  // four digits, not five
    EXPECT_EQ(show(-0.012345), "-0.01235");
    EXPECT_EQ(show(-1234.5), "-1,234");
    EXPECT_EQ(show(1.5e-7), "1.500e-07");
    EXPECT_EQ(show(1e20), "1.000e+20");
    EXPECT_EQ(show(std::nan("")), "\u2212");
    EXPECT_EQ(show(std::numeric_limits<double>::infinity()), "\u2212");
    EXPECT_EQ(grouped(-1234), "-1,234");
    EXPECT_EQ(grouped(123), "123");
    EXPECT_EQ(exact(real(0.1)), "0.1");
    EXPECT_EQ(exact(Cell(i64{1'234})), "1234");
}

TEST(Table, CsvFieldsAreDataAndNeverFormulas) {
    EXPECT_EQ(csv_field("plain"), "plain");
    EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
    EXPECT_EQ(csv_field("say \"x\"\n"), "\"say \"\"x\"\"\n\"");
    for (const char* formula : {"=cmd|'/C calc'!A0", "+1", "-1", "@SUM(1)", "\tx"}) {
        EXPECT_TRUE(csv_field(formula).starts_with("'")) << formula;
    }
    EXPECT_EQ(csv_field("=a,b"), "\"'=a,b\"");
    EXPECT_EQ(to_csv(sample()), "name,count,rate_ms\na,1234567,0.1\n'=1+1,,\n");
}

TEST(Table, JsonHasEveryCellAndNullForNone) {
    const nlohmann::ordered_json json = to_json(sample());
    EXPECT_EQ(json["rows"][0]["rate_ms"], 0.1);
    EXPECT_EQ(json["rows"][0]["count"], 1'234'567);
    EXPECT_TRUE(json["rows"][1]["count"].is_null());
    EXPECT_EQ(json["columns"][2]["unit"], "ms");
}

TEST(Table, HtmlKeepsTheExactValueBesideTheShownOne) {
    const std::string html = table_html(sample());
    EXPECT_NE(html.find("<data value=\"0.1\">0.1000</data>"), std::string::npos) << html;
    EXPECT_NE(html.find("<data value=\"1234567\">1,234,567</data>"), std::string::npos);
    EXPECT_NE(html.find("<caption id=\"t-1-caption\">Caption &lt;b&gt;</caption>"), std::string::npos);
    EXPECT_NE(html.find("<th scope=\"row\">=1+1</th>"), std::string::npos);
    EXPECT_NE(html.find("rate &amp; more <span class=\"unit\">[ms]</span>"), std::string::npos);
}

TEST(Html, WhateverAFileHoldsIsText) {
    EXPECT_EQ(escape("<script>&\"'"), "&lt;script&gt;&amp;&quot;&#39;");
    EXPECT_EQ(escape("a\nb\tc"), "a\nb\tc");
    EXPECT_EQ(escape(std::string("\0\x1b[31m\x7f", 7)), "\uFFFD\uFFFD[31m\uFFFD");
    EXPECT_EQ(escape("\xc3\x28"), "\uFFFD(");                 // a broken pair
    EXPECT_EQ(escape("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // half a surrogate
    EXPECT_EQ(escape("\xc0\xaf"), "\uFFFD\uFFFD");            // an overlong slash
    EXPECT_EQ(escape("\xe2\x80\xae"), "\uFFFD\uFFFD\uFFFD");  // text turned round
    EXPECT_EQ(escape("\xf4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
    EXPECT_EQ(escape("\xe2\x82"), "\uFFFD\uFFFD");  // cut
    EXPECT_EQ(escape("\u00b5s \u2212 \U0001F600"), "\u00b5s \u2212 \U0001F600");
}

// Every string of a few bytes: the result has no tag, no quote, no control, whatever goes in.
TEST(Html, NoBytesBecomeMarkup) {
    u64 state = 12345;
    for (int round = 0; round < 20'000; ++round) {
        std::string text;
        for (int i = 0; i < 6; ++i) {
            state = state * 6364136223846793005U + 1442695040888963407U;
            text += static_cast<char>(state >> 33U);
        }
        for (const char c : escape(text)) {
            ASSERT_TRUE(c != '<' && c != '>' && c != '"' && c != '\'');
            ASSERT_TRUE(static_cast<unsigned char>(c) >= 32 || c == '\n' || c == '\t');
        }
        const std::string field = csv_field(text);
        ASSERT_EQ(std::string_view("=+-@\t\r").find(field.front()), std::string_view::npos);
    }
}

TEST(Table, LongTextsAreCutBetweenCharacters) {
    std::string words(1999, 'a');
    words += "\u00b5\u00b5";
    const Cell cell = text(words);
    EXPECT_EQ(std::get<std::string>(cell), std::string(1999, 'a') + "\u2026");
    EXPECT_EQ(std::get<std::string>(text("short")), "short");
}

}  // namespace
}  // namespace ogrom
