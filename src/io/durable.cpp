#include "src/io/durable.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>

#include "src/base/kill_point.h"
#include "src/base/text.h"

namespace ogrom {

namespace {

// One write stays below every 32-bit count on the way to the disk (field case B23).
constexpr std::size_t write_chunk = 16u << 20;

[[noreturn]] void fail_system(const std::string& path, const std::string& operation) {
    fail(ExitCode::checkpoint, fmt::format("{}: {}: {}", path, operation, std::strerror(errno)));
}

}  // namespace

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
        const std::string aside = fresh + "-old";
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
             fmt::format("{}: a checkpoint needs {} bytes ({}), {} bytes ({}) are free: free space, lower "
                         "checkpoint.keep_last, or choose another run.output",
                         folder, needed, human_bytes(needed), available, human_bytes(available)));
    }
}

DurableFile::DurableFile(const Disk& disk, const std::string& path)
    : disk_(disk), writer_((disk.announce("create", path), path), Create::exclusive) {}

void DurableFile::append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const auto part = bytes.first(std::min(bytes.size(), write_chunk));
        disk_.announce("write", writer_.path());
        writer_.write({reinterpret_cast<const char*>(part.data()), part.size()});
        hasher_.add(part);
        bytes = bytes.subspan(part.size());
    }
}

FileRecord DurableFile::finish() {
    disk_.announce("sync_file", writer_.path());
    writer_.sync();
    writer_.close();
    return {std::filesystem::path(writer_.path()).filename().string(), writer_.written(), hasher_.finish()};
}

}  // namespace ogrom
