// A whole file mapped read-only: pages come and go with use, so a token file larger than memory costs no memory.
// A file that becomes shorter meanwhile ends the process with its name and exit code 3 (mapped_ranges.h).
#pragma once
#include <string>
#include <string_view>

#include "kernels/common/extents.h"

namespace ogrom {

class MappedFile {
public:
    enum class Access { sequential, random };
    MappedFile() = default;
    // Throws Error(data) with the path and the system's reason; a folder or a device is refused. An empty file has no
    // bytes and no mapping.
    MappedFile(const std::string& path, Access access);
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    [[nodiscard]] const char* data() const { return data_; }
    [[nodiscard]] i64 size() const { return size_; }
    [[nodiscard]] std::string_view view() const { return {data_, static_cast<std::size_t>(size_)}; }

private:
    const char* data_ = nullptr;
    i64 size_ = 0;
};

}  // namespace ogrom
