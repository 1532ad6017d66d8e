// Which MPI library this process runs on, for logs and provenance.
#pragma once
#include <string>

namespace ogrom {

// Text of MPI_Get_library_version (allowed before MPI is initialised); first line only.
std::string mpi_library();

}  // namespace ogrom
