// Ranges in the timeline of a profiler (NVTX: Nsight Systems and Compute) by the names that the trace uses. Without a
// profiler, or in a build without CUDA, next to nothing.
#pragma once
#include <string_view>

namespace ogrom {

class ProfileRange {
public:
    explicit ProfileRange(std::string_view name);
    ~ProfileRange();
    ProfileRange(const ProfileRange&) = delete;
    ProfileRange& operator=(const ProfileRange&) = delete;
};

}  // namespace ogrom
