// What this binary is: for --version, provenance.json and the head of every record.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace ogrom {

struct BuildInfo {
    std::string program;   // "0.1.0"
    std::string git;       // commit, with "-dirty" when the tree differed; "unknown" outside a checkout
    std::string compiler;  // "GNU 12.2.0"
    std::string flags;     // compiler flags of this folder
    std::string type;      // "Release"
    std::string march;     // -march of the CPU code
};
const BuildInfo& build_info();

// "ogrom 0.1.0", commit, compiler and flags: what --version prints.
std::string version_text();

// Libraries that this folder sees (name, version): fmt, spdlog, nlohmann-json, glibc, OpenMP, OpenBLAS. Higher folders
// add theirs (MPI, HDF5).
std::vector<std::pair<std::string, std::string>> base_library_versions();

}  // namespace ogrom
