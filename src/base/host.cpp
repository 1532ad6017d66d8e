#include "src/base/host.h"

#include <array>
#include <unistd.h>

namespace ogrom {

std::string host_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "unknown";
}

}  // namespace ogrom
