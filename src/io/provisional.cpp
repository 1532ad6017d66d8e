#include "src/io/provisional.h"

#include <algorithm>
#include <filesystem>

#include "src/base/file.h"

namespace ogrom {

namespace fs = std::filesystem;

Provisional::Provisional(const std::string& folder) : folder_(folder) {
    for (fs::path path = fs::absolute(folder).lexically_normal(); !path.empty() && !fs::exists(path);
         path = path.parent_path()) {
        if (path.has_filename()) {  // "folder/" names its folder twice
            new_folders_.insert(new_folders_.begin(), path.string());
        }
    }
    make_directories(folder);
}

Provisional::~Provisional() {
    std::error_code ignored;  // a file that stays behind is no reason to hide why the run was refused
    for (const std::string& file : new_files_) {
        fs::remove(file, ignored);
    }
    for (auto folder = new_folders_.rbegin(); folder != new_folders_.rend(); ++folder) {
        fs::remove(*folder, ignored);  // only when it is empty
    }
}

void Provisional::add(const std::string& name) {
    const std::string path = join_path(folder_, name);
    if (!file_exists(path) && std::find(new_files_.begin(), new_files_.end(), path) == new_files_.end()) {
        new_files_.push_back(path);
    }
}

void Provisional::keep() {
    new_folders_.clear();
    new_files_.clear();
}

}  // namespace ogrom
