// Small working memory of an operation, kept by the calling thread between calls: it grows to the largest request
// once (first step) and is not taken again. Valid until the same thread's next call.
#pragma once
#include <span>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom::cpu {

inline std::span<double> scratch(i64 elements) {
    static thread_local std::vector<double> memory;
    if (static_cast<i64>(memory.size()) < elements) {
        memory.resize(static_cast<std::size_t>(elements));
    }
    return {memory.data(), static_cast<std::size_t>(elements)};
}

}  // namespace ogrom::cpu
