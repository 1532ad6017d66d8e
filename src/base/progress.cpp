#include "src/base/progress.h"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

#include "src/base/text.h"

namespace ogrom {

namespace {

constexpr i64 bar_width = 24;

ProgressStyle resolve(const Progress::Options& options) {
    if (options.style != ProgressStyle::automatic) {
        return options.style;
    }
    return ::isatty(::fileno(options.out)) == 1 ? ProgressStyle::bar : ProgressStyle::lines;
}

}  // namespace

Progress::Progress(std::string label, i64 total, std::string unit, const Options& options)
    : label_(std::move(label)), unit_(std::move(unit)), total_(total), options_(options) {
    options_.style = resolve(options);
    last_s_ = options_.style == ProgressStyle::lines ? 0 : -1;
}

Progress::Progress(std::string label, i64 total, std::string unit)
    : Progress(std::move(label), total, std::move(unit), Options{}) {}

Progress::~Progress() {
    if (drawn_ > 0) {
        std::fputc('\n', options_.out);
        std::fflush(options_.out);
    }
}

std::string Progress::text(i64 done, double seconds, const std::string& note) const {
    std::string line = label_;
    if (total_ > 0) {
        const double part = std::clamp(static_cast<double>(done) / static_cast<double>(total_), 0.0, 1.0);
        if (options_.style == ProgressStyle::bar) {
            const auto full = static_cast<i64>(part * static_cast<double>(bar_width));
            line += fmt::format(" [{}{}]", std::string(static_cast<std::size_t>(full), '#'),
                                std::string(static_cast<std::size_t>(bar_width - full), '.'));
        }
        line += fmt::format(" {:3.0f} %  {}/{} {}", part * 100, group_digits(done), group_digits(total_), unit_);
        const i64 worked = done - std::max<i64>(first_, 0);
        const double left =
            worked > 0 ? seconds / static_cast<double>(worked) * static_cast<double>(std::max<i64>(total_ - done, 0))
                       : -1;
        line += fmt::format("  {} left", human_duration(left));
    } else {
        line += fmt::format("  {} {}  {}", group_digits(done), unit_, human_duration(seconds));
    }
    if (!note.empty()) {
        line += "  " + note;
    }
    return line;
}

void Progress::update(i64 done, const std::string& note) {
    if (first_ < 0) {
        first_ = done;
    }
    done_ = done;
    const double now = timer_.seconds();
    const double interval = options_.style == ProgressStyle::bar ? options_.bar_interval_s : options_.line_interval_s;
    if (options_.style == ProgressStyle::silent || (last_s_ >= 0 && now - last_s_ < interval)) {
        return;
    }
    last_s_ = now;
    draw(done, note);
}

void Progress::draw(i64 done, const std::string& note) {
    std::string line = text(done, timer_.seconds(), note);
    if (options_.style == ProgressStyle::bar) {
        const std::size_t length = line.size();
        line.append(drawn_ > length ? drawn_ - length : 0, ' ');  // covers a longer line drawn before
        std::fprintf(options_.out, "\r%s", line.c_str());
        drawn_ = length;
    } else {
        std::fprintf(options_.out, "%s\n", line.c_str());
    }
    std::fflush(options_.out);
}

void Progress::clear() {
    if (drawn_ > 0) {
        std::fprintf(options_.out, "\r%s\r", std::string(drawn_, ' ').c_str());
        std::fflush(options_.out);
        drawn_ = 0;
        last_s_ = -1;
    }
}

void Progress::finish(const std::string& note) {
    if (finished_ || options_.style == ProgressStyle::silent) {
        return;
    }
    finished_ = true;
    draw(done_, note);
}

}  // namespace ogrom
