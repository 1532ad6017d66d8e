// What made a run: program, compiler, libraries, machine, ranks, command. One JSON object with "format": 1, archived as
// provenance.json before step 1 and inside every checkpoint.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

struct ProvenanceInput {
    std::string command_line;
    std::string mesh;                // "pp=1 dp=4 cp=1 ep=1 tp=1"
    std::vector<std::string> hosts;  // of each rank, in rank order
    i64 ranks = 1;
    i64 threads = 1;          // per rank
    std::string mpi_library;  // text of MPI_Get_library_version; empty without MPI
    u64 seed = 0;
    std::vector<std::pair<std::string, std::string>> extra;  // measured rates, chosen algorithms ...
};

// Beside the input: program version, git hash, compiler, flags, library versions, CPU model, cores, memory, start time
// (UTC), and the environment variables that change what a run does (OMP_, OPENBLAS_, OMPI_MCA_, NCCL_, SLURM_, ...).
std::string provenance_json(const ProvenanceInput& input);

}  // namespace ogrom
