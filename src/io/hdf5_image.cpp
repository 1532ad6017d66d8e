#include "src/io/hdf5_image.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "src/base/error.h"

namespace ogrom::h5 {

namespace {

constexpr u64 page_bytes = 65536;
constexpr hsize_t aligned_from = 65536, alignment = 4096;  // bulk datasets start on a page of the file system

struct ImageFile {
    H5FD_t base;  // first: HDF5 sees only this part
    Image* image;
    haddr_t allocated;
};
struct ImageInfo {
    Image* image;
};

ImageFile* self(H5FD_t* file) {
    return reinterpret_cast<ImageFile*>(file);
}
const ImageFile* self(const H5FD_t* file) {
    return reinterpret_cast<const ImageFile*>(file);
}

H5FD_t* open_image(const char*, unsigned, hid_t access, haddr_t) {
    const auto* info = static_cast<const ImageInfo*>(H5Pget_driver_info(access));
    if (info == nullptr) {
        return nullptr;
    }
    auto* file = new (std::nothrow) ImageFile{};
    if (file == nullptr) {
        return nullptr;
    }
    file->image = info->image;
    return &file->base;
}
herr_t close_image(H5FD_t* file) {
    self(file)->image->set_end(static_cast<i64>(self(file)->allocated));
    delete self(file);
    return 0;
}
herr_t query_image(const H5FD_t*, unsigned long* flags) {
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}
haddr_t get_allocated(const H5FD_t* file, H5FD_mem_t) {
    return self(file)->allocated;
}
herr_t set_allocated(H5FD_t* file, H5FD_mem_t, haddr_t end) {
    self(file)->allocated = end;
    return 0;
}
// HDF5 asks for the end of the file only to see whether reads pass it: pages not yet written read as zeros.
haddr_t get_end(const H5FD_t* file, H5FD_mem_t) {
    return self(file)->allocated;
}
herr_t read_image(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t bytes, void* to) {
    self(file)->image->fetch(address, to, bytes);
    return 0;
}
herr_t write_image(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t bytes, const void* from) {
    try {
        self(file)->image->store(address, from, bytes);
    } catch (const std::bad_alloc&) {
        return -1;
    }
    return 0;
}

hid_t driver() {
    static const hid_t id = [] {
        H5FD_class_t driver_class{};
        driver_class.name = "ogrom_image";
        driver_class.maxaddr = static_cast<haddr_t>(INT64_MAX);
        driver_class.fc_degree = H5F_CLOSE_STRONG;
        driver_class.fapl_size = sizeof(ImageInfo);
        driver_class.open = open_image;
        driver_class.close = close_image;
        driver_class.query = query_image;
        driver_class.get_eoa = get_allocated;
        driver_class.set_eoa = set_allocated;
        driver_class.get_eof = get_end;
        driver_class.read = read_image;
        driver_class.write = write_image;
        const H5FD_mem_t map[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
        std::copy(std::begin(map), std::end(map), driver_class.fl_map);
        return H5FDregister(&driver_class);
    }();
    return id;
}

}  // namespace

Image::Image() {
    prepare();
}

void Image::create(const std::string& name) {
    name_ = name;
    const Properties access(check(H5Pcreate(H5P_FILE_ACCESS), name, "create"));
    const ImageInfo info{this};
    check_status(H5Pset_driver(access.get(), check(driver(), name, "driver"), &info), name, "create");
    // What HDF5 knows of a tensor goes when it is closed: for thousands of them 100 MiB.
    check_status(H5Pset_evict_on_close(access.get(), 1), name, "create");
    check_status(H5Pset_alignment(access.get(), aligned_from, alignment), name, "create");
    file_ = File(check(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), name, "create"));
}

i64 Image::reserve(hid_t parent, const std::string& dataset, Dtype type, i64 count) {
    OGROM_ASSERT(count > 0);
    const hsize_t extent = static_cast<hsize_t>(count);
    const Space space(check(H5Screate_simple(1, &extent, nullptr), name_, dataset));
    const Properties creation(check(H5Pcreate(H5P_DATASET_CREATE), name_, dataset));
    check_status(H5Pset_layout(creation.get(), H5D_CONTIGUOUS), name_, dataset);
    check_status(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), name_, dataset);
    check_status(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), name_, dataset);
    check_status(H5Pset_obj_track_times(creation.get(), false), name_, dataset);  // the same state, the same bytes
    const Dataset made(check(
        H5Dcreate2(parent, dataset.c_str(), file_type(type), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
        name_, dataset));
    const haddr_t offset = H5Dget_offset(made.get());
    require(offset != HADDR_UNDEF, ExitCode::checkpoint, name_ + ": " + dataset + ": HDF5 gave the data no place");
    return static_cast<i64>(offset);
}

void Image::close() {
    check_status(H5Fclose(file_.release()), name_, "close");
}

void Image::store(u64 address, const void* from, std::size_t bytes) {
    const auto* source = static_cast<const std::byte*>(from);
    while (bytes > 0) {
        const u64 within = address % page_bytes;
        const std::size_t part = std::min<std::size_t>(bytes, page_bytes - within);
        auto& page = pages_[address - within];
        page.resize(page_bytes);
        std::memcpy(page.data() + within, source, part);
        address += part;
        source += part;
        bytes -= part;
    }
}

void Image::fetch(u64 address, void* to, std::size_t bytes) const {
    auto* target = static_cast<std::byte*>(to);
    while (bytes > 0) {
        const u64 within = address % page_bytes;
        const std::size_t part = std::min<std::size_t>(bytes, page_bytes - within);
        const auto page = pages_.find(address - within);
        if (page == pages_.end()) {
            std::memset(target, 0, part);
        } else {
            std::memcpy(target, page->second.data() + within, part);
        }
        address += part;
        target += part;
        bytes -= part;
    }
}

}  // namespace ogrom::h5
