#include "src/io/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <random>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/common/fault.h"

#include "src/base/host.h"
#include "src/io/checkpoint.h"
#include "src/io/lease.h"
#include "src/io/manifest.h"

namespace ogrom {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view temporary_mark = ".tmp-";
constexpr i64 foreign_stale_s = 24 * 3600;

std::vector<std::pair<i64, std::string>> step_folders(const std::string& directory) {
    std::vector<std::pair<i64, std::string>> found;
    if (is_directory(directory)) {
        for (const std::string& name : list_directory(directory)) {
            if (const auto step = step_of(name)) {
                found.emplace_back(*step, join_path(directory, name));
            }
        }
    }
    std::sort(found.rbegin(), found.rend());
    return found;
}

// Owner of a temporary name: "step-N.tmp-<host>-<pid>-<random>"; the host may contain dashes.
struct Owner {
    std::string host;
    long pid = 0;
};
std::optional<Owner> owner_of(const std::string& name) {
    const auto mark = name.find(temporary_mark);
    const auto last = name.rfind('-');
    if (mark == std::string::npos || !step_of(name.substr(0, mark)) || last <= mark + temporary_mark.size()) {
        return std::nullopt;
    }
    const auto middle = name.rfind('-', last - 1);
    const auto host_first = mark + temporary_mark.size();
    if (middle == std::string::npos || middle <= host_first) {
        return std::nullopt;
    }
    const std::string pid = name.substr(middle + 1, last - middle - 1);
    if (pid.empty() || pid.size() > 9 || pid.find_first_not_of("0123456789") != std::string::npos) {
        return std::nullopt;
    }
    return Owner{name.substr(host_first, middle - host_first), std::stol(pid)};
}

bool can_finish(const Owner& owner, const std::string& path) {
    if (owner.host == host_name()) {
        return owner.pid != ::getpid() && (::kill(static_cast<pid_t>(owner.pid), 0) == 0 || errno != ESRCH);
    }
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && std::time(nullptr) - status.st_mtime < foreign_stale_s;
}

}  // namespace

std::string step_name(i64 step) {
    return fmt::format("step-{:08d}", step);
}

std::optional<i64> step_of(const std::string& folder_name) {
    constexpr std::string_view prefix = "step-";
    const std::string digits = folder_name.substr(std::min(prefix.size(), folder_name.size()));
    if (!folder_name.starts_with(prefix) || digits.size() < 8 || digits.size() > 18 ||
        digits.find_first_not_of("0123456789") != std::string::npos) {
        return std::nullopt;
    }
    const i64 step = std::stoll(digits);
    return step_name(step) == folder_name ? std::optional(step) : std::nullopt;  // no second name for a step
}

std::string temporary_name(i64 step) {
    std::random_device random;
    return fmt::format("{}{}{}-{}-{:08x}", step_name(step), temporary_mark, host_name(), ::getpid(), random());
}

namespace {

std::vector<std::string> newest_complete(const std::string& directory, std::size_t most,
                                         std::vector<std::string>& passed_over) {
    std::vector<std::string> complete;
    for (const auto& [step, path] : step_folders(directory)) {
        const std::string reason = incomplete_reason(path);
        if (!reason.empty()) {
            passed_over.push_back(fmt::format("{} is not complete: {}", step_name(step), reason));
        } else if (complete.push_back(fs::absolute(path).string()); complete.size() == most) {
            break;
        }
    }
    return complete;
}

// The step folder that `latest` names; empty where it is no file of the one line that commit() writes.
std::string read_latest(const fs::path& latest) {
    constexpr i64 longest = 64;
    if (!fs::is_regular_file(latest)) {
        return {};
    }
    std::string name = read_file(latest.string(), longest);
    if (name.ends_with('\n')) {
        name.pop_back();
    }
    return step_of(name) ? (latest.parent_path() / name).string() : std::string();
}

}  // namespace

std::vector<std::string> complete_checkpoints(const std::string& directory, std::vector<std::string>& passed_over) {
    return newest_complete(directory, std::numeric_limits<std::size_t>::max(), passed_over);
}

std::optional<std::string> find_latest(const std::string& directory, std::vector<std::string>& passed_over) {
    const std::vector<std::string> found = newest_complete(directory, 1, passed_over);
    return found.empty() ? std::nullopt : std::optional(found.front());
}

std::string resolve_checkpoint(const std::string& path) {
    require(!path.empty(), ExitCode::usage,
            "the path of a checkpoint is empty; would be right: a step folder, or a run's");
    fs::path place = fs::absolute(path).lexically_normal();
    if (!place.has_filename()) {
        place = place.parent_path();  // "folder/" means the folder
    }
    if (place.filename() == master_name) {
        return place.parent_path().string();
    }
    if (place.filename() == "latest") {
        if (const std::string named = read_latest(place); !named.empty()) {
            return named;
        }
    }
    if (step_of(place.filename().string()) || file_exists((place / manifest_name).string())) {
        return place.string();
    }
    std::vector<std::string> passed_over;
    for (const fs::path& folder : {place, place / "checkpoints"}) {
        if (const auto found = find_latest(folder.string(), passed_over)) {
            return *found;
        }
    }
    std::string message = fmt::format(
        "{}: no complete checkpoint here: a step-NNNNNNNN folder, a checkpoints folder or "
        "a run's folder is wanted",
        path);
    for (const std::string& line : passed_over) {
        message += "; " + line;
    }
    fail(ExitCode::checkpoint, message);
}

std::vector<std::string> unfinished_saves(const std::string& directory, i64 step) {
    std::vector<std::string> lines;
    for (const std::string& name : is_directory(directory) ? list_directory(directory) : std::vector<std::string>()) {
        const std::size_t mark = name.find(temporary_mark);
        const std::optional<i64> of = step_of(name.substr(0, mark));
        if (owner_of(name) && of && *of > step) {
            const std::string reason = incomplete_reason(join_path(directory, name));
            lines.push_back(fmt::format("{} is a save that did not finish: {}", name,
                                        reason.empty() ? "it was not renamed yet" : reason));
        }
    }
    return lines;
}

std::vector<std::string> remove_stale(const Disk& disk, const std::string& directory) {
    std::vector<std::string> lines;
    for (const std::string& name : list_directory(directory)) {
        const auto owner = owner_of(name);
        const std::string path = join_path(directory, name);
        if (owner && !can_finish(*owner, path)) {
            disk.remove_tree(path);
            lines.push_back(fmt::format("removed {}: a save by process {} on {} that did not finish", path, owner->pid,
                                        owner->host));
        }
    }
    return lines;
}

std::string abandoned_name(const std::string& path) {
    std::random_device random;
    return fmt::format("{}.abandoned-{:08x}", path, random());
}

std::vector<std::string> set_aside_later(const Disk& disk, const std::string& directory, i64 step) {
    std::vector<std::string> lines;
    for (const auto& [candidate, path] : step_folders(directory)) {
        if (candidate > step && incomplete_reason(path).empty()) {
            const std::string aside = abandoned_name(path);
            disk.rename(path, aside);
            lines.push_back(
                fmt::format("{} is of a run that went on from an earlier step: set aside as {}", path, aside));
        }
    }
    return lines;
}

void prune(const Disk& disk, const std::string& directory, i64 step, const Retention& keep) {
    if (keep.last <= 0) {
        return;
    }
    const i64 every = fault_active("keep_every_forgotten") ? 0 : keep.every;
    i64 kept = 0;
    for (const auto& [candidate, path] : step_folders(directory)) {
        if (candidate > step || !incomplete_reason(path).empty()) {
            continue;
        }
        if (kept < keep.last) {
            ++kept;
            continue;
        }
        if (every > 0 && candidate % every == 0) {
            continue;
        }
        const std::string aside = join_path(directory, temporary_name(candidate));
        disk.rename(path, aside);
        disk.remove_tree(aside);
    }
}

}  // namespace ogrom
