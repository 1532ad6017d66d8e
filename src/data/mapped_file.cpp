#include "src/data/mapped_file.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <utility>

#include "src/base/file.h"

namespace ogrom {

namespace {

[[noreturn]] void fail_with_reason(const std::string& path, const char* tried) {
    fail(ExitCode::data, fmt::format("{}: cannot {}: {}", path, tried, std::generic_category().message(errno)));
}

}  // namespace

MappedFile::MappedFile(const std::string& path, Access access) {
    const FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!descriptor) {
        fail_with_reason(path, "open");
    }
    struct stat status {};
    if (::fstat(descriptor.get(), &status) != 0) {
        fail_with_reason(path, "stat");
    }
    require(S_ISREG(status.st_mode), ExitCode::data, path + ": not a regular file");
    size_ = status.st_size;
    if (size_ == 0) {
        return;
    }
    void* address = ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_SHARED, descriptor.get(), 0);
    if (address == MAP_FAILED) {
        fail_with_reason(path, "map");
    }
    data_ = static_cast<const char*>(address);
    // Advice only: a system that refuses it reads as well, a little slower.
    ::madvise(address, static_cast<std::size_t>(size_), access == Access::random ? MADV_RANDOM : MADV_SEQUENTIAL);
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) {
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
