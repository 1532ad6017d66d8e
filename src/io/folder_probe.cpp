// Comes in: an existing or future folder. Goes out: rates and findings, the same on every rank. Each step's work
// happens on its rank alone and ends in a text, so that a rank that fails never leaves the others waiting. Next:
// train/preflight.cpp
#include "src/io/folder_probe.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <optional>
#include <signal.h>
#include <thread>
#include <unistd.h>

#include "kernels/common/fault.h"

#include "src/base/file.h"
#include "src/base/host.h"
#include "src/base/text.h"
#include "src/base/timer.h"
#include "src/io/durable.h"

namespace ogrom {
namespace {

constexpr i64 block_bytes = i64{4} << 20;
constexpr i64 text_bytes = 16384;  // of the file that is replaced: several pages
constexpr int replacements = 20;
constexpr const char* area = "folder";

// The nearest place at or above `path` that exists; a file in its way stands for itself.
std::string existing_place(const std::string& path) {
    std::filesystem::path place = std::filesystem::absolute(path).lexically_normal();
    while (place.has_relative_path() && !file_exists(place.string())) {
        place = place.parent_path();
    }
    return place.string();
}

// Thousands of ranks that look at one file ask less often.
void nap(int ranks) {
    std::this_thread::sleep_for(std::chrono::microseconds(200 + 50 * ranks));
}

// Seconds until condition() holds; nothing after `patience_s`.
std::optional<double> wait_for_sight(double patience_s, int ranks, const std::function<bool()>& condition) {
    const Timer timer;
    while (!condition()) {
        if (timer.seconds() > patience_s) {
            return std::nullopt;
        }
        nap(ranks);
    }
    return timer.seconds();
}

// Folders of processes of this host that are gone.
void remove_left_behind(const std::string& folder, const std::string& start) {
    for (const std::string& name : list_directory(folder)) {
        const std::optional<i64> pid =
            name.starts_with(start) ? parse_integer(name.substr(start.size())) : std::nullopt;
        if (pid && *pid > 0 && *pid < (i64{1} << 31) && ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH) {
            remove_tree(join_path(folder, name));
        }
    }
}

class Probe {
public:
    Probe(Communicator& ranks, std::span<const std::string> hosts, const FolderProbeOptions& options,
          FolderProbe& found)
        : ranks_(ranks), hosts_(hosts), options_(options), found_(found) {}
    ~Probe() {
        if (ranks_.rank() == 0 && !place_.empty()) {
            attempt([&] { remove_tree(place_); });
        }
    }
    Probe(const Probe&) = delete;
    Probe& operator=(const Probe&) = delete;

    bool make_place();
    bool see_place();
    void write();
    void see_files();
    void sync();
    void replace();
    void lock();
    void leave();

private:
    // What failed, or nothing.
    static std::string attempt(const std::function<void()>& work) {
        try {
            work();
        } catch (const std::exception& error) {
            return error.what();
        }
        return {};
    }
    // The first rank's trouble as one finding that counts the others; true where there was none. Collective.
    bool agree(const std::string& mine, const std::string& advice) {
        const std::vector<std::string> all = gather_text(ranks_, mine.substr(0, 1000), "check folder");
        const auto bad = std::count_if(all.begin(), all.end(), [](const std::string& text) { return !text.empty(); });
        for (std::size_t rank = 0; rank < all.size() && bad > 0; ++rank) {
            if (!all[rank].empty()) {
                const std::string more = bad > 1 ? fmt::format(" (and {} more ranks)", bad - 1) : "";
                found_.findings.push_back(
                    fault_of(ExitCode::checkpoint, area,
                             fmt::format("rank {} (host {}): {}{}; {}", rank, hosts_[rank], all[rank], more, advice)));
                break;
            }
        }
        return bad == 0;
    }
    [[nodiscard]] std::optional<double> wait_to_see(const std::function<bool()>& condition) const {
        return wait_for_sight(options_.patience_s, ranks_.size(), condition);
    }
    std::vector<double> gather(double mine) {
        std::vector<double> all(hosts_.size());
        ranks_.all_gather(all.data(), &mine, 1, Dtype::fp64, "check folder").wait();
        return all;
    }
    double largest(double mine) {
        const std::vector<double> all = gather(mine);
        return *std::max_element(all.begin(), all.end());
    }
    [[nodiscard]] std::string file_of(int rank) const { return join_path(place_, fmt::format("rank-{}", rank)); }
    [[nodiscard]] std::string read_generation(int& generation) const;

    Communicator& ranks_;
    std::span<const std::string> hosts_;
    const FolderProbeOptions& options_;
    FolderProbe& found_;
    std::string place_;
};

bool Probe::make_place() {
    std::string place, trouble;
    if (ranks_.rank() == 0) {
        const std::string start = fmt::format(".ogrom-check-{}-", host_name());
        place = join_path(found_.folder, fmt::format("{}{}", start, ::getpid()));
        attempt([&] { remove_left_behind(found_.folder, start); });  // another user's may stay
        trouble = attempt([&] {
            make_directories(place);
            place_ = place;
            sync_directory(found_.folder);
        });
    }
    const bool made = agree(trouble, "runs cannot write there: would be right: a folder that this user may write");
    const std::string agreed = gather_text(ranks_, place, "check folder")[0];
    place_ = made || ranks_.rank() == 0 ? agreed : std::string();
    return made;
}

bool Probe::see_place() {
    std::string trouble;
    double late = 0;
    const std::optional<double> seen = wait_to_see([&] { return is_directory(place_); });
    if (seen) {
        late = *seen;
    } else {
        trouble = fmt::format("{}: made on rank 0, not seen here after {} s", place_, options_.patience_s);
    }
    found_.seen_after_s = std::max(found_.seen_after_s, largest(late));
    return agree(trouble, "checkpoints need one file system for all nodes: would be right: a shared folder");
}

void Probe::write() {
    double bytes = 0, seconds = 0, direct = 0;
    std::string trouble;
    const std::vector<u64> data(static_cast<std::size_t>(block_bytes / 8), 0x5bd1e9955bd1e995U);
    ranks_.barrier("check folder").wait();
    const Timer timer;
    trouble = attempt([&] {
        Disk disk;
        DurableFile file(disk, file_of(ranks_.rank()));
        while (file.position() < options_.bytes_each && (bytes == 0 || timer.seconds() < options_.write_seconds)) {
            file.append(std::as_bytes(std::span(data)));
            bytes = static_cast<double>(file.position());
        }
        file.finish();
        seconds = timer.seconds();
        FileWriter other(join_path(place_, fmt::format("direct-{}", ranks_.rank())), Create::exclusive);
        direct = other.bypass_cache(true) ? 1 : 0;
        other.close();
    });
    agree(trouble, "saves fail there: free space, or choose another folder");
    found_.direct = -largest(-direct) > 0;
    double sum = 0;
    const std::vector<double> all_bytes = gather(bytes), all_seconds = gather(seconds);
    for (std::size_t rank = 0; rank < all_bytes.size(); ++rank) {
        sum += all_bytes[rank];
        found_.rank_bytes_per_s.push_back(all_seconds[rank] > 0 ? all_bytes[rank] / all_seconds[rank] : 0);
    }
    found_.written_bytes = static_cast<i64>(sum);
    const double longest = *std::max_element(all_seconds.begin(), all_seconds.end());
    found_.write_bytes_per_s = longest > 0 ? sum / longest : 0;
}

// Rank 0 sees what all wrote, and the last rank what rank 0 wrote, with all their bytes.
void Probe::see_files() {
    const int last = ranks_.size() - 1;
    double own = 0;
    std::string trouble = attempt([&] { own = static_cast<double>(file_size(file_of(ranks_.rank()))); });
    const std::vector<double> sizes = gather(own);
    double late = 0;
    const auto look_at = [&](int rank) {
        const std::string path = file_of(rank);
        const auto whole = [&] {
            bool same = false;
            attempt([&] { same = static_cast<double>(file_size(path)) == sizes[static_cast<std::size_t>(rank)]; });
            return same;
        };
        const std::optional<double> seen = wait_to_see(whole);
        late = std::max(late, seen.value_or(options_.patience_s));
        if (!seen && trouble.empty()) {
            trouble = fmt::format("{}: written on rank {} (host {}), not seen whole here after {} s", path, rank,
                                  hosts_[static_cast<std::size_t>(rank)], options_.patience_s);
        }
    };
    if (ranks_.rank() == 0) {
        for (int rank = 0; rank <= last && trouble.empty(); ++rank) {
            look_at(rank);
        }
    } else if (ranks_.rank() == last) {
        look_at(0);
    }
    found_.seen_after_s = std::max(found_.seen_after_s, largest(late));
    agree(trouble, "a save would be thought incomplete: would be right: a file system that all nodes see alike");
}

void Probe::sync() {
    agree(attempt([&] { sync_directory(place_); }),
          "a rename may be lost in a power cut: would be right: a file system that can sync folders");
}

// Empty, and the generation, where the file is there and whole.
std::string Probe::read_generation(int& generation) const {
    std::string text;
    try {
        text = read_file(join_path(place_, "replaced"), 2 * text_bytes);
    } catch (const FileError& error) {
        if (error.number() == ESTALE) {
            return {};  // NFS: replaced between open and read; asked again, it is whole
        }
        return error.what();
    }
    const bool whole =
        static_cast<i64>(text.size()) == text_bytes && text.find_first_not_of(text.front()) == std::string::npos;
    if (!whole) {
        return fmt::format("{}: read {} bytes that are neither the old nor the new content",
                           join_path(place_, "replaced"), text.size());
    }
    generation = text.front() - 'A';
    return {};
}

// Rank 0 replaces one file again and again while all others read it: each reads an old or a new content, never another.
void Probe::replace() {
    const std::string path = join_path(place_, "replaced");
    const auto put = [&](int generation) {
        const std::string text(static_cast<std::size_t>(text_bytes), static_cast<char>('A' + generation));
        if (fault_active("check_torn_rename")) {
            FileWriter torn(path, Create::truncate);
            torn.write(text.substr(0, 100));
            torn.close();
            return;
        }
        write_file_atomic(path, text);
    };
    const bool writes = ranks_.rank() == 0;
    std::string trouble = writes ? attempt([&] { put(0); }) : std::string();
    i64 reads = 0;
    int generation = 0;
    ranks_.barrier("check folder").wait();
    const auto read_once = [&] {
        if (trouble.empty()) {
            trouble = read_generation(generation);
            ++reads;
        }
    };
    const auto read_to_the_end = [&] {
        return wait_to_see([&] {
            read_once();
            return generation == replacements || !trouble.empty();
        });
    };
    double late = 0;
    if (writes) {
        for (int next = 1; next <= replacements && trouble.empty(); ++next) {
            trouble = attempt([&] { put(next); });
            read_once();
        }
    } else {
        read_to_the_end();
    }
    const bool all_put = gather(writes && !trouble.empty() ? 1 : 0)[0] == 0;
    if (!writes && all_put) {
        const std::optional<double> seen = read_to_the_end();
        late = seen.value_or(options_.patience_s);
        if (!seen) {
            trouble =
                fmt::format("{}: the last content of rank 0 is not seen here after {} s", path, options_.patience_s);
        }
    }
    found_.replacements = replacements;
    found_.reads = agree_sum(ranks_, reads, "check reads");
    found_.seen_after_s = std::max(found_.seen_after_s, largest(late));
    agree(trouble,
          "checkpoints are named by rename: would be right: a file system whose renames are atomic on all nodes");
}

// Rank 0 holds a lock; nobody else gets it until it is given back.
void Probe::lock() {
    const std::string path = join_path(place_, "lock");
    std::optional<FileWriter> held;
    bool got = false;
    std::string trouble;
    if (ranks_.rank() == 0) {
        trouble = attempt([&] {
            held.emplace(path, Create::truncate);
            got = held->lock(0);
        });
    }
    const bool first = gather(got ? 1 : 0)[0] > 0;
    const auto try_lock = [&](int patience_ms) {
        bool taken = false;
        const std::string failed = attempt([&] {
            FileWriter other(path, Create::append);
            taken = other.lock(patience_ms);
        });
        trouble = trouble.empty() ? failed : trouble;
        return taken;
    };
    if (first && try_lock(0) && trouble.empty()) {
        trouble = fmt::format("{}: locked by rank 0, and locked here at the same time", path);
    }
    ranks_.barrier("check lock").wait();
    held.reset();
    ranks_.barrier("check lock").wait();
    const bool last = ranks_.rank() == ranks_.size() - 1;
    if (first && last && !try_lock(2000) && trouble.empty()) {
        trouble = fmt::format("{}: given back by rank 0, still locked here after 2 s", path);
    }
    found_.locks = agree(trouble,
                         "two runs into one folder would not see each other: would be right: locks (flock) "
                         "that all nodes share") &&
                   first;
    if (!first && trouble.empty()) {
        found_.findings.push_back(warning_of(
            area, fmt::format("{}: the file system knows no locks (flock): two runs into one folder are told apart by "
                              "a file alone",
                              found_.folder)));
    }
}

void Probe::leave() {
    ranks_.barrier("check folder").wait();
    std::string trouble;
    if (ranks_.rank() == 0) {
        trouble = attempt([&] {
            remove_tree(place_);
            place_.clear();
        });
    }
    agree(trouble, "what a check or a save leaves behind cannot be removed");
}

}  // namespace

FolderProbe probe_folder(Communicator& ranks, const std::string& folder, std::span<const std::string> hosts,
                         const FolderProbeOptions& options) {
    FolderProbe found;
    found.asked = folder;
    found.folder = gather_text(ranks, existing_place(folder), "check folder")[0];
    Probe probe(ranks, hosts, options, found);
    if (!probe.make_place()) {
        return found;
    }
    i64 available = 0;
    try {
        available = free_bytes(found.folder);
    } catch (const Error&) {
        available = 0;  // said by the writes
    }
    found.free_bytes = available;
    if (probe.see_place()) {
        probe.write();
        probe.see_files();
        probe.sync();
        probe.replace();
        probe.lock();
    }
    probe.leave();
    return found;
}

}  // namespace ogrom
