// The matrix library's threads. OpenBLAS built on OpenMP shares our team; the pthread build runs a second team beside
// it, and the two spin against each other.
#pragma once
#include <string>

namespace ogrom {

// Sets the OpenMP and OpenBLAS threads of this process; returns a warning for the log, empty when all is well.
std::string set_threads(int threads);

// Library, version and threading model in words, for the log and provenance.
std::string blas_description();

// Which kernels compute here, in words: the bits of a run depend on them. Stored in provenance and in every checkpoint.
// `gpu`: name of the device, empty on the CPU.
std::string kernel_choice(const std::string& gpu = {});

}  // namespace ogrom
