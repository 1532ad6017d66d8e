#include "tests/peers/rows.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <thread>

#include "kernels/common/error.h"

#include "src/base/timer.h"
#include "src/base/version.h"

namespace ogrom::peers {

double median(std::vector<double> values) {
    OGROM_ASSERT(!values.empty());
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string machine() {
    std::string model = "unknown";
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
        if (line.starts_with("model name")) {
            model = line.substr(line.find(':') + 2);
            break;
        }
    }
    return fmt::format("{}, {} cores", model, std::thread::hardware_concurrency());
}

Json row_of(const Row& row, const std::string& command) {
    const double value = median(row.samples);
    return {{"name", row.name},
            {"value", value},
            {"unit", row.unit},
            {"better", row.better == Better::lower ? "lower" : "higher"},
            {"limit", row.limit},
            {"limit_name", row.limit_name},
            {"ratio_to_limit", value / row.limit},
            {"peer", nullptr},
            {"peer_name", nullptr},
            {"ratio_to_peer", nullptr},
            {"samples", row.samples},
            {"machine", machine()},
            {"commit", build_info().git},
            {"date", utc_time()},
            {"command", command},
            {"extra", row.extra}};
}

std::string command_text(int argc, char** argv) {
    std::string text = std::filesystem::path(argv[0]).filename().string();
    for (int i = 1; i < argc; ++i) {
        text += fmt::format(" {}", argv[i]);
    }
    return text;
}

}  // namespace ogrom::peers
