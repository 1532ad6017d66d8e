#include "src/base/host.h"

#include <array>
#include <fstream>
#include <unistd.h>

#include "src/base/text.h"

namespace ogrom {

std::string host_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "unknown";
}

std::string cpu_model() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("model name")) {
            return trim(line.substr(line.find(':') + 1));
        }
    }
    return "unknown";
}

std::string gpu_driver() {
    std::ifstream file("/proc/driver/nvidia/version");
    std::string line;
    std::getline(file, line);
    return gpu_driver_in(line);
}

// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build ...": the first word of numbers.
std::string gpu_driver_in(const std::string& text) {
    for (const std::string& word : split(text, ' ')) {
        if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) {
            return word;
        }
    }
    return {};
}

}  // namespace ogrom
