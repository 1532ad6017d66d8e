#include "tests/fuzz/support.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"

namespace ogrom::fuzz {

namespace fs = std::filesystem;

namespace {

class Folder {
public:
    Folder() : owner_(::getpid()) {
        const fs::path root = fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
        std::string pattern = (root / "ogrom-fuzz-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr) {
            std::abort();
        }
        path_ = pattern;
    }
    ~Folder() {
        if (::getpid() == owner_) {
            std::error_code ignored;
            fs::remove_all(path_, ignored);
        }
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    pid_t owner_;
    std::string path_;
};

}  // namespace

void accept(const std::function<void()>& read) {
    try {
        read();
    } catch (const Error&) {
        return;
    }
}

std::string_view text_of(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

const std::string& folder() {
    static const Folder made;
    return made.path();
}

void put_bytes(const std::string& path, std::string_view bytes) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) {
        std::abort();
    }
}

std::string put_file(const std::string& name, std::string_view bytes) {
    const std::string path = join_path(folder(), name);
    put_bytes(path, bytes);
    return path;
}

}  // namespace ogrom::fuzz
