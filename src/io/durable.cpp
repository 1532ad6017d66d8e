#include "src/io/durable.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <new>
#include <sys/mman.h>

#include "src/base/kill_point.h"
#include "src/base/text.h"
#include "src/io/checkpoint_folder.h"

namespace ogrom {

namespace {

// One write stays below every 32-bit count on the way to the disk (field case B23).
constexpr std::size_t write_chunk = 16u << 20;

constexpr std::size_t direct_block = static_cast<std::size_t>(direct_buffer_bytes / 2);
constexpr std::size_t pace_slice = 1u << 20;
constexpr std::size_t huge_page = 2u << 20;

double clock_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail_system(const std::string& path, const std::string& operation) {
    fail(ExitCode::checkpoint, fmt::format("{}: {}: {}", path, operation, std::strerror(errno)));
}

}  // namespace

void Pace::wrote(i64 bytes) {
    std::unique_lock lock(mutex_);
    const double now = clock_s();
    begun_s_ = begun_s_ < 0 ? now : begun_s_;
    written_ += static_cast<double>(bytes);
    if (bytes_per_s_ > 0) {
        const double pause = begun_s_ + written_ / bytes_per_s_ - now;
        change_.wait_for(lock, std::chrono::duration<double>(std::max(0.0, pause)),
                         [this] { return hurried_ || cancelled_; });
        paused_s_ = paused_s_ + clock_s() - now;
    }
    require(!cancelled_, ExitCode::checkpoint, "the save was given up");
}

void Pace::hurry() {
    const std::lock_guard lock(mutex_);
    hurried_ = true;
    change_.notify_all();
}

void Pace::cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    change_.notify_all();
}

void Disk::make_folders(const std::string& path) const {
    announce("make_folder", path);
    make_directories(path);
}

void Disk::sync_folder(const std::string& path) const {
    announce("sync_folder", path);
    sync_directory(path);
}

void Disk::rename(const std::string& from, const std::string& to) const {
    announce("rename", to);
    rename_durable(from, to);
}

void Disk::exchange(const std::string& fresh, const std::string& existing) const {
    announce("exchange", existing);
    kill_point("exchange", existing);
    if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, existing.c_str(), RENAME_EXCHANGE) != 0) {
        if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) {
            fail_system(fresh, "exchange with " + existing);
        }
        // No exchange on this file system: three renames, with a moment in which only temporary names exist.
        const std::string aside = abandoned_name(existing);  // nothing removes it, wherever we are cut off
        if (::rename(existing.c_str(), aside.c_str()) != 0 || ::rename(fresh.c_str(), existing.c_str()) != 0 ||
            ::rename(aside.c_str(), fresh.c_str()) != 0) {
            fail_system(fresh, "rename to " + existing);
        }
    }
    sync_directory(parent_path(existing));
}

void Disk::replace_file(const std::string& path, std::string_view text) const {
    announce("replace", path);
    write_file_atomic(path, text);
}

void Disk::remove_tree(const std::string& path) const {
    announce("remove", path);
    ogrom::remove_tree(path);
}

void Disk::require_free(const std::string& folder, i64 needed) const {
    const i64 available = free_bytes(folder);
    if (needed > available) {
        fail(ExitCode::checkpoint,
             fmt::format("{}: a checkpoint needs {} bytes ({}), {} bytes ({}) are free: free space (old step folders "
                         "may go: a resume needs the newest alone), or choose another run.output",
                         folder, needed, human_bytes(needed), available, human_bytes(available)));
    }
}

DurableFile::DurableFile(const Disk& disk, const std::string& path)
    : disk_(disk), writer_((disk.announce("create", path), path), Create::exclusive) {
    if (disk.direct() && writer_.bypass_cache(true)) {
        blocks_.reset(static_cast<std::byte*>(std::aligned_alloc(huge_page, 2 * direct_block)));
        if (blocks_ == nullptr) {
            throw std::bad_alloc();
        }
        (void)::madvise(blocks_.get(), 2 * direct_block, MADV_HUGEPAGE);  // a hint: fewer pages to pin for each write
    }
}

DurableFile::~DurableFile() {
    if (writing_.valid()) {
        writing_.wait();  // of a file that is given up
    }
}

void DurableFile::append(std::span<const std::byte> bytes) {
    Pace* const pace = disk_.pace();
    while (!bytes.empty()) {
        const bool slices = pace != nullptr || blocks_ != nullptr;
        const auto part = bytes.first(std::min(bytes.size(), slices ? pace_slice : write_chunk));
        hasher_.add(part);
        if (blocks_ != nullptr) {
            gather(part);
        } else {
            put(part);
        }
        position_ += static_cast<i64>(part.size());
        bytes = bytes.subspan(part.size());
        if (pace != nullptr) {
            pace->wrote(static_cast<i64>(part.size()));
        }
    }
}

void DurableFile::gather(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        std::byte* const block = blocks_.get() + filling_ * direct_block;
        const auto part = bytes.first(std::min(bytes.size(), direct_block - gathered_));
        std::memcpy(block + gathered_, part.data(), part.size());
        gathered_ += part.size();
        bytes = bytes.subspan(part.size());
        if (gathered_ == direct_block) {
            await_block();
            writing_ = std::async(std::launch::async, [this, block] { put({block, direct_block}); });
            filling_ = 1 - filling_;
            gathered_ = 0;
        }
    }
}

void DurableFile::await_block() {
    if (writing_.valid()) {
        writing_.get();
    }
}

void DurableFile::put(std::span<const std::byte> bytes) {
    const auto text = [](std::span<const std::byte> part) {
        return std::string_view(reinterpret_cast<const char*>(part.data()), part.size());
    };
    disk_.announce("write", writer_.path());
    const i64 before = writer_.written();
    try {
        writer_.write(text(bytes));
    } catch (const FileError& error) {
        // EINVAL: blocks of this file system are larger, or a call ended within one.
        if (blocks_ == nullptr || error.number() != EINVAL || !writer_.bypass_cache(false)) {
            throw;
        }
        writer_.write(text(bytes.subspan(static_cast<std::size_t>(writer_.written() - before))));
    }
}

FileRecord DurableFile::finish() {
    await_block();
    if (gathered_ > 0) {  // no whole block
        writer_.bypass_cache(false);
        put({blocks_.get() + filling_ * direct_block, gathered_});
    }
    disk_.announce("sync_file", writer_.path());
    writer_.sync();
    writer_.close();
    return {std::filesystem::path(writer_.path()).filename().string(), writer_.written(), hasher_.finish()};
}

}  // namespace ogrom
