// A library for LD_PRELOAD: file system calls fail as a test says. OGROM_PRELOAD="RANK CALL PATTERN ERRNO FIRST COUNT",
// several of them separated by ';': on rank RANK (or *), CALL (open, write, fsync, close, rename, unlink, mkdir, flock,
// statvfs) on a path that has the shell pattern PATTERN in it returns ERRNO, from the FIRST such call on (1 is the
// first), COUNT times (0: for ever). A write that fails has written half of its bytes to the disk before, as on one
// that fills up. statvfs with ERRNO 0 says that a TiB is free: the room that was there is gone when it is written to. A
// negative ERRNO is no fault: the call takes that many milliseconds longer.
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sstream>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <vector>

namespace {

struct Rule {
    std::string rank, call, pattern;
    int number = 0;
    long first = 1, count = 0;
    std::atomic<long> seen{0};
};

std::vector<Rule*>& rules() {
    static std::vector<Rule*> list = [] {
        std::vector<Rule*> read;
        const char* text = std::getenv("OGROM_PRELOAD");
        std::istringstream in(text == nullptr ? "" : text);
        for (std::string part; std::getline(in, part, ';');) {
            auto* rule = new Rule;  // lives as long as the process
            std::istringstream fields(part);
            if (!(fields >> rule->rank >> rule->call >> rule->pattern >> rule->number >> rule->first >> rule->count)) {
                std::fprintf(stderr, "preload_faults: cannot read the rule '%s'\n", part.c_str());
                std::abort();
            }
            read.push_back(rule);
        }
        return read;
    }();
    return list;
}

// Whether this call is to fail; sets errno.
bool fails(const char* call, const std::string& path) {
    static const std::string rank = [] {
        const char* text = std::getenv("OMPI_COMM_WORLD_RANK");
        return std::string(text == nullptr ? "0" : text);
    }();
    for (Rule* rule : rules()) {
        if (rule->call != call || (rule->rank != "*" && rule->rank != rank) ||
            fnmatch(("*" + rule->pattern + "*").c_str(), path.c_str(), 0) != 0) {
            continue;
        }
        const long nth = ++rule->seen;
        if (nth >= rule->first && (rule->count == 0 || nth < rule->first + rule->count)) {
            if (rule->number < 0) {
                usleep(static_cast<useconds_t>(-rule->number) * 1000);
                return false;
            }
            errno = rule->number;
            return true;
        }
    }
    return false;
}

bool wanted(const char* call) {
    for (const Rule* rule : rules()) {
        if (rule->call == call) {
            return true;
        }
    }
    return false;
}

std::string path_of(int descriptor) {
    char target[4096];
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    const ssize_t size = readlink(link.c_str(), target, sizeof(target));
    return size > 0 ? std::string(target, static_cast<std::size_t>(size)) : std::string();
}

template <class F>
F* real(F*, const char* name) {
    return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}
#define REAL(name) static auto* const next = real(static_cast<decltype(name)*>(nullptr), #name)

mode_t mode_of(int flags, va_list list) {
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(list, int)) : mode_t{0};
}

}  // namespace

extern "C" {

#define OPEN(name)                                                 \
    int name(const char* path, int flags, ...) {                   \
        REAL(name);                                                \
        va_list list;                                              \
        va_start(list, flags);                                     \
        const mode_t mode = mode_of(flags, list);                  \
        va_end(list);                                              \
        return fails("open", path) ? -1 : next(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
#undef OPEN

ssize_t write(int descriptor, const void* bytes, size_t size) {
    REAL(write);
    if (wanted("write") && fails("write", path_of(descriptor))) {
        const int number = errno;
        (void)!next(descriptor, bytes, size / 2);
        errno = number;
        return -1;
    }
    return next(descriptor, bytes, size);
}

int fsync(int descriptor) {
    REAL(fsync);
    return wanted("fsync") && fails("fsync", path_of(descriptor)) ? -1 : next(descriptor);
}

int close(int descriptor) {
    REAL(close);
    if (wanted("close") && fails("close", path_of(descriptor))) {
        const int number = errno;
        next(descriptor);  // Linux frees the descriptor all the same
        errno = number;
        return -1;
    }
    return next(descriptor);
}

int rename(const char* from, const char* to) {
    REAL(rename);
    return fails("rename", to) ? -1 : next(from, to);
}

int unlink(const char* path) {
    REAL(unlink);
    return fails("unlink", path) ? -1 : next(path);
}

int mkdir(const char* path, mode_t mode) {
    REAL(mkdir);
    return fails("mkdir", path) ? -1 : next(path, mode);
}

int flock(int descriptor, int operation) {
    REAL(flock);
    return wanted("flock") && fails("flock", path_of(descriptor)) ? -1 : next(descriptor, operation);
}

int fcntl64(int descriptor, int command, ...) {
    REAL(fcntl64);
    va_list list;
    va_start(list, command);
    void* const argument = va_arg(list, void*);
    va_end(list);
    const bool locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
    return locks && wanted("flock") && fails("flock", path_of(descriptor)) ? -1 : next(descriptor, command, argument);
}

int statvfs(const char* path, struct statvfs* out) {
    REAL(statvfs);
    const bool chosen = fails("statvfs", path);
    if (chosen && errno != 0) {
        return -1;
    }
    const int status = next(path, out);
    if (chosen) {
        out->f_bavail = static_cast<fsblkcnt_t>((1LL << 40) / static_cast<long long>(out->f_frsize));
    }
    return status;
}

}  // extern "C"
