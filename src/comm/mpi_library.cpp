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

std::string mpi_thread_level() {
    int level = MPI_THREAD_SINGLE;
    OGROM_MPI(MPI_Query_thread(&level));
    switch (level) {
        case MPI_THREAD_SINGLE:
            return "SINGLE";
        case MPI_THREAD_FUNNELED:
            return "FUNNELED";
        case MPI_THREAD_SERIALIZED:
            return "SERIALIZED";
        default:
            return "MULTIPLE";
    }
}

}  // namespace ogrom
