#include "src/comm/node_memory.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <random>
#include <sys/mman.h>

#include "kernels/common/error.h"

#include "src/comm/links.h"

namespace ogrom {
namespace {

struct Offer {
    char name[40];
    int error;
};

// Creates the segment under a random name and takes its memory at once: a full /dev/shm is an error here and not a
// SIGBUS later.
Descriptor create(i64 bytes, Offer& offer) {
    std::random_device source;
    for (int attempt = 0; attempt < 8; ++attempt) {
        const std::string name = fmt::format("/ogrom-{:08x}{:08x}", source(), source());
        Descriptor memory(shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
        if (!memory) {
            offer.error = errno;
            continue;
        }
        std::memcpy(offer.name, name.c_str(), name.size() + 1);
        offer.error = posix_fallocate(memory.get(), 0, bytes);
        return memory;
    }
    return {};
}

void* map(int descriptor, i64 bytes, int flags) {
    void* data = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, flags, descriptor, 0);
    return data == MAP_FAILED ? nullptr : data;
}

}  // namespace

NodeMemory::NodeMemory(MPI_Comm node, i64 bytes) : bytes_(bytes) {
    int rank = 0;
    OGROM_MPI(MPI_Comm_rank(node, &rank));
    Offer offer{};
    Descriptor memory;
    if (rank == 0) {
        memory = create(bytes, offer);
    }
    OGROM_MPI(MPI_Bcast(&offer, sizeof(offer), MPI_BYTE, 0, node));
    int error = offer.error;
    if (error == 0 && rank != 0) {
        memory.reset(shm_open(offer.name, O_RDWR, 0600));
        error = memory ? 0 : errno;
    }
    if (error == 0) {
        data_ = map(memory.get(), bytes, MAP_SHARED);
        error = data_ != nullptr ? 0 : errno;
    }
    int worst = 0;
    OGROM_MPI(MPI_Allreduce(&error, &worst, 1, MPI_INT, MPI_MAX, node));
    if (rank == 0 && offer.name[0] != 0) {
        shm_unlink(offer.name);
    }
    if (worst != 0) {
        fail(ExitCode::peer, fmt::format("cannot share {} bytes between the ranks of this node in /dev/shm: {}", bytes,
                                         std::strerror(worst)));
    }
}

NodeMemory::~NodeMemory() {
    if (data_ != nullptr) {
        munmap(data_, static_cast<std::size_t>(bytes_));
    }
}

NodeMemory NodeMemory::alone(i64 bytes) {
    NodeMemory memory;
    memory.data_ = map(-1, bytes, MAP_PRIVATE | MAP_ANONYMOUS);
    memory.bytes_ = bytes;
    require(memory.data_ != nullptr, ExitCode::memory, fmt::format("no memory for {} bytes of control data", bytes));
    return memory;
}

}  // namespace ogrom
