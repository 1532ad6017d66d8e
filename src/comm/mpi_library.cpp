#include "src/comm/mpi_library.h"

#include <array>

#include "src/comm/mpi_check.h"

namespace ogrom {

std::string mpi_library() {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) {
        return "unknown";
    }
    const std::string all(text.data());  // not `length`: Open MPI counts the closing zero byte
    return all.substr(0, all.find('\n'));
}

}  // namespace ogrom
