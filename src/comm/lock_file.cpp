#include "src/comm/lock_file.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "kernels/common/fault.h"

#include "src/base/host.h"
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

// A lock file being taken.
struct Taking {
    const std::string& path;
    const LockWords& words;
    [[noreturn]] void fail_to(std::string_view action, int number) const {
        const bool full = number == ENOSPC || number == EDQUOT;
        fail(ExitCode::checkpoint,
             fmt::format("{}: cannot {}: {}; {}", path, action, std::generic_category().message(number),
                         full ? "free space there or choose another folder" : words.need));
    }
};

// What the kernel says of the lock; where the file system knows no locks, the reason is in `number`.
enum class Verdict { ours, taken, no_locks };
Verdict ask_kernel(int descriptor, const Taking& taking, int& number) {
    if (fault_active("lease_not_asked")) {
        return Verdict::ours;
    }
    int status = 0;
    do {
        status = flock(descriptor, LOCK_EX | LOCK_NB);
    } while (status != 0 && errno == EINTR);
    if (status == 0) {
        return Verdict::ours;
    }
    number = errno;
    constexpr int kernel_not_supported = 524;  // ENOTSUPP, which has no name outside the kernel: Lustre, some NFS
    if (number == EWOULDBLOCK) {
        return Verdict::taken;
    }
    if (number != ENOLCK && number != EOPNOTSUPP && number != ENOSYS && number != kernel_not_supported) {
        taking.fail_to("lock", number);
    }
    return Verdict::no_locks;
}

bool lives_here(const Holder& holder) {
    return holder.pid != 0 && holder.host == host_name() && holder.pid != getpid() &&
           !process_gone(holder.pid, holder.started);
}

void write_holder(int descriptor, const Taking& taking) {
    const std::string text = fmt::format("{} {} {} {}\n", host_name(), getpid(), process_start(getpid()), utc_time());
    if (ftruncate(descriptor, 0) != 0) {
        taking.fail_to("empty", errno);
    }
    const ssize_t written = pwrite(descriptor, text.data(), text.size(), 0);
    if (written != static_cast<ssize_t>(text.size())) {
        const int number = written < 0 ? errno : ENOSPC;
        unlink(taking.path.c_str());  // while it is locked, as its holder would
        taking.fail_to("write", number);
    }
}

// Whether `path` is the file that is open; what is known of that in `opened`.
bool names(const std::string& path, int descriptor, struct stat& opened) {
    struct stat named {};
    return fstat(descriptor, &opened) == 0 && stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
}

}  // namespace

LockFile::LockFile(std::string path, const LockWords& words) : path_(std::move(path)) {
    while (!take(words)) {
    }
}

// False when the file was removed between opening and locking it: its holder has just ended.
bool LockFile::take(const LockWords& words) {
    const Taking taking{path_, words};
    file_.reset(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
    if (!file_) {
        taking.fail_to("create", errno);
    }
    Holder holder = read_holder(file_.get());
    int number = 0;
    const Verdict verdict = ask_kernel(file_.get(), taking, number);
    if (verdict == Verdict::taken || (verdict == Verdict::no_locks && lives_here(holder))) {
        for (int i = 0; i < 50 && holder.pid == 0; ++i) {  // it has locked the file, but not written its name yet
            usleep(10'000);
            holder = read_holder(file_.get());
        }
        file_.reset();
        fail(ExitCode::usage, fmt::format("{} is in use by {}: {}", words.subject, holder.text(), words.refusal));
    }
    struct stat opened {};
    if (!names(path_, file_.get(), opened)) {
        return false;
    }
    if (opened.st_size > 0) {
        const bool told = verdict == Verdict::ours || holder.host == host_name();
        replaced_ = fmt::format("{}: {} {}; replaced", path_, read_holder(file_.get()).text(),
                                told ? "ended without removing it" : "may still live: make sure that it has ended");
    }
    if (verdict == Verdict::no_locks) {
        unlocked_ =
            fmt::format("{}: this file system has no locks (errno {}): a second holder is refused on this host only",
                        path_, number);
    }
    write_holder(file_.get(), taking);
    return true;
}

void LockFile::require_named() const {
    struct stat opened {
    }, named{};
    const bool seen = fstat(file_.get(), &opened) == 0 && stat(path_.c_str(), &named) == 0;
    if (!seen && errno != ENOENT && errno != ENOTDIR) {  // says nothing of the folder: may be over at the next try
        fail(ExitCode::checkpoint,
             fmt::format("{}: cannot be looked at: {}", path_, std::generic_category().message(errno)));
    }
    require(seen && opened.st_ino == named.st_ino && opened.st_dev == named.st_dev, ExitCode::usage,
            fmt::format("{}: is not the file that this process locked: the folder was moved or removed while it was in "
                        "use, and may be another's now; nothing more is written there",
                        path_));
}

LockFile::~LockFile() {
    struct stat opened {};
    if (file_ && names(path_, file_.get(), opened)) {
        unlink(path_.c_str());  // while it is locked: whoever opened it meanwhile sees that it has no name any more
    }
}

}  // namespace ogrom
