// Where the values of a dataset come from. Comes in: an open dataset of a master file. Goes out: nothing, or an Error:
// moments have no hash of their own in the header, so what reads as one tensor is held to be one here.
#include <algorithm>
#include <fmt/format.h>

#include "kernels/common/fault.h"

#include "src/io/checkpoint_load.h"
#include "src/io/checkpoint_mapping.h"
#include "src/io/checkpoint_placement.h"

namespace ogrom {

namespace {

// The part that mapping `index` reads. The master is no source: a dataset that reads from itself has no end.
void check_source_file(hid_t creation, std::size_t index, const std::string& file, const std::string& item,
                       const Manifest& manifest) {
    char name[64] = {};
    const ssize_t length = H5Pget_virtual_filename(creation, index, name, sizeof name);
    const bool part = length > 0 && length < static_cast<ssize_t>(sizeof name) &&
                      std::any_of(manifest.files.begin(), manifest.files.end(), [&](const FileRecord& record) {
                          return record.file == name && record.file != master_name;
                      });
    if (!part) {
        fail(ExitCode::checkpoint, fmt::format("{}: {} reads from '{}', which is not a part of this checkpoint "
                                               "(absolute names and '..' are refused)",
                                               file, item, name));
    }
}

// Mapping `index` as a rectangle of a tensor of `shape` (one or two extents).
TensorPiece rectangle_of(hid_t creation, std::size_t index, const std::vector<i64>& shape, const std::string& file,
                         const std::string& item) {
    const h5::Space space(h5::check(H5Pget_virtual_vspace(creation, index), file, item));
    const std::optional<Box> box = box_of(space.get());
    const bool within = box && box->extents == shape;
    require(within, ExitCode::checkpoint,
            fmt::format("{}: {}: mapping {} is no rectangle within the tensor", file, item, index));
    return box->as_piece();
}

}  // namespace

void check_sources(hid_t dataset, const std::string& file, const std::string& item, const Manifest& manifest) {
    const h5::Properties creation(h5::check(H5Dget_create_plist(dataset), file, item));
    if (H5Pget_layout(creation.get()) != H5D_VIRTUAL) {
        require(H5Pget_external_count(creation.get()) == 0, ExitCode::checkpoint,
                fmt::format("{}: {} reads external raw files; refused", file, item));
        return;
    }
    std::size_t count = 0;
    h5::check_status(H5Pget_virtual_count(creation.get(), &count), file, item);
    for (std::size_t i = 0; i < count; ++i) {
        check_source_file(creation.get(), i, file, item, manifest);
    }
    const std::vector<i64> shape = h5::shape(dataset, file, item);
    require(shape.size() == 1 || shape.size() == 2, ExitCode::checkpoint,
            fmt::format("{}: {}: a tensor of {} extents; 1 or 2 are read", file, item, shape.size()));
    std::vector<PlacedPiece> placed;
    for (std::size_t i = 0; i < count; ++i) {
        placed.push_back({rectangle_of(creation.get(), i, shape, file, item), static_cast<int>(i)});
    }
    const TensorExtent extent{shape[0], shape.size() == 1 ? 1 : shape[1]};
    const std::string fault = cover_fault(extent, placed, {"held", "mapping"});
    require(fault.empty() || fault_active("virtual_cover_unchecked"), ExitCode::checkpoint,
            fmt::format("{}: {}: {}", file, item, fault));
}

}  // namespace ogrom
