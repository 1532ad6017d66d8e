#include "src/base/file.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <thread>
#include <unistd.h>

#include "kernels/common/fault.h"

#include "src/base/host.h"
#include "src/base/kill_point.h"

namespace ogrom {

namespace {

constexpr i64 largest_call = i64{1} << 30;  // one read or write call stays below 2 GiB

std::string reason(int number) {
    // strerror is not thread-safe; std::generic_category is.
    return fmt::format("{} (errno {})", std::generic_category().message(number), number);
}

[[noreturn]] void fail_path(ExitCode code, std::string_view action, const std::string& path, int number) {
    std::string message = fmt::format("{}: cannot {}: {}", path, action, reason(number));
    if (number == ENOSPC || number == EDQUOT) {
        message += "; free space there or choose another folder";
    } else if (number == EACCES || number == EROFS) {
        message += "; check the permissions of the file and its folder";
    }
    throw FileError(code, message, number);
}

FileDescriptor open_or_fail(const std::string& path, int flags, std::string_view action, ExitCode code) {
    int descriptor = -1;
    do {
        descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) {
        fail_path(code, action, path, errno);
    }
    return FileDescriptor(descriptor);
}

int open_flags(Create create) {
    switch (create) {
        case Create::exclusive:
            return O_WRONLY | O_CREAT | O_EXCL;
        case Create::truncate:
            return O_WRONLY | O_CREAT | O_TRUNC;
        case Create::append:
            return O_WRONLY | O_CREAT | O_APPEND;
    }
    return O_WRONLY;
}

void fsync_or_fail(int descriptor, const std::string& path, ExitCode code) {
    int status = 0;
    do {
        status = ::fsync(descriptor);
    } while (status != 0 && errno == EINTR);
    if (status != 0) {
        fail_path(code, "flush to disk", path, errno);
    }
}

// Removes the temporary file unless the rename has made it the real one.
class TemporaryFile {
public:
    explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    ~TemporaryFile() {
        if (!kept_) {
            ::unlink(path_.c_str());
        }
    }
    void keep() { kept_ = true; }
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
    bool kept_ = false;
};

}  // namespace

bool FileError::absent() const noexcept {
    return number_ == ENOENT || number_ == ENOTDIR;
}

void FileDescriptorTraits::destroy(int descriptor) noexcept {
    ::close(descriptor);
}

FileWriter::FileWriter(std::string path, Create create, ExitCode code)
    : path_(std::move(path)), code_(code), descriptor_(open_or_fail(path_, open_flags(create), "create", code)) {
    kill_point("create", path_);
}

void FileWriter::write(std::string_view bytes) {
    while (!bytes.empty()) {
        const std::size_t size =
            kill_limit(path_, written_, std::min(bytes.size(), static_cast<std::size_t>(largest_call)));
        const ssize_t done = ::write(descriptor_.get(), bytes.data(), size);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            fail_path(code_, "write", path_, errno);
        }
        bytes.remove_prefix(static_cast<std::size_t>(done));
        written_ += done;
        kill_point("write", path_, written_);
    }
}

bool FileWriter::bypass_cache(bool on) {
    const int flags = ::fcntl(descriptor_.get(), F_GETFL);
    return flags >= 0 && ::fcntl(descriptor_.get(), F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

void FileWriter::sync() {
    kill_point("sync_file", path_);
    fsync_or_fail(descriptor_.get(), path_, code_);
}

bool FileWriter::lock(int patience_ms) {
    for (int waited_ms = 0;; ++waited_ms) {
        if (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) == 0) {
            return true;
        }
        if ((errno != EWOULDBLOCK && errno != EINTR) || waited_ms >= patience_ms) {
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

void FileWriter::close() {
    kill_point("close", path_);
    // Linux frees the descriptor even when close fails, so it is given up before the call. EINTR is no fault there.
    if (::close(descriptor_.release()) != 0 && errno != EINTR) {
        fail_path(code_, "close", path_, errno);
    }
}

std::string read_file(const std::string& path, i64 max_bytes, ExitCode code) {
    // O_NONBLOCK: the open of a pipe that nobody writes to would never return.
    const FileDescriptor descriptor = open_or_fail(path, O_RDONLY | O_NONBLOCK, "open", code);
    struct stat status {};
    if (::fstat(descriptor.get(), &status) != 0) {
        fail_path(code, "stat", path, errno);
    }
    if (S_ISDIR(status.st_mode)) {
        fail(code, fmt::format("{}: is a folder; a file is wanted", path));
    }
    if (!S_ISREG(status.st_mode)) {
        fail(code, fmt::format("{}: is a pipe, socket or device, which cannot be read again; a file is wanted", path));
    }
    if (status.st_size > max_bytes) {
        fail(code, fmt::format("{}: {} bytes; at most {} are accepted here", path, i64{status.st_size}, max_bytes));
    }
    std::string bytes;
    // One byte more than promised is asked for: a file that grows (or a pipe) is noticed, not cut.
    constexpr i64 piece = i64{1} << 20;
    bytes.reserve(static_cast<std::size_t>(status.st_size));
    for (;;) {
        const i64 have = static_cast<i64>(bytes.size());
        const i64 want = std::min({std::max(i64{status.st_size} - have, i64{0}) + 1, largest_call, piece});
        bytes.resize(static_cast<std::size_t>(have + want));
        const ssize_t done = ::read(descriptor.get(), bytes.data() + have, static_cast<std::size_t>(want));
        const int number = errno;
        bytes.resize(static_cast<std::size_t>(have + std::max<i64>(done, 0)));
        if (done < 0 && number == EINTR) {
            continue;
        }
        if (done < 0) {
            fail_path(code, "read", path, number);
        }
        if (done == 0) {
            return bytes;
        }
        if (have + done > max_bytes) {
            fail(code, fmt::format("{}: more than {} bytes; no more are accepted here", path, max_bytes));
        }
    }
}

void write_file_atomic(const std::string& path, std::string_view bytes, ExitCode code) {
    TemporaryFile temporary(fmt::format("{}.{}-{}.tmp", path, host_name(), ::getpid()));
    FileWriter writer(temporary.path(), Create::truncate, code);
    writer.write(fault_active("atomic_write_short") ? bytes.substr(0, bytes.size() / 2) : bytes);
    writer.sync();
    writer.close();
    rename_durable(temporary.path(), path, code);
    temporary.keep();
}

void remove_left_over(const std::string& path, ExitCode code) {
    const std::string start = std::filesystem::path(path).filename().string() + ".";
    constexpr std::string_view ending = ".tmp", digits = "0123456789";
    for (const std::string& name : list_directory(parent_path(path), code)) {
        if (name.size() <= start.size() + ending.size() || !name.starts_with(start) || !name.ends_with(ending)) {
            continue;
        }
        const std::string writer = name.substr(start.size(), name.size() - start.size() - ending.size());
        const std::size_t process = writer.rfind('-') + 1;  // 0 where there is no host
        if (process < writer.size() && writer.find_first_not_of(digits, process) == std::string::npos) {
            remove_file(join_path(parent_path(path), name), code);
        }
    }
}

bool create_file_exclusive(const std::string& path, std::string_view bytes, ExitCode code) {
    int descriptor = -1;
    do {
        descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0 && errno == EEXIST) {
        return false;
    }
    if (descriptor < 0) {
        fail_path(code, "create", path, errno);
    }
    FileDescriptor made(descriptor);
    made.reset();
    FileWriter writer(path, Create::append, code);
    writer.write(bytes);
    writer.sync();
    writer.close();
    return true;
}

void sync_file(const std::string& path, ExitCode code) {
    const FileDescriptor descriptor = open_or_fail(path, O_RDONLY, "open", code);
    fsync_or_fail(descriptor.get(), path, code);
}

void sync_directory(const std::string& path, ExitCode code) {
    kill_point("sync_folder", path);
    const FileDescriptor descriptor = open_or_fail(path, O_RDONLY | O_DIRECTORY, "open the folder", code);
    // Some network file systems have no fsync of folders and say EINVAL; their rename is synchronous.
    if (::fsync(descriptor.get()) != 0 && errno != EINVAL) {
        fail_path(code, "flush the folder", path, errno);
    }
}

void rename_durable(const std::string& from, const std::string& to, ExitCode code) {
    kill_point("rename", to);
    if (::rename(from.c_str(), to.c_str()) != 0) {
        fail_path(code, fmt::format("rename to {}", to), from, errno);
    }
    sync_directory(parent_path(to), code);
    if (parent_path(from) != parent_path(to)) {
        sync_directory(parent_path(from), code);
    }
}

void make_directories(const std::string& path, ExitCode code) {
    kill_point("make_folder", path);
    std::error_code status;
    std::filesystem::create_directories(path, status);
    if (status) {
        fail_path(code, "make the folder", path, status.value());
    }
    if (!is_directory(path)) {
        fail_path(code, "make the folder", path, ENOTDIR);
    }
}

std::vector<std::string> list_directory(const std::string& path, ExitCode code) {
    std::error_code status;
    std::vector<std::string> names;
    std::filesystem::directory_iterator entry(path, status);
    for (; !status && entry != std::filesystem::directory_iterator(); entry.increment(status)) {
        names.push_back(entry->path().filename().string());
    }
    if (status) {
        fail_path(code, "list the folder", path, status.value());
    }
    std::sort(names.begin(), names.end());
    return names;
}

i64 file_size(const std::string& path, ExitCode code) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        fail_path(code, "stat", path, errno);
    }
    return i64{status.st_size};
}

bool file_exists(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0;
}

bool file_surely_exists(const std::string& path, ExitCode code) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) {
        return true;
    }
    if (errno != ENOENT && errno != ENOTDIR) {
        fail_path(code, "stat", path, errno);
    }
    return false;
}

bool is_directory(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool is_special(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

bool same_place(const std::string& a, const std::string& b) {
    namespace fs = std::filesystem;
    std::error_code fault;
    if (fs::equivalent(a, b, fault)) {
        return true;
    }
    // What is not there yet has no inode; the folder it would stand in may have one.
    const fs::path first = fs::absolute(a, fault).lexically_normal(),
                   second = fs::absolute(b, fault).lexically_normal();
    return first.filename() == second.filename() &&
           (fs::equivalent(first.parent_path(), second.parent_path(), fault) ||
            fs::weakly_canonical(first, fault) == fs::weakly_canonical(second, fault));
}

void remove_file(const std::string& path, ExitCode code) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
        fail_path(code, "remove", path, errno);
    }
}

void remove_tree(const std::string& path, ExitCode code) {
    kill_point("remove", path);
    std::error_code status;
    std::filesystem::remove_all(path, status);
    if (status) {
        fail_path(code, "remove the folder", path, status.value());
    }
}

i64 free_bytes(const std::string& folder, ExitCode code) {
    struct statvfs status {};
    if (::statvfs(folder.c_str(), &status) != 0) {
        fail_path(code, "ask for the free space of", folder, errno);
    }
    return static_cast<i64>(status.f_bavail) * static_cast<i64>(status.f_frsize);
}

std::string parent_path(const std::string& path) {
    const std::string parent = std::filesystem::path(path).parent_path().string();
    return parent.empty() ? "." : parent;
}

std::string join_path(const std::string& folder, const std::string& name) {
    return (std::filesystem::path(folder) / name).string();
}

}  // namespace ogrom
