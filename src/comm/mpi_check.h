// One check for every MPI result: expression, code, MPI's own text and place become Error(peer). It needs the error
// handler MPI_ERRORS_RETURN, which return_errors() sets on each communicator we make.
#pragma once
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1  // the C interface only: the C++ one is gone from MPI and does not compile cleanly
#endif
#include <mpi.h>

#include "kernels/common/error.h"

namespace ogrom {

void check_mpi(int result, const char* expression, SourcePlace where = SourcePlace::current());
void return_errors(MPI_Comm communicator);

}  // namespace ogrom

#define OGROM_MPI(expression) ::ogrom::check_mpi((expression), #expression)
