// Serial HDF5 behind owning handles and one check. Debian's library is not thread-safe: after start-up every function
// here runs on the I/O thread (io/io_thread.h). Faults are Error(checkpoint) with the file, the object and HDF5's own
// error stack.
//
// Untrusted files: plugins are switched off, external links are refused, and sizes are bounded by the bytes of the file
// before anything is allocated. A crash of HDF5 itself names the file (io/hdf5_crash.h).
#pragma once
#include <hdf5.h>
#include <optional>
#include <string>
#include <vector>

#include "kernels/common/dtype.h"

#include "src/base/handle.h"
#include "src/io/hdf5_crash.h"

namespace ogrom::h5 {

template <herr_t (*Close)(hid_t)>
struct IdTraits {
    using type = hid_t;
    static constexpr type empty = H5I_INVALID_HID;
    static void destroy(type id) noexcept { Close(id); }
};
struct FileTraits {
    using type = hid_t;
    static constexpr type empty = H5I_INVALID_HID;
    static void destroy(type id) noexcept {
        H5Fclose(id);
        forget_file(id);
    }
};
using File = Handle<FileTraits>;
using Group = Handle<IdTraits<H5Gclose>>;
using Dataset = Handle<IdTraits<H5Dclose>>;
using Space = Handle<IdTraits<H5Sclose>>;
using Type = Handle<IdTraits<H5Tclose>>;
using Attribute = Handle<IdTraits<H5Aclose>>;
using Properties = Handle<IdTraits<H5Pclose>>;

// Once per process, before the first HDF5 call (every entry below makes it): file locking off unless the user set
// HDF5_USE_FILE_LOCKING (locks are missing on many shared file systems, field case B22), plugins off, no printing.
void prepare();

// `result` < 0 throws with "<file>: <item>: " and HDF5's error stack. Returns result.
hid_t check(hid_t result, const std::string& file, const std::string& item);
inline herr_t check_status(herr_t result, const std::string& file, const std::string& item) {
    return static_cast<herr_t>(check(result, file, item));
}

File open_read(const std::string& path);
Group make_group(hid_t parent, const std::string& name, const std::string& file);

// Attributes of one value. Strings are fixed length UTF-8, at most 60000 bytes (an object header holds 64 KiB).
void put(hid_t object, const std::string& name, i64 value, const std::string& file);
void put(hid_t object, const std::string& name, u64 value, const std::string& file);
void put(hid_t object, const std::string& name, double value, const std::string& file);
void put(hid_t object, const std::string& name, const std::string& value, const std::string& file);
[[nodiscard]] bool has_attribute(hid_t object, const std::string& name);
i64 get_i64(hid_t object, const std::string& name, const std::string& file);
u64 get_u64(hid_t object, const std::string& name, const std::string& file);
double get_double(hid_t object, const std::string& name, const std::string& file);
std::string get_string(hid_t object, const std::string& name, const std::string& file);
std::vector<std::string> attribute_names(hid_t object, const std::string& file);

// A text of any length as a scalar string dataset (h5dump prints it).
void put_text(hid_t parent, const std::string& name, const std::string& text, const std::string& file);
std::string get_text(hid_t parent, const std::string& name, const std::string& file);

// Element type as stored; std::nullopt for what is none of ours.
std::optional<Dtype> dtype(hid_t type);
hid_t memory_type(Dtype type);  // native type of a value in memory; not owned
hid_t file_type(Dtype type);    // little-endian type on disk; not owned

enum class ObjectKind { group, dataset, external_link, soft_link, other };
struct Object {
    std::string name;
    ObjectKind kind = ObjectKind::other;
};
// The links of a group, by name, ascending. External and soft links are named, never followed.
std::vector<Object> list(hid_t group, const std::string& file);
// Opens the object at `path` (from the root) only if every step of it is a hard link; throws otherwise.
Dataset open_dataset(hid_t file_id, const std::string& path, const std::string& file);
Group open_group(hid_t file_id, const std::string& path, const std::string& file);  // as above
[[nodiscard]] bool has_link(hid_t parent, const std::string& name);
// Extents of a dataset (empty: scalar).
std::vector<i64> shape(hid_t dataset, const std::string& file, const std::string& item);

// "[3, 4]"
std::string shape_text(const std::vector<i64>& shape);

}  // namespace ogrom::h5
