#include "src/io/output_folder.h"

#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <random>
#include <signal.h>
#include <unistd.h>

#include "src/base/host.h"
#include "src/base/log.h"
#include "src/base/text.h"

namespace ogrom {
namespace {

namespace fs = std::filesystem;

std::string start_of_name(const std::string& target) {
    return fmt::format("{}.tmp-{}-", fs::path(target).filename().string(), host_name());
}

void remove_left_behind(const Disk& disk, const std::string& target) {
    const std::string start = start_of_name(target), folder = parent_path(target);
    for (const std::string& name : list_directory(folder)) {
        if (!name.starts_with(start)) {
            continue;
        }
        const std::string owner = name.substr(start.size(), name.find('-', start.size()) - start.size());
        const std::optional<i64> pid = parse_integer(owner);
        if (pid && *pid > 0 && *pid < (i64{1} << 31) && ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH) {
            disk.remove_tree(join_path(folder, name));
            log_info("removed {}: of process {}, which did not finish", join_path(folder, name), *pid);
        }
    }
}

}  // namespace

OutputFolder::OutputFolder(const Disk& disk, const std::string& target) : disk_(disk) {
    require(!target.empty(), ExitCode::usage, "--out is empty; would be right: the name of a folder to be made");
    fs::path place = fs::absolute(target).lexically_normal();
    if (!place.has_filename()) {
        place = place.parent_path();  // "folder/" means the folder
    }
    target_ = place.string();
    require(!fs::is_symlink(target_), ExitCode::usage,
            fmt::format("{}: is a symbolic link, a folder is made under a new name; would be right: the path that it "
                        "stands for, or a name that is free",
                        target_));
    const bool taken = file_surely_exists(target_) && (!is_directory(target_) || !list_directory(target_).empty());
    require(!taken, ExitCode::usage,
            fmt::format("{}: is there already and is not overwritten; would be right: a name that is free", target_));
    disk_.make_folders(parent_path(target_));
    remove_left_behind(disk_, target_);
    std::random_device random;
    temporary_ =
        join_path(parent_path(target_), fmt::format("{}{}-{:08x}", start_of_name(target_), ::getpid(), random()));
    disk_.make_folders(temporary_);
}

OutputFolder::~OutputFolder() {
    if (!temporary_.empty()) {
        try {
            disk_.remove_tree(temporary_);
        } catch (const Error& error) {
            log_warning("{}", error.what());
        }
    }
}

void OutputFolder::require_room(i64 bytes) const {
    const i64 available = free_bytes(temporary_);
    require(bytes <= available, ExitCode::checkpoint,
            fmt::format("{}: needs {} bytes ({}), {} bytes ({}) are free: free space or choose another --out", target_,
                        bytes, human_bytes(bytes), available, human_bytes(available)));
}

void OutputFolder::commit() {
    disk_.sync_folder(temporary_);
    disk_.rename(temporary_, target_);
    temporary_.clear();
}

}  // namespace ogrom
