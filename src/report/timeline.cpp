#include "src/report/timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <string_view>

namespace ogrom {
namespace {

using Kind = ActionKind;

// Pixels.
constexpr double left = 80, right = 80, plot_width = 1040, width = left + plot_width + right;
constexpr double title_height = 34, legend_height = 30, caption_height = 24, row_height = 26, row_gap = 4;
constexpr double axis_height = 44, letter_width = 6.2;

constexpr std::string_view style = R"svg(<style>
text{font:11px sans-serif;fill:#1a1a1a}.title{font-size:15px;font-weight:bold}.caption{font-weight:bold}
.ground{fill:#fff}.grid{stroke:#c4c4c4;stroke-width:1}.axis{stroke:#1a1a1a;stroke-width:1}
.bar{stroke:#1a1a1a;stroke-width:.6}.label{text-anchor:middle;paint-order:stroke;stroke:#fff;stroke-width:2.5px}
.ink{stroke:#1a1a1a}.dot{fill:#1a1a1a}
.f{fill:#9ec9ee}.b{fill:#f3b47c}.w{fill:#9fd6a4}
@media (prefers-color-scheme:dark){text{fill:#ececec}.ground{fill:#161616}.grid{stroke:#4a4a4a}
.axis,.bar,.ink{stroke:#ececec}.dot{fill:#ececec}.label{stroke:#161616}.f{fill:#1f4d78}.b{fill:#80470f}.w{fill:#21602a}}
</style>
<defs>
<pattern id="pass-f" width="8" height="8" patternUnits="userSpaceOnUse"><rect class="f" width="8" height="8"/></pattern>
<pattern id="pass-b" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="b" width="7" height="7"/><line class="ink" y2="7" stroke-width="1.2"/></pattern>
<pattern id="pass-i" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect class="b" width="7" height="7"/><line class="ink" y2="7" stroke-width="1.2"/></pattern>
<pattern id="pass-w" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="w" width="6" height="6"/><circle class="dot" cx="3" cy="3" r="1"/></pattern>
</defs>
)svg";

struct PassLook {
    Kind kind;
    char letter;
    std::string_view pattern, legend;
};
constexpr std::array<PassLook, 4> looks = {{{Kind::forward, 'F', "pass-f", "forward"},
                                            {Kind::backward, 'B', "pass-b", "backward"},
                                            {Kind::backward_input, 'I', "pass-i", "backward, input half"},
                                            {Kind::backward_weight, 'W', "pass-w", "backward, weight half"}}};

const PassLook& look_of(Kind kind) {
    const auto* const look =
        std::find_if(looks.begin(), looks.end(), [&](const PassLook& candidate) { return candidate.kind == kind; });
    return look == looks.end() ? looks.front() : *look;
}

std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        switch (c) {
            case '&':
                result += "&amp;";
                break;
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '"':
                result += "&quot;";
                break;
            default:
                result += static_cast<unsigned char>(c) < 32 ? ' ' : c;
        }
    }
    return result;
}

struct Range {
    double first = std::numeric_limits<double>::infinity(), last = -std::numeric_limits<double>::infinity();
    [[nodiscard]] double length() const { return last > first ? last - first : 0; }
};

Range range_of(const TimelinePanel& panel) {
    Range range;
    for (const std::vector<PassSpan>& stage : panel.stages) {
        for (const PassSpan& pass : stage) {
            range.first = std::min(range.first, pass.start);
            range.last = std::max(range.last, pass.end);
        }
    }
    return range;
}

struct TimeUnit {
    double seconds;
    std::string_view name;
};

TimeUnit unit_for(double length) {
    return length >= 2 ? TimeUnit{1, "s"} : length >= 2e-3 ? TimeUnit{1e-3, "ms"} : TimeUnit{1e-6, "\u00b5s"};
}

// 1, 2 or 5 times a power of ten, for at most about ten ticks.
double tick_step(double length) {
    const double rough = length / 10;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * power >= rough * (1 - 1e-9)) {
            return factor * power;
        }
    }
    return 10 * power;
}

class Drawing {
public:
    Drawing(const std::string& title, std::span<const TimelinePanel> panels) : title_(title), panels_(panels) {
        for (const TimelinePanel& panel : panels) {
            length_ = std::max(length_, range_of(panel).length());
            for (const std::vector<PassSpan>& stage : panel.stages) {
                for (const PassSpan& pass : stage) {
                    chunks_ = std::max(chunks_, pass.chunk + 1);
                }
            }
        }
        length_ = length_ > 0 ? length_ : 1;
        unit_ = unit_for(length_);
    }

    std::string draw() {
        const double top = title_height + legend_height;
        double bottom = top;
        for (const TimelinePanel& panel : panels_) {
            bottom += caption_height + static_cast<double>(panel.stages.size()) * (row_height + row_gap);
        }
        draw_legend();
        draw_axis(top, bottom);  // the grid lies under the rows
        double y = top;
        for (const TimelinePanel& panel : panels_) {
            y = draw_panel(panel, y);
        }
        const double height = bottom + axis_height;
        std::string svg = fmt::format(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
            "height=\"{1:.0f}\" role=\"img\">\n<title>{2}</title>\n{3}<rect class=\"ground\" width=\"{0:.0f}\" "
            "height=\"{1:.0f}\"/>\n<text class=\"title\" x=\"{4:.0f}\" y=\"22\">{2}</text>\n",
            width, height, escaped(title_), style, left);
        return svg + body_ + "</svg>\n";
    }

private:
    template <class... Args>
    void add(fmt::format_string<Args...> format, Args&&... args) {
        fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    }
    [[nodiscard]] double x_of(double seconds) const { return left + plot_width * seconds / length_; }

    [[nodiscard]] bool is_drawn(Kind kind) const {
        return std::any_of(panels_.begin(), panels_.end(), [&](const TimelinePanel& panel) {
            return std::any_of(panel.stages.begin(), panel.stages.end(), [&](const std::vector<PassSpan>& stage) {
                return std::any_of(stage.begin(), stage.end(), [&](const PassSpan& pass) { return pass.kind == kind; });
            });
        });
    }

    void draw_legend() {
        double x = left;
        const double y = title_height;
        for (const PassLook& look : looks) {
            if (!is_drawn(look.kind)) {
                continue;
            }
            const std::string text = fmt::format("{} {}", look.letter, look.legend);
            add("<rect class=\"bar\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"24\" height=\"14\" fill=\"url(#{})\"/>"
                "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                x, y, look.pattern, x + 30, y + 11, text);
            x += 46 + letter_width * static_cast<double>(text.size());
        }
        add("<text x=\"{:.1f}\" y=\"{:.1f}\">number: micro-batch{}; right: idle share of the stage</text>\n", x, y + 11,
            chunks_ > 1 ? ", one \u2032 per chunk above the first" : "");
    }

    double draw_panel(const TimelinePanel& panel, double y) {
        add("<text class=\"caption\" x=\"{:.0f}\" y=\"{:.1f}\">{}</text>\n", left, y + 16, escaped(panel.caption));
        y += caption_height;
        const Range range = range_of(panel);
        for (std::size_t s = 0; s < panel.stages.size(); ++s) {
            draw_row(panel, s, range, y);
            y += row_height + row_gap;
        }
        return y;
    }

    void draw_row(const TimelinePanel& panel, std::size_t stage, const Range& range, double y) {
        const double middle = y + row_height / 2 + 4;
        add("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">stage {}</text>\n", left - 8, middle, stage);
        double work = 0;
        for (const PassSpan& pass : panel.stages[stage]) {
            work += pass.end - pass.start;
            draw_pass(panel, stage, range, pass, y);
        }
        if (range.length() > 0) {
            add("<text x=\"{:.0f}\" y=\"{:.1f}\">{:.1f} %</text>\n", left + plot_width + 8, middle,
                100 * (1 - work / range.length()));
        }
    }

    void draw_pass(const TimelinePanel& panel, std::size_t stage, const Range& range, const PassSpan& pass, double y) {
        const PassLook& look = look_of(pass.kind);
        const double start = pass.start - range.first, end = pass.end - range.first;
        const double x = x_of(start), bar = std::max(x_of(end) - x, 0.3);
        add("<g class=\"pass {}\"><title>{}, stage {}: {} of micro-batch {}, chunk {}, {:.4g} to {:.4g} {}</title>"
            "<rect class=\"bar\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"url(#{})\"/>",
            name_of(pass.kind), escaped(panel.caption), stage, name_of(pass.kind), pass.micro_batch, pass.chunk,
            start / unit_.seconds, end / unit_.seconds, unit_.name, x, y, bar, row_height, look.pattern);
        const std::string number = fmt::format("{}", pass.micro_batch);
        const auto letters = static_cast<double>(number.size() + static_cast<std::size_t>(pass.chunk));
        if (bar >= letter_width * letters + 2) {
            std::string label = bar >= letter_width * (letters + 1) + 4 ? std::string(1, look.letter) : std::string();
            label += number;
            for (i64 c = 0; c < pass.chunk; ++c) {
                label += "\u2032";
            }
            add("<text class=\"label\" x=\"{:.2f}\" y=\"{:.1f}\">{}</text>", x + bar / 2, y + row_height / 2 + 4,
                label);
        }
        add("</g>\n");
    }

    void draw_axis(double top, double bottom) {
        const double step = tick_step(length_ / unit_.seconds);
        const auto ticks = static_cast<i64>(std::floor(length_ / unit_.seconds / step * (1 + 1e-9)));
        for (i64 i = 0; i <= ticks; ++i) {
            const double value = step * static_cast<double>(i);
            add("<line class=\"grid\" x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>"
                "<text x=\"{0:.2f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4:.6g}</text>\n",
                x_of(value * unit_.seconds), top, bottom + 4, bottom + 17, value);
        }
        add("<line class=\"axis\" x1=\"{0:.0f}\" x2=\"{1:.0f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
            "<text x=\"{3:.0f}\" y=\"{4:.1f}\" text-anchor=\"middle\">time since the first pass [{5}]</text>\n",
            left, left + plot_width, bottom, left + plot_width / 2, bottom + 34, unit_.name);
    }

    const std::string& title_;
    std::span<const TimelinePanel> panels_;
    double length_ = 0;  // of the longest panel, seconds
    i64 chunks_ = 1;
    TimeUnit unit_ = {1, "s"};
    std::string body_;
};

}  // namespace

std::string draw_timeline(const std::string& title, std::span<const TimelinePanel> panels) {
    return Drawing(title, panels).draw();
}

}  // namespace ogrom
