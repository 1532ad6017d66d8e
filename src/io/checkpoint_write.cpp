#include "src/io/checkpoint_write.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <limits>

#include "kernels/common/fault.h"

#include "src/base/log.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_header.h"
#include "src/io/checkpoint_load.h"
#include "src/io/checkpoint_shared.h"
#include "src/io/hdf5_image.h"

namespace ogrom {

namespace {

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

h5::Properties virtual_creation(Dtype type, const std::string& file) {
    h5::Properties creation(h5::check(H5Pcreate(H5P_DATASET_CREATE), file, "virtual dataset"));
    h5::check_status(H5Pset_layout(creation.get(), H5D_VIRTUAL), file, "virtual dataset");
    // What no part covers reads as NaN and cannot pass for a value.
    const double nan = std::numeric_limits<double>::quiet_NaN();
    h5::check_status(H5Pset_fill_value(creation.get(), H5T_NATIVE_DOUBLE, &nan), file, "fill value");
    OGROM_ASSERT(type == Dtype::fp32 || type == Dtype::fp64);
    return creation;
}

h5::Space select_block(const Parameter& tensor, const TensorPiece& block, const std::string& file) {
    const int dimensions = static_cast<int>(tensor.shape.size());
    std::array<hsize_t, 2> extents{}, start{}, count{};
    std::copy(tensor.shape.begin(), tensor.shape.end(), extents.begin());
    start = {static_cast<hsize_t>(block.row), static_cast<hsize_t>(block.col)};
    count = {static_cast<hsize_t>(block.rows), static_cast<hsize_t>(block.cols)};
    h5::Space space(h5::check(H5Screate_simple(dimensions, extents.data(), nullptr), file, tensor.name));
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

void put_tensor(hid_t parent, const PlacedGroup& group, const Parameter& tensor, Dtype type, const std::string& file) {
    const h5::Properties creation = virtual_creation(type, file);
    std::vector<PlacedPiece> placed = group.tensors[static_cast<std::size_t>(tensor.id)];
    if (fault_active("checkpoint_last_piece_lost") && placed.size() > 1) {
        placed.pop_back();
    }
    for (const PlacedPiece& one : placed) {
        const h5::Space target = select_block(tensor, one.piece, file);
        const h5::Space source = select_flat(group.extents.at(one.writer), one.piece.source, one.piece.count(), file);
        h5::check_status(H5Pset_virtual(creation.get(), target.get(), part_name(one.writer).c_str(),
                                        ("/" + group.name).c_str(), source.get()),
                         file, tensor.name);
    }
    std::vector<hsize_t> extents(tensor.shape.begin(), tensor.shape.end());
    const h5::Space space(
        h5::check(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), file, tensor.name));
    const h5::Dataset made(h5::check(H5Dcreate2(parent, tensor.name.c_str(), h5::file_type(type), space.get(),
                                                H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                                     file, tensor.name));
    h5::put(made.get(), "id", tensor.id, file);
}

void check_group_name(const std::string& name, const std::vector<PartGroup>& known) {
    const bool plain = !name.empty() && name.size() <= 100 && name != "." && name != ".." &&
                       std::all_of(name.begin(), name.end(), [](char c) {
                           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                                  c == '_' || c == '-' || c == '.';
                       });
    const bool taken =
        std::any_of(known.begin(), known.end(), [&](const PartGroup& group) { return group.name == name; });
    if (!plain || taken || !holds_state(name)) {
        fail(ExitCode::checkpoint,
             fmt::format("a checkpoint cannot hold {} \"{}\": up to 100 of letters, digits, '_', '-', '.' are wanted, "
                         "not header, extra or model",
                         taken ? "a second group" : "a group", name));
    }
}

}  // namespace

i64 PartGroup::count() const {
    i64 elements = 0;
    for (const TensorPiece& piece : pieces) {
        elements += piece.count();
    }
    return elements;
}

bool Part::empty() const {
    return std::all_of(groups.begin(), groups.end(), [](const PartGroup& group) { return group.pieces.empty(); });
}

template <class T>
Part make_part(const ParameterLayout& layout, std::span<const StateGroup<const T>> to_write) {
    Part part{dtype_of<T>(), {}};
    for (const StateGroup<const T>& state : to_write) {
        check_group_name(state.name, part.groups);
        PartGroup group{state.name, {}, {}};
        for (const HeldRange<const T>& range : state.ranges) {
            OGROM_ASSERT(range.flat.first >= 0 && range.flat.last <= layout.size());
            for (const TensorPiece& piece : pieces(layout, range.flat)) {
                group.pieces.push_back(piece);
                group.memory.push_back(reinterpret_cast<const std::byte*>(range.data + piece.source));
            }
        }
        part.groups.push_back(std::move(group));
    }
    if (fault_active("checkpoint_moment_swapped") && part.groups.size() == 3) {
        std::swap(part.groups[1].memory, part.groups[2].memory);
    }
    return part;
}
template Part make_part<float>(const ParameterLayout&, std::span<const StateGroup<const float>>);
template Part make_part<double>(const ParameterLayout&, std::span<const StateGroup<const double>>);

// For each group: length of the name, the name in words of 8 bytes, number of pieces, five words for each.
std::vector<u64> pack(const Part& part) {
    std::vector<u64> words;
    for (const PartGroup& group : part.groups) {
        words.push_back(group.name.size());
        const std::size_t name = words.size();
        words.resize(name + static_cast<std::size_t>(ceil_div(static_cast<i64>(group.name.size()), 8)));
        std::memcpy(words.data() + name, group.name.data(), group.name.size());
        words.push_back(group.pieces.size());
        for (const TensorPiece& piece : group.pieces) {
            for (const i64 value : {piece.tensor, piece.row, piece.col, piece.rows, piece.cols}) {
                words.push_back(static_cast<u64>(value));
            }
        }
    }
    return words;
}

void unpack(std::span<const u64> message, int writer, Placement& placement) {
    std::size_t at = 0;
    const auto next = [&] {
        OGROM_ASSERT(at < message.size());
        return message[at++];
    };
    while (at < message.size()) {
        const std::size_t length = next();
        const std::size_t words = static_cast<std::size_t>(ceil_div(static_cast<i64>(length), 8));
        OGROM_ASSERT(words <= message.size() - at);
        const std::string name(reinterpret_cast<const char*>(message.data() + at), length);
        at += words;
        std::vector<TensorPiece> list(next());
        for (TensorPiece& piece : list) {
            for (i64* value : {&piece.tensor, &piece.row, &piece.col, &piece.rows, &piece.cols}) {
                *value = static_cast<i64>(next());
            }
        }
        placement.add(writer, name, list);
    }
}

PlannedFile lay_out_part(const Part& part, int writer) {
    PlannedFile file;
    file.name = part_name(writer);
    const i64 width = size_of(part.type);
    const auto image = std::make_shared<h5::Image>();
    image->create(file.name);
    h5::put(image->file(), "format", i64{1}, file.name);
    h5::put(image->file(), "writer", i64{writer}, file.name);
    for (const PartGroup& group : part.groups) {
        if (group.pieces.empty()) {
            continue;
        }
        i64 offset = image->reserve(image->file(), group.name, part.type, group.count());
        for (std::size_t i = 0; i < group.pieces.size(); ++i) {
            const i64 bytes = group.pieces[i].count() * width;
            place(file.placed, {offset, {group.memory[i], static_cast<std::size_t>(bytes)}});
            offset += bytes;
        }
    }
    image->close();
    file.image = image;
    return file;
}

PlannedFile lay_out_master(const Placement& placement, Dtype type, const CheckpointHeader& header,
                           const ModelConfig& model) {
    PlannedFile file;
    file.name = master_name;
    const auto image = std::make_shared<h5::Image>();
    image->create(file.name);
    put_header(image->file(), header, file.name);
    put_model(image->file(), model, file.name);
    h5::put(image->file(), "writers", placement.writers(), file.name);
    for (const PlacedGroup& state : placement.groups()) {
        const h5::Group group = h5::make_group(image->file(), state.name, file.name);
        for (const Parameter& tensor : placement.table()) {
            if (tensor.tie.empty()) {
                put_tensor(group.get(), state, tensor, type, file.name);
            }
        }
    }
    image->close();
    file.image = image;
    return file;
}

i64 PlannedFile::bytes() const {
    return image->size();
}

FileRecord write_around(const Disk& disk, const std::string& path, const h5::Image& image, std::span<const i64> offsets,
                        const std::function<void(std::size_t stretch, DurableFile& file)>& append) {
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
    for (std::size_t stretch = 0; stretch < offsets.size(); ++stretch) {
        from_image(offsets[stretch]);
        OGROM_ASSERT(file.position() == offsets[stretch]);
        append(stretch, file);
    }
    from_image(image.size());
    return file.finish();
}

FileRecord write_file(const Disk& disk, const std::string& folder, const PlannedFile& file) {
    std::vector<i64> offsets;
    for (const Placed& piece : file.placed) {
        offsets.push_back(piece.offset);
    }
    return write_around(disk, join_path(folder, file.name), *file.image, offsets,
                        [&](std::size_t piece, DurableFile& out) { out.append(file.placed[piece].bytes); });
}

void write_manifest(const Disk& disk, const std::string& folder, const Manifest& manifest) {
    const std::string text = to_text(manifest);
    DurableFile file(disk, join_path(folder, manifest_name));
    file.append(std::as_bytes(std::span(text)));
    file.finish();
}

namespace {

// A complete checkpoint whose parts are not those of the new one, byte for byte: of a run that went another way from an
// earlier step, or that was written by another number of ranks.
bool holds_another_state(const std::string& old, const std::string& fresh) {
    if (named_format(old).value_or(1) > 1) {
        return true;  // a newer version wrote it
    }
    if (!incomplete_reason(old).empty()) {
        return false;
    }
    const auto parts = [](const std::string& folder) {
        std::vector<FileRecord> files = read_manifest(folder).files;
        std::erase_if(files, [](const FileRecord& record) { return record.file == master_name; });
        return files;
    };
    return parts(old) != parts(fresh);
}

}  // namespace

void commit(const Disk& disk, const std::string& directory, const std::string& temporary, i64 step) {
    const std::string name = step_name(step);
    const std::string target = join_path(directory, name), latest = join_path(directory, "latest");
    if (fault_active("latest_before_durable")) {
        disk.replace_file(latest, name + "\n");
    }
    disk.sync_folder(temporary);
    if (is_directory(target)) {
        const bool another = holds_another_state(target, temporary);
        disk.exchange(temporary, target);
        if (another) {
            const std::string aside = abandoned_name(target);
            disk.rename(temporary, aside);
            log_warning("{} held another state of this step: set aside as {}", target, aside);
        } else {
            disk.remove_tree(temporary);
        }
    } else {
        if (std::filesystem::exists(std::filesystem::symlink_status(target))) {
            const std::string aside = abandoned_name(target);
            disk.rename(target, aside);
            log_warning("{} was no folder: set aside as {}", target, aside);
        }
        disk.rename(temporary, target);
    }
    try {
        disk.replace_file(latest, name + "\n");
    } catch (const Error& error) {  // a name for people: the checkpoint is durable, and a resume goes by folders
        log_warning("{} does not name {}: {}", latest, name, error.what());
    }
}

i64 checkpoint_bytes(std::span<const i64> parts, i64 master) {
    constexpr i64 file_system_block = 4096;
    Manifest manifest;
    i64 total = 0;
    const auto add = [&](const std::string& file, i64 bytes) {
        const i64 blocks = ceil_div(bytes, manifest_block_bytes);
        manifest.files.push_back({file, bytes, std::vector<BlockHash>(static_cast<std::size_t>(blocks))});
        total += round_up(bytes, file_system_block);
    };
    for (std::size_t writer = 0; writer < parts.size(); ++writer) {
        if (parts[writer] > 0) {
            add(part_name(static_cast<int>(writer)), parts[writer]);
        }
    }
    add(master_name, master);
    return total + round_up(static_cast<i64>(to_text(manifest).size()), file_system_block);
}

i64 checkpoint_staging_bytes(i64 tensors, i64 groups, int writers) {
    // Hash and copy buffers, HDF5's metadata cache, header texts (a small save adds < 0.5 MiB, measured).
    constexpr i64 fixed = i64{1} << 20;
    const i64 mappings = 3 * groups * (tensors + writers);
    const i64 exchange = std::min(gather_round_bytes, 40 * groups * (tensors + 6) * writers);
    return fixed + groups * tensors * 1200 + mappings * (100 + static_cast<i64>(sizeof(PlacedPiece))) + exchange;
}

}  // namespace ogrom
