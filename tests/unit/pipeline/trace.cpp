// Spans: bounded memory, text and back, Chrome's format, idle time.
#include "src/pipeline/trace.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/common/error.h"

namespace ogrom::test {
namespace {

TraceSpan span_of(std::string_view name, SpanCategory category, double start, double end) {
    TraceSpan span{.category = category, .start = start, .end = end};
    span.set_name(name);
    return span;
}

TEST(Trace, KeepsWhatFitsAndCountsTheRest) {
    Trace trace(2, Trace::Clock::now());
    trace.set_step(5);
    for (int i = 0; i < 4; ++i) {
        const TraceScope scope(&trace, "forward", SpanCategory::compute, i, 1, 2);
    }
    ASSERT_EQ(trace.spans().size(), 2U);
    EXPECT_EQ(trace.dropped(), 2);
    EXPECT_EQ(trace.spans()[1].name(), "forward");
    EXPECT_EQ(trace.spans()[1].step, 5);
    EXPECT_EQ(trace.spans()[1].micro_batch, 1);
    EXPECT_EQ(trace.spans()[1].chunk, 1);
    EXPECT_EQ(trace.spans()[1].layer, 2);
    EXPECT_GE(trace.spans()[1].start, trace.spans()[0].end);
    EXPECT_GE(trace.spans()[0].start, 0);
    trace.clear();
    EXPECT_TRUE(trace.spans().empty());
    EXPECT_EQ(trace.dropped(), 0);
    const TraceScope nothing(nullptr, "forward", SpanCategory::compute);
}

TEST(Trace, TextAndBack) {
    std::vector<TraceSpan> spans = {span_of("reduce bucket 3", SpanCategory::communication, 0.25, 1.5),
                                    span_of(std::string(100, 'x'), SpanCategory::wait, -1e-9, 12345.678901234)};
    spans[0].bytes = 1'234'567'890'123;
    spans[0].step = 17;
    spans[1].layer = 3;
    spans[1].micro_batch = 4;
    const std::string text = serialise_spans(spans);
    const std::vector<TraceSpan> back = parse_spans(text);
    ASSERT_EQ(back.size(), 2U);
    EXPECT_EQ(serialise_spans(back), text);
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(back[i].name(), spans[i].name());
        EXPECT_EQ(back[i].category, spans[i].category);
        // Written in whole nanoseconds: half of one at most, and 12345 s in double are good to 1e-12 s.
        EXPECT_NEAR(back[i].start, spans[i].start, 0.51e-9);
        EXPECT_NEAR(back[i].end, spans[i].end, 0.51e-9);
        EXPECT_EQ(back[i].bytes, spans[i].bytes);
        EXPECT_EQ(back[i].step, spans[i].step);
        EXPECT_EQ(back[i].layer, spans[i].layer);
        EXPECT_EQ(back[i].micro_batch, spans[i].micro_batch);
    }
    EXPECT_EQ(back[1].name().size(), TraceSpan::name_size - 1);
    EXPECT_TRUE(parse_spans("").empty());
}

TEST(Trace, DamagedTextIsRefusedWithItsLine) {
    const std::string line = "forward\tcompute\t1\t2\t3\t4\t5\t6\t7\n";
    ASSERT_EQ(parse_spans(line + line).size(), 2U);
    for (const std::string& bad :
         {std::string("forward\tcompute\t1\t2\n"), line.substr(0, line.size() - 1),
          std::string("forward\tcomputing\t1\t2\t3\t4\t5\t6\t7\n"),
          std::string("forward\tcompute\t1\t2\t3\t4\t5\t6\t7x\n"), std::string("\n"), std::string(60, 'n') + line}) {
        try {
            parse_spans(line + bad);
            ADD_FAILURE() << "accepted: " << bad;
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
        }
    }
}

TEST(Trace, ChromeFormat) {
    std::vector<std::vector<TraceSpan>> ranks(2);
    ranks[0] = {span_of("forward \"odd\" \\ name", SpanCategory::compute, 0.001, 0.003),
                span_of("reduce 0", SpanCategory::communication, 0.001, 0.004),
                span_of("reduce 1", SpanCategory::communication, 0.002, 0.005),
                span_of("reduce 2", SpanCategory::communication, 0.0045, 0.006)};
    ranks[0][1].bytes = 64;
    ranks[1] = {span_of("update", SpanCategory::optimizer, 0.5, 0.75)};
    const nlohmann::json json = nlohmann::json::parse(chrome_trace(ranks));
    std::map<std::pair<i64, i64>, std::vector<std::pair<double, double>>> lanes;
    std::map<std::string, nlohmann::json> named;
    for (const nlohmann::json& event : json.at("traceEvents")) {
        if (event.at("ph") == "X") {
            const double start = event.at("ts"), length = event.at("dur");
            lanes[{event.at("pid"), event.at("tid")}].emplace_back(start, start + length);
            named[event.at("name")] = event;
        }
    }
    ASSERT_EQ(named.size(), 5U);
    EXPECT_EQ(named.at("reduce 0").at("args").at("bytes"), 64);
    EXPECT_EQ(named.at("reduce 0").at("tid"), 1);
    EXPECT_EQ(named.at("reduce 1").at("tid"), 2);
    EXPECT_EQ(named.at("reduce 2").at("tid"), 1);
    EXPECT_EQ(named.at("update").at("pid"), 1);
    EXPECT_EQ(named.at("update").at("tid"), 0);
    EXPECT_DOUBLE_EQ(named.at("update").at("ts").get<double>(), 500'000);
    EXPECT_DOUBLE_EQ(named.at("update").at("dur").get<double>(), 250'000);
    EXPECT_EQ(named.at("update").at("cat"), "optimizer");
    EXPECT_FALSE(named.at("update").at("args").contains("layer"));
    for (auto& [lane, times] : lanes) {
        std::sort(times.begin(), times.end());
        for (std::size_t i = 1; i < times.size(); ++i) {
            EXPECT_LE(times[i - 1].second, times[i].first) << "overlap on thread " << lane.second;
        }
    }
    EXPECT_TRUE(nlohmann::json::parse(chrome_trace({})).at("traceEvents").empty());
}

TEST(Trace, BubbleIsWhatIsLeftOfTheStepOfAllStages) {
    using Kind = ActionKind;
    const std::vector<std::vector<PassSpan>> stages = {{{Kind::forward, 0, 0, 1, 2}, {Kind::backward, 0, 0, 6, 8}},
                                                       {{Kind::forward, 0, 0, 2, 3.5}, {Kind::backward, 0, 0, 3.5, 6}},
                                                       {}};
    EXPECT_EQ(bubble_of(stages), (std::vector<double>{4, 3, 7}));
    EXPECT_EQ(bubble_of(std::vector<std::vector<PassSpan>>(2)), (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace ogrom::test
