// The drawing of a schedule: well-formed, complete, on one time axis.
#include "src/report/timeline.h"

#include <gtest/gtest.h>
#include <regex>

#include "src/pipeline/schedule.h"
#include "src/pipeline/simulate.h"

namespace ogrom::test {
namespace {

// Tags close in the order they were opened, attributes are quoted, '&' opens a known entity.
void expect_well_formed(const std::string& svg) {
    std::vector<std::string> open;
    const std::regex tag(R"(<(/?)([a-z]+)((?:\s+[a-zA-Z0-9:-]+="[^"<]*")*)\s*(/?)>)");
    std::size_t position = 0;
    for (std::sregex_iterator it(svg.begin(), svg.end(), tag), end; it != end; ++it) {
        const std::string between = svg.substr(position, static_cast<std::size_t>(it->position()) - position);
        EXPECT_EQ(between.find('<'), std::string::npos) << "not a tag: " << between;
        position = static_cast<std::size_t>(it->position() + it->length());
        const std::string name = (*it)[2];
        if ((*it)[1] == "/") {
            ASSERT_FALSE(open.empty());
            EXPECT_EQ(open.back(), name);
            open.pop_back();
        } else if ((*it)[4] != "/") {
            open.push_back(name);
        }
    }
    EXPECT_TRUE(open.empty());
    EXPECT_EQ(svg.find('<', position), std::string::npos);
    const std::regex ampersand("&(?!(amp|lt|gt|quot);)");
    EXPECT_FALSE(std::regex_search(svg, ampersand));
}

std::size_t count(const std::string& text, const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) {
        ++n;
    }
    return n;
}

TEST(Timeline, HoldsEveryPassOnce) {
    for (const ScheduleSpec& spec :
         {ScheduleSpec{PipelineSchedule::interleaved, 3, 2, 6}, ScheduleSpec{PipelineSchedule::zero_bubble, 4, 1, 8}}) {
        const Simulation result = simulate(spec, make_stage_schedules(spec), even_costs(spec, {0.01, 0.01, 0.01}, 0));
        Simulation slower = result;
        for (auto& stage : slower.stages) {
            for (PassSpan& pass : stage) {
                pass.start = 100 + 2 * pass.start;
                pass.end = 100 + 2 * pass.end;
            }
        }
        const std::string svg = draw_timeline(
            "a < b & \"c\"", std::vector<TimelinePanel>{{"simulated", result.stages}, {"measured", slower.stages}});
        expect_well_formed(svg);
        EXPECT_EQ(count(svg, "a &lt; b &amp; &quot;c&quot;"), 2U);  // as the document's title and as the heading
        EXPECT_EQ(count(svg, "[ms]"), 1U);
        std::size_t passes = 0;
        for (const std::string panel : {"simulated", "measured"}) {
            for (std::size_t s = 0; s < result.stages.size(); ++s) {
                for (const PassSpan& pass : result.stages[s]) {
                    const std::string title = "<title>" + panel + ", stage " + std::to_string(s) + ": " +
                                              std::string(name_of(pass.kind)) + " of micro-batch " +
                                              std::to_string(pass.micro_batch) + ", chunk " +
                                              std::to_string(pass.chunk) + ",";
                    EXPECT_EQ(count(svg, title), 1U) << title;
                    ++passes;
                }
            }
        }
        EXPECT_EQ(count(svg, "<g class=\"pass "), passes);
    }
}

// The slower panel fills the axis, the other one half of it.
TEST(Timeline, PanelsShareTheAxis) {
    using Kind = ActionKind;
    const std::vector<TimelinePanel> panels = {
        {"simulated", {{{Kind::forward, 0, 0, 5, 7}}}},
        {"measured", {{{Kind::forward, 0, 0, 1, 2}, {Kind::backward, 0, 0, 3, 5}}}}};
    const std::string svg = draw_timeline("t", panels);
    EXPECT_EQ(count(svg, "x=\"80.00\" y="), 2U + 1U);  // both first passes, and the tick of time 0
    EXPECT_EQ(count(svg, "width=\"520.00\""), 2U);     // 2 of 4 seconds of 1040 pixels
    EXPECT_EQ(count(svg, "width=\"260.00\""), 1U);
    EXPECT_EQ(count(svg, "0 to 2 s<"), 1U);
    EXPECT_EQ(count(svg, ">25.0 %<"), 1U);  // idle share of the measured stage
    EXPECT_EQ(count(svg, ">0.0 %<"), 1U);
    EXPECT_EQ(count(svg, "weight half"), 0U);  // the legend names what is drawn
}

TEST(Timeline, NothingToDrawIsDrawn) {
    expect_well_formed(draw_timeline("empty", {}));
    expect_well_formed(draw_timeline("no pass", std::vector<TimelinePanel>{{"simulated", {{}, {}}}}));
}

}  // namespace
}  // namespace ogrom::test
