// Progress of a long job with its remaining time: one line redrawn on a terminal, plain lines at an interval elsewhere
// (log files, pipes). Made by rank 0 only; not for several threads at once.
#pragma once
#include <cstdio>
#include <string>

#include "kernels/common/extents.h"

#include "src/base/timer.h"

namespace ogrom {

enum class ProgressStyle { automatic, bar, lines, silent };

class Progress {
public:
    struct Options {
        ProgressStyle style = ProgressStyle::automatic;  // bar when `out` is a terminal, else lines
        std::FILE* out = stderr;
        double bar_interval_s = 0.1;
        double line_interval_s = 10;
    };
    // `total` in `unit`s; 0 = not known beforehand (no bar, no remaining time).
    Progress(std::string label, i64 total, std::string unit, const Options& options);
    Progress(std::string label, i64 total, std::string unit);
    ~Progress();  // ends the redrawn line
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    // `done` counts from 0 to total; `note` stands at the end of the line ("loss 3.21"). Cheap when nothing is due.
    void update(i64 done, const std::string& note = "");
    // Rubs the redrawn line out, so that another line can be printed; the next update draws it again.
    void clear();
    void finish(const std::string& note = "");  // last line, always printed

    // The text of a line after `seconds`: "label 42 %  1_260/3_000 steps  0:12 left  note".
    [[nodiscard]] std::string text(i64 done, double seconds, const std::string& note) const;

private:
    void draw(i64 done, const std::string& note);

    std::string label_, unit_;
    i64 total_ = 0, done_ = 0, first_ = -1;  // first_: where counting began (a resumed run does not begin at 0)
    Options options_;
    Timer timer_;
    double last_s_ = -1;     // of the last line; a bar is drawn at once, plain lines wait for their first interval
    std::size_t drawn_ = 0;  // characters of the line on the terminal
    bool finished_ = false;
};

}  // namespace ogrom
