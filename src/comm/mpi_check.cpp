#include "src/comm/mpi_check.h"

#include <fmt/format.h>

#include "kernels/common/error.h"

#include "src/comm/source_text.h"

namespace ogrom {

void check_mpi(int result, const char* expression, SourcePlace where) {
    if (result == MPI_SUCCESS) {
        return;
    }
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    if (MPI_Error_string(result, text, &length) != MPI_SUCCESS) {
        length = 0;
    }
    fail(ExitCode::peer,
         fmt::format("MPI call failed: {} returned {}: {} ({})", expression, result,
                     length > 0 ? std::string(text, static_cast<std::size_t>(length)) : std::string("no text"),
                     source_text(where)),
         where);
}

void return_errors(MPI_Comm communicator) {
    OGROM_MPI(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN));
}

}  // namespace ogrom
