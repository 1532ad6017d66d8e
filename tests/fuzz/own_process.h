// A process for one input, for readers on top of a library that crashes on some bytes.
#pragma once
#include <functional>

namespace ogrom::fuzz {

// Runs `work` in a child and waits. The child may return, or end with the exit code of a fault in a checkpoint after it
// named the file (io/hdf5_crash.h). Any other end, a signal above all, ends this process too. Under libFuzzer the
// branches that the child takes count, and a memory fault inside of libhdf5 is passed over as no fault of ours.
void in_own_process(const std::function<void()>& work);

}  // namespace ogrom::fuzz
