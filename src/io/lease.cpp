#include "src/io/lease.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "kernels/common/fault.h"

#include "src/base/timer.h"
#include "src/comm/control.h"

namespace ogrom {
namespace {

// First line of the file: "<host> <pid> <start of the process in ticks> <UTC>".
struct Holder {
    std::string host, since;
    int pid = 0;
    u64 started = 0;
    [[nodiscard]] std::string text() const {
        return pid == 0 ? "a process that left no name" : fmt::format("process {} on {} since {}", pid, host, since);
    }
};

Holder read_holder(int descriptor) {
    char bytes[512] = {};
    Holder holder;
    if (pread(descriptor, bytes, sizeof(bytes) - 1, 0) > 0) {
        std::istringstream in(bytes);
        if (!(in >> holder.host >> holder.pid >> holder.started >> holder.since)) {
            return {};
        }
    }
    return holder;
}

[[noreturn]] void fail_lock(const std::string& path, std::string_view action, int number) {
    fail(ExitCode::checkpoint, fmt::format("{}: cannot {}: {}; run.output must be a folder that this user may write to",
                                           path, action, std::generic_category().message(number)));
}

// The kernel's word; without one (a file system that knows no locks) the holder's process, if it is one of this host.
bool held_by_another(int descriptor, const Holder& holder, const std::string& path) {
    if (fault_active("lease_not_asked")) {
        return false;
    }
    int status = 0;
    do {
        status = flock(descriptor, LOCK_EX | LOCK_NB);
    } while (status != 0 && errno == EINTR);
    if (status == 0) {
        return false;
    }
    if (errno == EWOULDBLOCK) {
        return true;
    }
    if (errno != ENOLCK && errno != EOPNOTSUPP && errno != ENOSYS) {
        fail_lock(path, "lock", errno);
    }
    return holder.pid != 0 && holder.host == host_name() && holder.pid != getpid() &&
           !process_gone(holder.pid, holder.started);
}

void write_holder(int descriptor, const std::string& path) {
    const std::string text = fmt::format("{} {} {} {}\n", host_name(), getpid(), process_start(getpid()), utc_time());
    if (ftruncate(descriptor, 0) != 0) {
        fail_lock(path, "empty", errno);
    }
    const ssize_t written = pwrite(descriptor, text.data(), text.size(), 0);
    if (written != static_cast<ssize_t>(text.size())) {
        fail_lock(path, "write", written < 0 ? errno : ENOSPC);
    }
}

}  // namespace

std::string host_name() {
    char name[256] = {};
    return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

Lease::Lease(const std::string& folder) : path_(join_path(folder, "run.lock")) {
    while (!take(folder)) {
    }
}

// False when the file was removed between opening and locking it: its holder has just ended.
bool Lease::take(const std::string& folder) {
    file_.reset(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!file_) {
        fail_lock(path_, "create", errno);
    }
    Holder holder = read_holder(file_.get());
    if (held_by_another(file_.get(), holder, path_)) {
        for (int i = 0; i < 50 && holder.pid == 0; ++i) {  // it has locked the file, but not written its name yet
            usleep(10'000);
            holder = read_holder(file_.get());
        }
        file_.reset();
        fail(ExitCode::usage,
             fmt::format("{} is in use by {}: two runs cannot write one folder; wait for that run or end it, or choose "
                         "another run.name or run.output",
                         folder, holder.text()));
    }
    struct stat opened {
    }, named{};
    if (fstat(file_.get(), &opened) != 0 || stat(path_.c_str(), &named) != 0 || opened.st_ino != named.st_ino ||
        opened.st_dev != named.st_dev) {
        return false;
    }
    if (opened.st_size > 0) {
        replaced_ = fmt::format("{}: {} ended without removing it; replaced", path_, read_holder(file_.get()).text());
    }
    write_holder(file_.get(), path_);
    return true;
}

Lease::~Lease() {
    if (file_) {
        unlink(path_.c_str());  // while it is locked: whoever opened it meanwhile sees that it has no name any more
    }
}

}  // namespace ogrom
