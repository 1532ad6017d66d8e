// Which MPI library this process runs on, for logs and provenance.
#pragma once
#include <string>

namespace ogrom {

// Text of MPI_Get_library_version (allowed before MPI is initialised); first line only.
std::string mpi_library();

// "FUNNELED": the thread level that MPI gives (once it is initialised).
std::string mpi_thread_level();

}  // namespace ogrom
