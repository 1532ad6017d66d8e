#include "src/device/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sched.h>
#include <sstream>
#include <string>
#include <unistd.h>

#include "kernels/cuda/runtime.h"
#include "kernels/cuda/scratch.h"

namespace ogrom {
namespace {

// Value of a "Name:   123 kB" line, in bytes; 0 when absent.
i64 kib_line(const std::string& path, const std::string& name) {
    std::ifstream in(path);
    std::string line;
    while (std::getline(in, line)) {
        if (line.rfind(name + ":", 0) == 0) {
            return std::stoll(line.substr(name.size() + 1)) * 1024;
        }
    }
    return 0;
}

constexpr i64 no_limit = std::numeric_limits<i64>::max();

// One number of a cgroup file; "max" or an absent file means no limit.
i64 cgroup_number(const std::string& path, i64 absent) {
    std::ifstream in(path);
    std::string word;
    if (!(in >> word) || word == "max") {
        return absent;
    }
    // Version 1 writes "no limit" as a number near 2^63.
    const unsigned long long value = std::stoull(word);
    return value > static_cast<unsigned long long>(no_limit / 2) ? absent : static_cast<i64>(value);
}

i64 left_in(const std::string& limit_file, const std::string& used_file) {
    const i64 limit = cgroup_number(limit_file, no_limit);
    return limit == no_limit ? no_limit : std::max<i64>(0, limit - cgroup_number(used_file, 0));
}

// Every ancestor of the cgroup may set a limit.
i64 cgroup_left() {
    std::ifstream in("/proc/self/cgroup");
    std::string line;
    i64 left = no_limit;
    while (std::getline(in, line)) {
        const std::size_t colon = line.rfind(':');
        const bool version2 = line.rfind("0::", 0) == 0;
        if (colon == std::string::npos || (!version2 && line.find(":memory:") == std::string::npos)) {
            continue;
        }
        const std::string root = version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
        std::string path = line.substr(colon + 1);
        while (true) {
            const std::string folder = root + (path == "/" ? "" : path);
            left = std::min(left, version2
                                      ? left_in(folder + "/memory.max", folder + "/memory.current")
                                      : left_in(folder + "/memory.limit_in_bytes", folder + "/memory.usage_in_bytes"));
            const std::size_t slash = path.rfind('/');
            if (slash == std::string::npos || path.empty()) {
                break;
            }
            path.resize(slash);
        }
    }
    return left;
}

}  // namespace

ResidentMemory resident_memory() {
    std::ifstream in("/proc/self/status");
    ResidentMemory memory;
    std::string line;
    while (std::getline(in, line)) {
        std::istringstream words(line);
        std::string name;
        i64 kib = 0;
        if (!(words >> name >> kib)) {
            continue;
        }
        if (name == "RssAnon:") {
            memory.anonymous = kib * 1024;
        } else if (name == "RssFile:") {
            memory.file = kib * 1024;
        } else if (name == "RssShmem:") {
            memory.shared = kib * 1024;
        } else if (name == "VmHWM:") {
            memory.peak = kib * 1024;
        }
    }
    return memory;
}

void reset_peak() {
    // 5 = reset the peak (proc(5)); kernels without it keep the older, larger peak.
    std::ofstream("/proc/self/clear_refs") << "5";
}

i64 free_memory() {
    return std::min(kib_line("/proc/meminfo", "MemAvailable"), cgroup_left());
}

GpuMemory gpu_memory(const Device& device) {
    if (!device.is_gpu()) {
        return {};
    }
    const cuda::MemoryInfo info = cuda::memory_info();
    return {info.total - info.free, cuda::scratch_bytes()};
}

std::string affinity_mask() {
    const auto cores = static_cast<std::size_t>(std::max<long>(1, sysconf(_SC_NPROCESSORS_CONF)));
    cpu_set_t set;
    CPU_ZERO(&set);
    const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
    std::string mask(cores, '0');
    for (std::size_t core = 0; core < cores; ++core) {
        if (!known || (core < CPU_SETSIZE && CPU_ISSET(core, &set))) {
            mask[core] = '1';
        }
    }
    return mask;
}

double seconds_since_launch() {
    std::ifstream stat("/proc/self/stat");
    std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
    // Field 22 counts from the process id; the name in parentheses may hold blanks.
    std::istringstream words(text.substr(std::min(text.size(), text.rfind(')') + 1)));
    std::string word;
    for (int field = 3; field <= 22; ++field) {
        words >> word;
    }
    std::ifstream uptime("/proc/uptime");
    double up = 0;
    uptime >> up;
    const double started = word.empty() ? up : std::stod(word) / static_cast<double>(sysconf(_SC_CLK_TCK));
    return std::max(0.0, up - started);
}

}  // namespace ogrom
