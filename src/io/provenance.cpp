#include "src/io/provenance.h"

#include <algorithm>
#include <array>
#include <hdf5.h>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <sys/utsname.h>
#include <unistd.h>
#include <xxhash.h>

#include "src/base/host.h"
#include "src/base/text.h"
#include "src/base/timer.h"
#include "src/base/version.h"

extern "C" char** environ;

namespace ogrom {

namespace {

// Variables that change speed, placement or bits of a run. Nothing else of the environment is recorded: it may hold
// secrets.
constexpr std::array<std::string_view, 13> environment_prefixes = {
    "OMP_",  "OPENBLAS_", "OMPI_MCA_", "OMPI_COMM_WORLD_SIZE", "OGROM_",  "NCCL_",         "SLURM_JOB_ID",
    "GOMP_", "MALLOC_",   "HDF5_",     "CUDA_VISIBLE_DEVICES", "SLURM_N", "SLURM_CPUS_PER"};

std::map<std::string, std::string> environment() {
    std::map<std::string, std::string> found;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const auto equals = text.find('=');
        const bool wanted = std::any_of(environment_prefixes.begin(), environment_prefixes.end(),
                                        [&](std::string_view prefix) { return text.starts_with(prefix); });
        if (wanted && equals != std::string_view::npos) {
            found.emplace(text.substr(0, equals), text.substr(equals + 1));
        }
    }
    return found;
}

std::string system_text() {
    struct utsname name {};
    return ::uname(&name) == 0 ? std::string(name.sysname) + " " + name.release + " " + name.machine : "unknown";
}

nlohmann::ordered_json libraries(const ProvenanceInput& input) {
    nlohmann::ordered_json found;
    for (const auto& [name, version] : base_library_versions()) {
        found[name] = version;
    }
    found["HDF5"] = H5_VERS_INFO;
    found["xxHash"] = std::to_string(XXH_versionNumber());
    found["MPI"] = trim(input.mpi_library);
    return found;
}

}  // namespace

std::string provenance_json(const ProvenanceInput& input) {
    const BuildInfo& build = build_info();
    nlohmann::ordered_json extra = nlohmann::ordered_json::object();
    for (const auto& [name, value] : input.extra) {
        extra[name] = value;
    }
    nlohmann::ordered_json root = {
        {"format", 1},
        {"started_utc", utc_time()},
        {"program", {{"version", build.program}, {"git", build.git}}},
        {"build", {{"compiler", build.compiler}, {"flags", build.flags}, {"type", build.type}, {"march", build.march}}},
        {"libraries", libraries(input)},
        {"machine",
         {{"cpu", cpu_model()},
          {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"memory_bytes", static_cast<i64>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE)},
          {"system", system_text()}}},
        {"mesh", input.mesh},
        {"ranks", input.ranks},
        {"hosts", input.hosts},
        {"threads_per_rank", input.threads},
        {"seed", input.seed},
        {"command_line", input.command_line},
        {"environment", environment()},
        {"extra", std::move(extra)}};
    return root.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ogrom
