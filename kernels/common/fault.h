// Named seeded faults: wrong lines that only a test build (-DOGROM_FAULTS=ON) carries, one active at a time by the
// environment variable OGROM_FAULT. The test suite must fail for each (tests/faults). In a normal build this is a
// constant false and the wrong line does not exist.
#pragma once
#include <string_view>

#ifdef OGROM_FAULTS
#include <cstdlib>
#include <string>
#endif

namespace ogrom {

#ifdef OGROM_FAULTS
inline bool fault_active(std::string_view name) {
    static const std::string active = [] {
        const char* value = std::getenv("OGROM_FAULT");
        return std::string(value == nullptr ? "" : value);
    }();
    return active == name;
}
#else
constexpr bool fault_active(std::string_view) {
    return false;
}
#endif

}  // namespace ogrom
