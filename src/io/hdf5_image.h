// An HDF5 file built in memory: a virtual file driver that keeps what HDF5 writes as sparse pages. Every byte that goes
// to disk then goes through io/durable (checked, hashed, fsynced), so a full disk is an ordinary error and not a file
// that HDF5 can neither write nor close. Bulk data never enters the image: datasets are laid out (`reserve`), and the
// caller's memory is written at their file offsets without a copy.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "src/io/hdf5.h"

namespace ogrom::h5 {

class Image {
public:
    Image();
    Image(const Image&) = delete;
    Image& operator=(const Image&) = delete;

    [[nodiscard]] hid_t file() const { return file_.get(); }  // open for building
    void create(const std::string& name);                     // `name` only serves error messages
    // A contiguous dataset whose bytes the caller writes itself; returns its file offset (fixed from now on).
    i64 reserve(hid_t parent, const std::string& dataset, Dtype type, i64 count);
    void close();  // after it, size() and what fetch() gives are final
    [[nodiscard]] i64 size() const { return end_; }
    // Bytes of the file; what HDF5 did not write is zeros (reserved data is the caller's).
    void fetch(u64 address, void* to, std::size_t bytes) const;

    // For the driver only.
    void store(u64 address, const void* from, std::size_t bytes);
    void set_end(i64 end) { end_ = end; }

private:
    std::map<u64, std::vector<std::byte>> pages_;
    std::string name_;
    File file_;
    i64 end_ = 0;
};

}  // namespace ogrom::h5
