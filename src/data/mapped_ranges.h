// Which file lies behind an address. A mapped file that becomes shorter while it is read raises SIGBUS, which would end
// the process without a word: the handler names the file and ends the process with the exit code of a data fault.
#pragma once
#include <cstddef>
#include <string>

namespace ogrom {

// The handler is set with the first range; an earlier handler of the process gets every SIGBUS that no range explains.
// Both may be called from any thread. More than 4096 ranges at a time are not watched.
void watch_range(const void* begin, std::size_t bytes, const std::string& path);
void forget_range(const void* begin);

}  // namespace ogrom
