#include "src/io/checkpoint_write.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>

#include "kernels/common/fault.h"

#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_header.h"
#include "src/io/hdf5_image.h"

namespace ogrom {

namespace {

// Bytes of caller memory that stand at a place of the file.
struct Placed {
    i64 offset = 0;
    std::span<const std::byte> bytes;
};

// Neighbours in file and memory become one piece, so that a part is a few large writes whatever the number of tensors.
void place(std::vector<Placed>& placed, const Placed& piece) {
    if (!placed.empty()) {
        Placed& last = placed.back();
        const bool joined = last.bytes.data() + last.bytes.size() == piece.bytes.data() &&
                            last.offset + static_cast<i64>(last.bytes.size()) == piece.offset;
        if (joined) {
            last.bytes = {last.bytes.data(), last.bytes.size() + piece.bytes.size()};
            return;
        }
    }
    placed.push_back(piece);
}

// Writes the image front to back with the placed bytes where they belong; `placed` ascending, not overlapping.
FileRecord write_image(const Disk& disk, const std::string& path, const h5::Image& image,
                       const std::vector<Placed>& placed) {
    DurableFile file(disk, path);
    std::vector<std::byte> buffer(std::size_t{1} << 20);
    const auto from_image = [&](i64 end) {
        while (file.position() < end) {
            const auto part = std::span(buffer).first(
                static_cast<std::size_t>(std::min<i64>(end - file.position(), static_cast<i64>(buffer.size()))));
            image.fetch(static_cast<u64>(file.position()), part.data(), part.size());
            file.append(part);
        }
    };
    for (const Placed& piece : placed) {
        from_image(piece.offset);
        OGROM_ASSERT(file.position() == piece.offset);
        file.append(piece.bytes);
    }
    from_image(image.size());
    return file.finish();
}

h5::Properties virtual_creation(Dtype type, const std::string& file) {
    h5::Properties creation(h5::check(H5Pcreate(H5P_DATASET_CREATE), file, "virtual dataset"));
    h5::check_status(H5Pset_layout(creation.get(), H5D_VIRTUAL), file, "virtual dataset");
    // What no part covers reads as NaN and cannot pass for a value.
    const double nan = std::numeric_limits<double>::quiet_NaN();
    h5::check_status(H5Pset_fill_value(creation.get(), H5T_NATIVE_DOUBLE, &nan), file, "fill value");
    OGROM_ASSERT(type == Dtype::fp32 || type == Dtype::fp64);
    return creation;
}

// Extents of the virtual tensor seen as rows and columns.
struct Rows {
    i64 rows = 1, cols = 1;
};
Rows rows_of(const LogicalTensor& tensor) {
    OGROM_ASSERT(tensor.shape.size() == 1 || tensor.shape.size() == 2);
    return tensor.shape.size() == 1 ? Rows{1, tensor.shape[0]} : Rows{tensor.shape[0], tensor.shape[1]};
}

h5::Space select_block(const LogicalTensor& tensor, const TensorBlock& block, const std::string& file) {
    const bool flat = tensor.shape.size() == 1;
    std::array<hsize_t, 2> extents{}, start{}, count{};
    if (flat) {
        extents[0] = static_cast<hsize_t>(tensor.shape[0]);
        start[0] = static_cast<hsize_t>(block.col);
        count[0] = static_cast<hsize_t>(block.cols);
    } else {
        extents = {static_cast<hsize_t>(tensor.shape[0]), static_cast<hsize_t>(tensor.shape[1])};
        start = {static_cast<hsize_t>(block.row), static_cast<hsize_t>(block.col)};
        count = {static_cast<hsize_t>(block.rows), static_cast<hsize_t>(block.cols)};
    }
    h5::Space space(h5::check(H5Screate_simple(flat ? 1 : 2, extents.data(), nullptr), file, tensor.name));
    h5::check_status(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
                     file, tensor.name);
    return space;
}

h5::Space select_flat(i64 extent, i64 first, i64 count, const std::string& file) {
    const hsize_t whole = static_cast<hsize_t>(extent), start = static_cast<hsize_t>(first),
                  length = static_cast<hsize_t>(count);
    h5::Space space(h5::check(H5Screate_simple(1, &whole, nullptr), file, "source"));
    h5::check_status(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &start, nullptr, &length, nullptr), file,
                     "source");
    return space;
}

void put_tensor(hid_t group, const std::string& group_name, const LogicalTensor& tensor, i64 total, Dtype type,
                int writers, const std::string& file) {
    const Rows rows = rows_of(tensor);
    const h5::Properties creation = virtual_creation(type, file);
    for (int writer = 0; writer < writers; ++writer) {
        const FlatRange range = writer_range(total, writer, writers);
        const i64 first = std::max(range.first, tensor.first) - tensor.first;
        const i64 last = std::min(range.last, tensor.first + tensor.count) - tensor.first;
        if (first >= last) {
            continue;
        }
        std::vector<TensorBlock> blocks = row_blocks(rows.cols, first, last);
        if (fault_active("checkpoint_last_piece_lost") && blocks.size() > 1) {
            blocks.pop_back();
        }
        for (const TensorBlock& block : blocks) {
            const h5::Space target = select_block(tensor, block, file);
            const h5::Space source = select_flat(range.count(), tensor.first + first + block.source - range.first,
                                                 block.rows * block.cols, file);
            h5::check_status(H5Pset_virtual(creation.get(), target.get(), part_name(writer).c_str(),
                                            ("/" + group_name).c_str(), source.get()),
                             file, tensor.name);
        }
    }
    std::vector<hsize_t> extents(tensor.shape.begin(), tensor.shape.end());
    const h5::Space space(
        h5::check(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), file, tensor.name));
    const h5::Dataset made(h5::check(H5Dcreate2(group, tensor.name.c_str(), h5::file_type(type), space.get(),
                                                H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                                     file, tensor.name));
    h5::put(made.get(), "id", tensor.id, file);
}

}  // namespace

template <class T>
FlatState flat_state(const StateView<const T>& state, const ParameterLayout& layout) {
    FlatState flat{dtype_of<T>(), {}};
    const auto add = [&](const char* name, std::span<const T> values) {
        if (!values.empty()) {
            OGROM_ASSERT(static_cast<i64>(values.size()) == layout.size());
            flat.groups.push_back({name, reinterpret_cast<const std::byte*>(values.data())});
        }
    };
    add("weights", state.weights);
    const bool swapped = fault_active("checkpoint_moment_swapped");
    add("moment1", swapped ? state.moment2 : state.moment1);
    add("moment2", swapped ? state.moment1 : state.moment2);
    return flat;
}
template FlatState flat_state<float>(const StateView<const float>&, const ParameterLayout&);
template FlatState flat_state<double>(const StateView<const double>&, const ParameterLayout&);

FileRecord write_part(const Disk& disk, const std::string& folder, const std::vector<LogicalTensor>& tensors,
                      const FlatState& state, int writer, int writers) {
    const std::string path = join_path(folder, part_name(writer));
    const FlatRange range = writer_range(logical_count(tensors), writer, writers);
    const i64 width = size_of(state.type);
    h5::Image image;
    image.create(path);
    h5::put(image.file(), "format", i64{1}, path);
    h5::put(image.file(), "first", range.first, path);
    h5::put(image.file(), "last", range.last, path);
    std::vector<Placed> placed;
    for (const StateGroup& group : state.groups) {
        if (range.count() == 0) {
            break;
        }
        i64 offset = image.reserve(image.file(), group.name, state.type, range.count());
        for (const Overlap& part : overlaps(tensors, range)) {
            const LogicalTensor& tensor = tensors[static_cast<std::size_t>(part.tensor)];
            const i64 bytes = (part.last - part.first) * width;
            place(placed,
                  {offset, {group.data + (tensor.local + part.first) * width, static_cast<std::size_t>(bytes)}});
            offset += bytes;
        }
    }
    image.close();
    return write_image(disk, path, image, placed);
}

FileRecord write_master(const Disk& disk, const std::string& folder, const std::vector<LogicalTensor>& tensors,
                        const FlatState& state, const CheckpointHeader& header, const ModelConfig& model, int writers) {
    const std::string path = join_path(folder, master_name);
    h5::Image image;
    image.create(path);
    put_header(image.file(), header, path);
    put_model(image.file(), model, path);
    h5::put(image.file(), "writers", i64{writers}, path);
    const i64 total = logical_count(tensors);
    for (const StateGroup& state_group : state.groups) {
        const h5::Group group = h5::make_group(image.file(), state_group.name, path);
        for (const LogicalTensor& tensor : tensors) {
            put_tensor(group.get(), state_group.name, tensor, total, state.type, writers, path);
        }
    }
    image.close();
    return write_image(disk, path, image, {});
}

void write_manifest(const Disk& disk, const std::string& folder, const Manifest& manifest) {
    const std::string text = to_text(manifest);
    DurableFile file(disk, join_path(folder, manifest_name));
    file.append(std::as_bytes(std::span(text)));
    file.finish();
}

void commit(const Disk& disk, const std::string& directory, const std::string& temporary, i64 step) {
    const std::string name = step_name(step);
    const std::string target = join_path(directory, name), latest = join_path(directory, "latest");
    if (fault_active("latest_before_durable")) {
        disk.replace_file(latest, name + "\n");
    }
    disk.sync_folder(temporary);
    if (is_directory(target)) {
        disk.exchange(temporary, target);
        disk.remove_tree(temporary);
    } else {
        disk.rename(temporary, target);
    }
    disk.replace_file(latest, name + "\n");
}

i64 checkpoint_bytes(const std::vector<LogicalTensor>& tensors, i64 groups, Dtype type, int writers) {
    return logical_count(tensors) * groups * size_of(type) +
           checkpoint_staging_bytes(static_cast<i64>(tensors.size()), groups, writers) + i64{writers} * 65536;
}

i64 checkpoint_staging_bytes(i64 tensors, i64 groups, int writers) {
    constexpr i64 fixed =
        i64{1}
        << 20;  // hash and copy buffers, HDF5's metadata cache, header texts (a small save adds < 0.5 MiB, measured)
    return fixed + groups * (tensors * 1200 + 3 * (tensors + writers) * 100);
}

}  // namespace ogrom
