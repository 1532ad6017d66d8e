// Comes in: paths of the command line. Goes out: points, or the folder of a run. Next: report/study.cpp, report/run.cpp
#include "src/report/sources.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <set>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/text.h"

namespace ogrom {
namespace {

constexpr const char* right =
    "would be right: a study (a folder with points/, as `ogrom scale` writes it), a folder of studies, files of "
    "points, or the folder of one run (with metrics.csv)";

bool is_run(const std::string& path) {
    return is_directory(path) && file_exists(join_path(path, "metrics.csv"));
}

bool is_study(const std::string& path) {
    return is_directory(path) && is_directory(join_path(path, study_points_folder));
}

std::string without_slash(std::string path) {
    while (path.size() > 1 && path.back() == '/') {
        path.pop_back();
    }
    return path;
}

std::string file_name(const std::string& path) {
    return std::filesystem::path(path).filename().string();
}

void read_study(const std::string& folder, ReportSources& sources) {
    const std::string points = join_path(folder, study_points_folder);
    std::size_t found = 0, others = 0;
    for (const std::string& name : list_directory(points)) {
        const std::string path = join_path(points, name);
        if (name.ends_with(".json") && !is_directory(path)) {
            sources.points.push_back({read_study_point(path), path});
            ++found;
        } else {
            ++others;  // what a writer that was killed left, and what others put there
        }
    }
    require(found > 0, ExitCode::usage,
            fmt::format("{}: no point is there yet; `ogrom scale` writes them as ID.json", points));
    if (others > 0) {
        sources.notes.push_back(fmt::format("{}: {} files that do not end in .json are left out", points, others));
    }
}

// A folder that holds studies: all of them.
bool read_studies_within(const std::string& folder, ReportSources& sources) {
    std::size_t found = 0;
    for (const std::string& name : list_directory(folder)) {
        if (const std::string inner = join_path(folder, name); is_study(inner)) {
            read_study(inner, sources);
            ++found;
        }
    }
    return found > 0;
}

// The folder that the report of `path` would go beside or into.
std::string home_of(const std::string& path) {
    if (is_directory(path)) {
        return path;
    }
    const std::string folder = parent_path(path);
    return file_name(folder) == study_points_folder ? parent_path(folder) : folder;
}

void read_one(const std::string& path, ReportSources& sources) {
    require(!path.empty(), ExitCode::usage, fmt::format("report: an empty path; {}", right));
    require(file_exists(path), ExitCode::checkpoint, fmt::format("{}: does not exist; {}", path, right));
    require(!is_special(path), ExitCode::usage, fmt::format("{}: a pipe, socket or device; {}", path, right));
    if (is_run(path) || (!is_directory(path) && file_name(path) == "metrics.csv")) {
        const std::string folder = is_directory(path) ? path : parent_path(path);
        require(sources.run_folder.empty() || same_place(sources.run_folder, folder), ExitCode::usage,
                fmt::format("{} and {} are two runs; would be right: one at a time", sources.run_folder, folder));
        sources.run_folder = folder;
    } else if (is_study(path)) {
        read_study(path, sources);
    } else if (is_directory(path)) {
        require(read_studies_within(path, sources), ExitCode::usage,
                fmt::format("{}: neither a study nor a run; {}", path, right));
    } else {
        require(path.ends_with(".json"), ExitCode::usage,
                fmt::format("{}: no file that report knows; {}", path, right));
        sources.points.push_back({read_study_point(path), path});
    }
}

// The same file under two names is one.
void drop_repeated(std::vector<SourcedPoint>& points) {
    std::set<std::string> seen;
    std::vector<SourcedPoint> kept;
    for (SourcedPoint& each : points) {
        std::error_code error;
        const std::string name = std::filesystem::canonical(each.path, error).string();
        if (seen.insert(error ? each.path : name).second) {
            kept.push_back(std::move(each));
        }
    }
    points = std::move(kept);
}

}  // namespace

ReportSources find_sources(const std::vector<std::string>& paths) {
    ReportSources sources;
    std::set<std::string> homes;
    for (const std::string& given : paths) {
        const std::string path = without_slash(given);
        read_one(path, sources);
        homes.insert(home_of(path));
    }
    require(sources.run_folder.empty() || sources.points.empty(), ExitCode::usage,
            fmt::format("{} is a run, {} is of a study; would be right: a report of the one, then of the other",
                        sources.run_folder, sources.points.empty() ? "" : sources.points.front().path));
    drop_repeated(sources.points);
    // Of several studies: beside them.
    const std::string home = homes.size() == 1 ? *homes.begin() : parent_path(*homes.begin());
    sources.default_output = join_path(home, "report");
    return sources;
}

}  // namespace ogrom
