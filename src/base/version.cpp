#include "src/base/version.h"

#include <cblas.h>
#include <fmt/core.h>
#include <gnu/libc-version.h>
#include <nlohmann/json.hpp>
#include <spdlog/version.h>

#include "ogrom_build.h"

namespace ogrom {

const BuildInfo& build_info() {
    static const BuildInfo info = {OGROM_BUILD_VERSION, OGROM_BUILD_GIT,  OGROM_BUILD_COMPILER,
                                   OGROM_BUILD_FLAGS,   OGROM_BUILD_TYPE, OGROM_BUILD_MARCH};
    return info;
}

std::string version_text() {
    const BuildInfo& info = build_info();
    return fmt::format("ogrom {}\ncommit {}\ncompiler {}, {}, {}", info.program, info.git, info.compiler, info.type,
                       info.flags);
}

std::vector<std::pair<std::string, std::string>> base_library_versions() {
    const auto dotted = [](int major, int minor, int patch) { return fmt::format("{}.{}.{}", major, minor, patch); };
    return {{"fmt", dotted(FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
            {"spdlog", dotted(SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)},
            {"nlohmann-json",
             dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
            {"glibc", gnu_get_libc_version()},
            {"OpenMP", fmt::format("{}", _OPENMP)},
            {"OpenBLAS", openblas_get_config()}};
}

}  // namespace ogrom
