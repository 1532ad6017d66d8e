// HDF5 itself crashes on some bytes. Comes in: a file that is about to be read. Goes out: where the process would die
// by a signal without a word, a line with the names of the files that were open, and the exit code of a checkpoint
// fault. Bytes that the manifest vouches for come here too: a hash says that they are those that were written, not who
// wrote them.
#pragma once
#include <hdf5.h>
#include <string>

namespace ogrom::h5 {

// Until forget_file(file), for crashes of the thread that calls this; H5I_INVALID_HID while it is being opened. At most
// 8 files at a time are named.
void name_file(hid_t file, const std::string& path);
void forget_file(hid_t file) noexcept;

}  // namespace ogrom::h5
