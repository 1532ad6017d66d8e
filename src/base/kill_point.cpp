#include "src/base/kill_point.h"

#ifdef OGROM_FAULTS

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <unistd.h>

namespace ogrom {
namespace {

namespace fs = std::filesystem;

struct Place {
    std::string rank, victim, operation, name;
    i64 step = -1, bytes = -1, nth = 1;
};

const Place& wanted() {
    static const Place place = [] {
        Place read;
        const char* text = std::getenv("OGROM_KILL_AT");
        std::istringstream in(text == nullptr ? "" : text);
        in >> read.rank >> read.victim >> read.step >> read.operation >> read.name;
        if (i64 value = 0; in >> value) {
            read.bytes = value;
            read.nth = in >> value ? value : 1;
        }
        return read;
    }();
    return place;
}

std::string own_rank() {
    const char* text = std::getenv("OMPI_COMM_WORLD_RANK");
    return text == nullptr ? "0" : text;
}

// The step of a temporary folder in `path`; -1 without one.
i64 step_in(const std::string& path) {
    constexpr std::string_view start = "step-";
    const std::size_t mark = path.find(".tmp-"), first = path.rfind(start, mark);
    i64 step = -1;
    if (mark != std::string::npos && first != std::string::npos) {
        std::from_chars(path.data() + first + start.size(), path.data() + mark, step);
    }
    return step;
}

// Saves come in ascending order; the removal of older ones belongs to the save that lets them go.
i64 step_under_way(const std::string& path) {
    static std::atomic<i64> newest{-1};
    i64 seen = newest.load();
    const i64 step = step_in(path);
    while (step > seen && !newest.compare_exchange_weak(seen, step)) {
    }
    return newest.load();
}

std::string plain_name(const std::string& path) {
    std::string name = fs::path(path).filename().string();
    for (const std::string_view mark : {".tmp-", ".abandoned-"}) {
        if (const std::size_t at = name.find(mark); at != std::string::npos) {
            name.resize(at + mark.size() - 1);
        }
    }
    return name.starts_with("latest.") ? "latest.tmp" : name;
}

std::string text_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The rank of a process that the same launcher has started; empty for any other process.
std::string rank_of(const fs::path& process) {
    const std::string stat = text_of(process / "stat"), environment = '\0' + text_of(process / "environ");
    const std::size_t behind_name = stat.rfind(')');
    const std::string mark = std::string(1, '\0') + "OMPI_COMM_WORLD_RANK=";
    const std::size_t at = environment.find(mark);
    if (behind_name == std::string::npos || at == std::string::npos) {
        return {};
    }
    std::istringstream in(stat.substr(behind_name + 1));
    std::string state;
    pid_t parent = 0;
    in >> state >> parent;
    return parent == ::getppid() ? std::string(environment.c_str() + at + mark.size()) : std::string();
}

void kill_victims(const std::string& victim) {
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
        const std::string name = entry.path().filename().string();
        if (name.find_first_not_of("0123456789") != std::string::npos || std::stoi(name) == ::getpid()) {
            continue;
        }
        const std::string rank = rank_of(entry.path());
        if (!rank.empty() && (victim == "all" || victim == rank)) {
            ::kill(std::stoi(name), SIGKILL);
        }
    }
    if (victim == "all" || victim == own_rank()) {
        ::kill(::getpid(), SIGKILL);
    }
}

bool is_place(const std::string& operation, const std::string& path) {
    const i64 step = step_under_way(path);
    const Place& place = wanted();
    return step == place.step && operation == place.operation && plain_name(path) == place.name &&
           own_rank() == place.rank;
}

}  // namespace

void kill_point(const std::string& operation, const std::string& path, i64 written) {
    static std::atomic<i64> times{0};
    if (wanted().step < 0 || !is_place(operation, path) || (operation == "write" && written != wanted().bytes) ||
        ++times != wanted().nth) {
        return;
    }
    if (operation == "remove" && wanted().bytes > 0) {
        fs::remove(fs::directory_iterator(path)->path());
    }
    kill_victims(wanted().victim);
}

std::size_t kill_limit(const std::string& path, i64 position, std::size_t size) {
    const i64 left = wanted().bytes - position;
    const bool within = left > 0 && left < static_cast<i64>(size);
    return wanted().step >= 0 && within && is_place("write", path) ? static_cast<std::size_t>(left) : size;
}

}  // namespace ogrom

#endif
