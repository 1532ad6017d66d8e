// Address space without memory behind it until it is touched: lets a test place a row beyond 2^31 or 2^32 elements.
#pragma once
#include <cstddef>
#include <sys/mman.h>

#include "kernels/common/extents.h"

namespace ogrom::test {

class SparseMemory {
public:
    explicit SparseMemory(i64 bytes)
        : bytes_(static_cast<std::size_t>(bytes)),
          base_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
        if (valid()) {
            madvise(base_, bytes_, MADV_HUGEPAGE);  // fewer page faults where reads run over gigabytes of zeros
        }
    }
    ~SparseMemory() {
        if (valid()) {
            munmap(base_, bytes_);
        }
    }
    SparseMemory(const SparseMemory&) = delete;
    SparseMemory& operator=(const SparseMemory&) = delete;
    [[nodiscard]] bool valid() const { return base_ != MAP_FAILED; }
    template <class T>
    [[nodiscard]] T* as() const {
        return static_cast<T*>(base_);
    }

private:
    std::size_t bytes_;
    void* base_;
};

}  // namespace ogrom::test
