#include "src/io/hdf5.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <mutex>
#include <sys/stat.h>

#include "src/base/error.h"

namespace ogrom::h5 {

namespace {

constexpr std::size_t attribute_limit = 60000;

// The deepest records name the system call that failed, the first the call we made: keep the whole walk on one line.
std::string error_stack() {
    std::string text;
    const auto collect = [](unsigned, const H5E_error2_t* record, void* out) -> herr_t {
        auto& line = *static_cast<std::string*>(out);
        if (record->desc != nullptr && *record->desc != '\0' && line.size() < 600) {
            line += (line.empty() ? "" : "; ") + std::string(record->desc);
        }
        return 0;
    };
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect, &text);
    H5Eclear2(H5E_DEFAULT);
    std::replace(text.begin(), text.end(), '\n', ' ');  // a time stamp of HDF5 ends its line
    if (text.find("lock file") != std::string::npos) {
        text += "; unset HDF5_USE_FILE_LOCKING, or set it to FALSE: a run has a lock file of its own";
    }
    return text.empty() ? "HDF5 gave no reason" : text;
}

i64 bytes_of_file(hid_t object) {
    char name[4096];
    const ssize_t length = H5Fget_name(object, name, sizeof name);
    struct stat status {};
    if (length <= 0 || ::stat(name, &status) != 0) {
        return 0;
    }
    return status.st_size;
}

void put_value(hid_t object, const std::string& name, hid_t on_disk, hid_t in_memory, const void* value,
               const std::string& file) {
    const Space scalar(check(H5Screate(H5S_SCALAR), file, name));
    const Attribute attribute(
        check(H5Acreate2(object, name.c_str(), on_disk, scalar.get(), H5P_DEFAULT, H5P_DEFAULT), file, name));
    check_status(H5Awrite(attribute.get(), in_memory, value), file, name);
}

Type string_type(std::size_t bytes, const std::string& file, const std::string& item) {
    Type type(check(H5Tcopy(H5T_C_S1), file, item));
    check_status(H5Tset_size(type.get(), std::max<std::size_t>(1, bytes)), file, item);
    check_status(H5Tset_cset(type.get(), H5T_CSET_UTF8), file, item);
    check_status(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), file, item);
    return type;
}

Attribute open_scalar(hid_t object, const std::string& name, H5T_class_t wanted, const std::string& file) {
    prepare();
    if (!has_attribute(object, name)) {
        fail(ExitCode::checkpoint, fmt::format("{}: attribute '{}' is missing", file, name));
    }
    Attribute attribute(check(H5Aopen(object, name.c_str(), H5P_DEFAULT), file, name));
    const Space space(check(H5Aget_space(attribute.get()), file, name));
    const Type type(check(H5Aget_type(attribute.get()), file, name));
    if (H5Sget_simple_extent_npoints(space.get()) != 1 || H5Tget_class(type.get()) != wanted ||
        (wanted == H5T_STRING && H5Tis_variable_str(type.get()) > 0)) {
        fail(ExitCode::checkpoint,
             fmt::format("{}: attribute '{}' has the wrong type or is not one value", file, name));
    }
    return attribute;
}

std::string trimmed(std::string text) {
    text.resize(std::min(text.size(), text.find('\0')));
    return text;
}

}  // namespace

void prepare() {
    static std::once_flag once;
    std::call_once(once, [] {
        ::setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
        H5open();
        H5PLset_loading_state(0);
    });
    // A thread-safe build keeps one error stack for each thread.
    thread_local const herr_t silenced = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    static_cast<void>(silenced);
}

hid_t check(hid_t result, const std::string& file, const std::string& item) {
    if (result < 0) {
        fail(ExitCode::checkpoint, fmt::format("{}: {}: {}", file, item, error_stack()));
    }
    return result;
}

File open_read(const std::string& path) {
    prepare();
    const Properties access(check(H5Pcreate(H5P_FILE_ACCESS), path, "open"));
    check_status(H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG), path, "open");
    // What HDF5 knows of a tensor goes when it is closed: a master of thousands would pile it up.
    check_status(H5Pset_evict_on_close(access.get(), 1), path, "open");
    name_file(H5I_INVALID_HID, path);
    const hid_t opened = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get());
    forget_file(H5I_INVALID_HID);
    File file(check(opened, path, "open"));
    name_file(file.get(), path);
    return file;
}

Group make_group(hid_t parent, const std::string& name, const std::string& file) {
    return Group(check(H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), file, name));
}

void put(hid_t object, const std::string& name, i64 value, const std::string& file) {
    put_value(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value, file);
}
void put(hid_t object, const std::string& name, u64 value, const std::string& file) {
    put_value(object, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, &value, file);
}
void put(hid_t object, const std::string& name, double value, const std::string& file) {
    put_value(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value, file);
}
void put(hid_t object, const std::string& name, const std::string& value, const std::string& file) {
    if (value.size() > attribute_limit) {
        fail(ExitCode::checkpoint, fmt::format("{}: attribute '{}' has {} bytes; an attribute holds at most {}", file,
                                               name, value.size(), attribute_limit));
    }
    const Type type = string_type(value.size(), file, name);
    put_value(object, name, type.get(), type.get(), value.c_str(), file);
}

bool has_attribute(hid_t object, const std::string& name) {
    return H5Aexists(object, name.c_str()) > 0;
}

i64 get_i64(hid_t object, const std::string& name, const std::string& file) {
    const Attribute attribute = open_scalar(object, name, H5T_INTEGER, file);
    i64 value = 0;
    check_status(H5Aread(attribute.get(), H5T_NATIVE_INT64, &value), file, name);
    return value;
}
u64 get_u64(hid_t object, const std::string& name, const std::string& file) {
    const Attribute attribute = open_scalar(object, name, H5T_INTEGER, file);
    u64 value = 0;
    check_status(H5Aread(attribute.get(), H5T_NATIVE_UINT64, &value), file, name);
    return value;
}
double get_double(hid_t object, const std::string& name, const std::string& file) {
    const Attribute attribute = open_scalar(object, name, H5T_FLOAT, file);
    double value = 0;
    check_status(H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, &value), file, name);
    return value;
}
std::string get_string(hid_t object, const std::string& name, const std::string& file) {
    const Attribute attribute = open_scalar(object, name, H5T_STRING, file);
    const Type type(check(H5Aget_type(attribute.get()), file, name));
    const std::size_t bytes = H5Tget_size(type.get());
    if (bytes > attribute_limit + 1) {
        fail(ExitCode::checkpoint, fmt::format("{}: attribute '{}' claims {} bytes", file, name, bytes));
    }
    std::string text(bytes, '\0');
    check_status(H5Aread(attribute.get(), type.get(), text.data()), file, name);
    return trimmed(text);
}

std::vector<std::string> attribute_names(hid_t object, const std::string& file) {
    std::vector<std::string> names;
    const auto collect = [](hid_t, const char* name, const H5A_info_t*, void* out) -> herr_t {
        static_cast<std::vector<std::string>*>(out)->emplace_back(name);
        return 0;
    };
    check_status(H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names), file, "attributes");
    return names;
}

void put_text(hid_t parent, const std::string& name, const std::string& text, const std::string& file) {
    const Type type = string_type(text.size(), file, name);
    const Space scalar(check(H5Screate(H5S_SCALAR), file, name));
    const Dataset dataset(check(
        H5Dcreate2(parent, name.c_str(), type.get(), scalar.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), file, name));
    // c_str() ends in a zero byte, so an empty text has the one byte that the smallest string type needs.
    check_status(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.c_str()), file, name);
}

std::string get_text(hid_t parent, const std::string& name, const std::string& file) {
    if (!has_link(parent, name)) {
        fail(ExitCode::checkpoint, fmt::format("{}: dataset '{}' is missing", file, name));
    }
    const Dataset dataset = open_dataset(parent, name, file);
    const Type type(check(H5Dget_type(dataset.get()), file, name));
    const Space space(check(H5Dget_space(dataset.get()), file, name));
    const std::size_t bytes = H5Tget_size(type.get());
    if (H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) > 0 ||
        H5Sget_simple_extent_npoints(space.get()) != 1) {
        fail(ExitCode::checkpoint, fmt::format("{}: dataset '{}' is not one fixed-length string", file, name));
    }
    if (static_cast<i64>(bytes) > bytes_of_file(dataset.get())) {
        fail(ExitCode::checkpoint,
             fmt::format("{}: dataset '{}' claims {} bytes, more than the file has", file, name, bytes));
    }
    std::string text(bytes, '\0');
    check_status(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()), file, name);
    return trimmed(text);
}

std::optional<Dtype> dtype(hid_t type) {
    for (const Dtype candidate : {Dtype::fp32, Dtype::fp64, Dtype::i32, Dtype::i64, Dtype::u16, Dtype::u64}) {
        if (H5Tequal(type, file_type(candidate)) > 0) {
            return candidate;
        }
    }
    return std::nullopt;
}

hid_t memory_type(Dtype type) {
    prepare();
    switch (type) {
        case Dtype::fp32:
            return H5T_NATIVE_FLOAT;
        case Dtype::fp64:
            return H5T_NATIVE_DOUBLE;
        case Dtype::i32:
            return H5T_NATIVE_INT32;
        case Dtype::i64:
            return H5T_NATIVE_INT64;
        case Dtype::u16:
            return H5T_NATIVE_UINT16;
        case Dtype::u64:
            return H5T_NATIVE_UINT64;
        default:
            fail(ExitCode::usage, fmt::format("storage type {} is not built yet", name_of(type)));
    }
}

hid_t file_type(Dtype type) {
    prepare();
    switch (type) {
        case Dtype::fp32:
            return H5T_IEEE_F32LE;
        case Dtype::fp64:
            return H5T_IEEE_F64LE;
        case Dtype::i32:
            return H5T_STD_I32LE;
        case Dtype::i64:
            return H5T_STD_I64LE;
        case Dtype::u16:
            return H5T_STD_U16LE;
        case Dtype::u64:
            return H5T_STD_U64LE;
        default:
            fail(ExitCode::usage, fmt::format("storage type {} is not built yet", name_of(type)));
    }
}

std::vector<Object> list(hid_t group, const std::string& file) {
    struct Walk {
        std::vector<Object> objects;
    } walk;
    const auto collect = [](hid_t parent, const char* name, const H5L_info_t* info, void* out) -> herr_t {
        Object object{name, ObjectKind::other};
        if (info->type == H5L_TYPE_EXTERNAL) {
            object.kind = ObjectKind::external_link;
        } else if (info->type == H5L_TYPE_SOFT) {
            object.kind = ObjectKind::soft_link;
        } else if (info->type == H5L_TYPE_HARD) {
            H5O_info_t about;
            if (H5Oget_info_by_name2(parent, name, &about, H5O_INFO_BASIC, H5P_DEFAULT) >= 0) {
                object.kind = about.type == H5O_TYPE_GROUP     ? ObjectKind::group
                              : about.type == H5O_TYPE_DATASET ? ObjectKind::dataset
                                                               : ObjectKind::other;
            }
        }
        static_cast<Walk*>(out)->objects.push_back(std::move(object));
        return 0;
    };
    check_status(H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &walk), file, "list of a group");
    return walk.objects;
}

bool has_link(hid_t parent, const std::string& name) {
    return H5Lexists(parent, name.c_str(), H5P_DEFAULT) > 0;
}

namespace {

void require_hard_links(hid_t file_id, const std::string& path, const std::string& file) {
    if (path == "/") {
        return;
    }
    for (std::size_t slash = path.find('/', 1); true; slash = path.find('/', slash + 1)) {
        const std::string step = path.substr(0, slash);
        H5L_info_t info;
        check_status(H5Lget_info(file_id, step.c_str(), &info, H5P_DEFAULT), file, step);
        if (info.type != H5L_TYPE_HARD) {
            fail(ExitCode::checkpoint,
                 fmt::format("{}: '{}' is a link out of the file's own tree; only datasets and groups are read", file,
                             step));
        }
        if (slash == std::string::npos) {
            break;
        }
    }
}

}  // namespace

Group open_group(hid_t file_id, const std::string& path, const std::string& file) {
    require_hard_links(file_id, path, file);
    return Group(check(H5Gopen2(file_id, path.c_str(), H5P_DEFAULT), file, path));
}

Dataset open_dataset(hid_t file_id, const std::string& path, const std::string& file) {
    require_hard_links(file_id, path, file);
    return Dataset(check(H5Dopen2(file_id, path.c_str(), H5P_DEFAULT), file, path));
}

std::vector<i64> shape(hid_t dataset, const std::string& file, const std::string& item) {
    const Space space(check(H5Dget_space(dataset), file, item));
    const int rank = H5Sget_simple_extent_ndims(space.get());
    check(rank, file, item);
    std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
    if (rank > 0) {
        check(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), file, item);
    }
    std::vector<i64> result;
    for (const hsize_t extent : extents) {
        if (extent > static_cast<hsize_t>(INT64_MAX)) {
            fail(ExitCode::checkpoint, fmt::format("{}: '{}' claims an extent of {}", file, item, extent));
        }
        result.push_back(static_cast<i64>(extent));
    }
    return result;
}

std::string shape_text(const std::vector<i64>& shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace ogrom::h5
