// main of a target without libFuzzer: every file of the folders in the arguments goes through it once.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/support.h"

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> inputs(int argc, char** argv) {
    std::vector<fs::path> files;
    for (int i = 1; i < argc; ++i) {
        for (const auto& entry : fs::directory_iterator(argv[i])) {
            files.push_back(entry.path());
        }
    }
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace

int main(int argc, char** argv) {
    std::string at = "the corpus";
    try {
        const std::vector<fs::path> files = inputs(argc, argv);
        for (const fs::path& path : files) {
            at = path.string();
            std::ifstream file(path, std::ios::binary);
            const std::string bytes{std::istreambuf_iterator<char>(file), {}};
            std::printf("%s (%zu bytes)\n", path.filename().c_str(), bytes.size());
            std::fflush(stdout);  // the one that crashes is the last line
            LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
        }
        if (files.empty()) {
            std::fprintf(stderr, "usage: %s FOLDER...: no file there\n", argv[0]);
            return 1;
        }
        std::printf("%zu inputs read or refused\n", files.size());
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s, which is no Error\n", at.c_str(), error.what());
        return 1;
    }
}
