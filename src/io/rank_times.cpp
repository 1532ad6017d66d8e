// Comes in: figures of every rank, on rank 0. Goes out: ranks.csv. Next: report/run.cpp
#include "src/io/rank_times.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/text.h"

namespace ogrom {
namespace {

constexpr const char* format_line = "# ogrom ranks format=1";
constexpr const char* columns =
    "rank,host,first_step,last_step,step_s,waited_s,data_wait_s,longest_work_s,longest_step";
constexpr i64 largest = i64{256} << 20;

std::string number(double value) {
    return std::isfinite(value) ? fmt::format("{}", value) : "";
}

i64 count(const std::string& field, const std::string& where, const char* column) {
    const std::optional<i64> value = parse_integer(field);
    require(value && *value >= 0, ExitCode::data,
            fmt::format("{}: {}: {}; would be right: a whole number >= 0", where, column, quote(field)));
    return *value;
}

double seconds(const std::string& field, const std::string& where, const char* column) {
    if (field.empty()) {
        return std::numeric_limits<double>::quiet_NaN();
    }
    const std::optional<double> value = parse_real(field);
    require(value && *value >= 0, ExitCode::data,
            fmt::format("{}: {}: {}; would be right: seconds, or nothing", where, column, quote(field)));
    return *value;
}

// A host's name has no comma; whatever this one has, the row keeps its columns.
std::string host_text(std::string host) {
    for (char& c : host) {
        c = c == ',' || static_cast<unsigned char>(c) < 32 ? '_' : c;
    }
    return host;
}

}  // namespace

std::string rank_times_line(const RankTimes& t) {
    return fmt::format("{},{},{},{},{},{},{},{},{}\n", t.rank, host_text(t.host), t.first_step, t.last_step,
                       number(t.step_s), number(t.waited_s), number(t.data_wait_s), number(t.longest_work_s),
                       t.longest_step);
}

void write_rank_times(const std::string& folder, const std::vector<RankTimes>& ranks) {
    std::string csv = fmt::format("{}\n{}\n", format_line, columns);
    for (const RankTimes& times : ranks) {
        csv += rank_times_line(times);
    }
    write_file_atomic(join_path(folder, rank_times_name), csv);
}

RankTimes parse_rank_line(const std::string& line, const std::string& where) {
    const std::vector<std::string> fields = split(line, ',');
    require(fields.size() == 9, ExitCode::data,
            fmt::format("{}: {} columns; would be right: 9 ({})", where, fields.size(), columns));
    RankTimes t;
    t.rank = count(fields[0], where, "rank");
    t.host = fields[1];
    t.first_step = count(fields[2], where, "first_step");
    t.last_step = count(fields[3], where, "last_step");
    t.step_s = seconds(fields[4], where, "step_s");
    t.waited_s = seconds(fields[5], where, "waited_s");
    t.data_wait_s = seconds(fields[6], where, "data_wait_s");
    t.longest_work_s = seconds(fields[7], where, "longest_work_s");
    t.longest_step = count(fields[8], where, "longest_step");
    return t;
}

std::vector<RankTimes> read_rank_times(const std::string& path) {
    return parse_rank_times(read_file(path, largest), path);
}

std::vector<RankTimes> parse_rank_times(const std::string& text, const std::string& path) {
    const std::vector<std::string> lines = split(text, '\n');
    std::vector<RankTimes> ranks;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const std::string where = fmt::format("{}:{}", path, i + 1);
        if (i < 2) {
            const char* const wanted = i == 0 ? format_line : columns;
            require(lines[i] == wanted, ExitCode::data,
                    fmt::format("{}: {}; would be right: {}", where, quote(lines[i].substr(0, 200)), wanted));
        } else if (!lines[i].empty()) {
            ranks.push_back(parse_rank_line(lines[i], where));
        }
    }
    require(lines.size() >= 2, ExitCode::data, path + ": cut; would be right: two head lines and a row for each rank");
    return ranks;
}

}  // namespace ogrom
