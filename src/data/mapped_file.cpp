#include "src/data/mapped_file.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <utility>

#include "src/base/file.h"
#include "src/data/mapped_ranges.h"

namespace ogrom {

namespace {

[[noreturn]] void fail_with_reason(const std::string& path, const char* tried) {
    fail(ExitCode::data, fmt::format("{}: cannot {}: {}", path, tried, std::generic_category().message(errno)));
}

}  // namespace

MappedFile::MappedFile(const std::string& path, Access access) {
    // O_NONBLOCK: the open of a pipe that nobody writes to would never return.
    const FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!descriptor) {
        fail_with_reason(path, "open");
    }
    struct stat status {};
    if (::fstat(descriptor.get(), &status) != 0) {
        fail_with_reason(path, "stat");
    }
    require(S_ISREG(status.st_mode), ExitCode::data, path + ": not a regular file (a folder, pipe, socket or device)");
    size_ = status.st_size;
    if (size_ == 0) {
        return;
    }
    void* address = ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_SHARED, descriptor.get(), 0);
    if (address == MAP_FAILED) {
        fail_with_reason(path, "map");
    }
    data_ = static_cast<const char*>(address);
    watch_range(data_, static_cast<std::size_t>(size_), path);
    // Advice only: a system that refuses it reads as well, a little slower.
    ::madvise(address, static_cast<std::size_t>(size_), access == Access::random ? MADV_RANDOM : MADV_SEQUENTIAL);
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) {
        forget_range(data_);
        ::munmap(const_cast<char*>(data_), static_cast<std::size_t>(size_));
    }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

}  // namespace ogrom
