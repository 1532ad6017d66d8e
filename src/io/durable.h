// What must survive a crash, on top of base/file: every operation is announced to an optional watcher before it happens
// (tests record the order there, or end the process), and files are hashed while they are written.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "kernels/common/extents.h"

#include "src/base/file.h"
#include "src/io/manifest.h"

namespace ogrom {

// How fast a background writer may go on. The thread that writes asks after each slice; another one changes its mind.
class Pace {
public:
    explicit Pace(double bytes_per_s = 0) : bytes_per_s_(bytes_per_s) {}  // 0: without pauses
    // For the writer, after `bytes` more were written: pauses. Throws Error(checkpoint) once cancelled.
    void wrote(i64 bytes);
    void hurry();   // someone waits for the writer: no pauses from now on
    void cancel();  // nobody wants it any more
    [[nodiscard]] double paused_s() const { return paused_s_.load(); }

private:
    std::mutex mutex_;
    std::condition_variable change_;
    double bytes_per_s_, written_ = 0, begun_s_ = -1;
    bool hurried_ = false, cancelled_ = false;
    std::atomic<double> paused_s_{0};
};

class Disk {
public:
    using Watcher = std::function<void(const std::string& operation, const std::string& path)>;
    Disk() = default;
    explicit Disk(Watcher watcher) : watcher_(std::move(watcher)) {}
    void set_pace(std::shared_ptr<Pace> pace) { pace_ = std::move(pace); }
    [[nodiscard]] Pace* pace() const { return pace_.get(); }  // null: as fast as it goes
    void set_direct(bool direct) { direct_ = direct; }
    [[nodiscard]] bool direct() const { return direct_; }  // large files past the page cache where the file system can

    // All throw Error(checkpoint) with the path, the operation and the system's reason. Operations, as announced:
    // make_folder, sync_folder, rename, exchange, replace, remove, create, write, sync_file.
    void make_folders(const std::string& path) const;
    void sync_folder(const std::string& path) const;
    void rename(const std::string& from, const std::string& to) const;  // then fsync of the folder
    // `fresh` takes the place of the folder `existing`; the old one stands at `fresh` afterwards. Then fsync.
    void exchange(const std::string& fresh, const std::string& existing) const;
    void replace_file(const std::string& path, std::string_view text) const;  // complete or not at all
    void remove_tree(const std::string& path) const;
    // Throws unless `needed` bytes are free for this user in `folder`; the message has both figures.
    void require_free(const std::string& folder, i64 needed) const;
    void announce(const std::string& operation, const std::string& path) const {
        if (watcher_) {
            watcher_(operation, path);
        }
    }

private:
    Watcher watcher_;
    std::shared_ptr<Pace> pace_;
    bool direct_ = true;
};

// Memory that a file takes while it is written past the page cache: one block is filled while one is written.
inline constexpr i64 direct_buffer_bytes = i64{8} << 20;

// A new file written front to back, hashed per 64 MiB block on the way. Past the page cache where the file system can:
// filling the cache takes several times the processor time of the writing, and what fsync then waits for is written in
// the order that the kernel likes.
class DurableFile {
public:
    DurableFile(const Disk& disk, const std::string& path);
    ~DurableFile();
    DurableFile(const DurableFile&) = delete;
    DurableFile& operator=(const DurableFile&) = delete;
    void append(std::span<const std::byte> bytes);
    [[nodiscard]] i64 position() const { return position_; }
    FileRecord finish();  // fsync and close, both checked

private:
    void put(std::span<const std::byte> bytes);
    void gather(std::span<const std::byte> bytes);
    void await_block();
    struct Free {
        void operator()(void* memory) const { std::free(memory); }
    };
    const Disk& disk_;
    FileWriter writer_;
    std::unique_ptr<std::byte[], Free> blocks_;  // two, of a file past the cache; else null
    std::size_t filling_ = 0, gathered_ = 0;     // the block that is filled, and how far
    std::future<void> writing_;                  // the other one
    i64 position_ = 0;
    BlockHasher hasher_;
};

}  // namespace ogrom
