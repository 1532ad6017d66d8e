#include "src/device/profile.h"

#include <algorithm>
#include <array>

#include "kernels/cuda/runtime.h"

namespace ogrom {

ProfileRange::ProfileRange(std::string_view name) {
    std::array<char, 64> text = {};  // closed by a zero; longer names are cut
    std::copy_n(name.begin(), std::min(name.size(), text.size() - 1), text.begin());
    cuda::push_range(text.data());
}

ProfileRange::~ProfileRange() {
    cuda::pop_range();
}

}  // namespace ogrom
