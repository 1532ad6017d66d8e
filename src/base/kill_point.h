// Places where a test ends processes as kill -9 does: only in a build with -DOGROM_FAULTS=ON, where the environment
// variable OGROM_KILL_AT chooses one place in one save. In a normal build these are empty and nothing of it exists.
#pragma once
#include <cstddef>
#include <string>

#include "kernels/common/extents.h"

namespace ogrom {

#ifdef OGROM_FAULTS
// OGROM_KILL_AT="RANK VICTIM STEP OPERATION NAME [BYTES [NTH]]": as soon as rank RANK, within the save of STEP, is
// about to do OPERATION for the NTH time (default 1) on a file or folder called NAME, the ranks that VICTIM means (a
// number, or `all`) get SIGKILL. NAME has no host, process or random part: step-00000008.tmp, latest.tmp. "write" dies
// when exactly BYTES of the file are written; "remove" with BYTES > 0 when one file of the folder is gone.
void kill_point(const std::string& operation, const std::string& path, i64 written = 0);
// How much of a write of `size` bytes at `position` goes in one call, so that it can end where the test says.
std::size_t kill_limit(const std::string& path, i64 position, std::size_t size);
#else
constexpr void kill_point(const char*, const std::string&, i64 = 0) {}
constexpr std::size_t kill_limit(const std::string&, i64, std::size_t size) {
    return size;
}
#endif

}  // namespace ogrom
