// A load over all ranks, under any layout. Comes in: a step folder. Goes out: this rank's ranges of its flat state.
#include "src/io/checkpoint_load.h"

#include <algorithm>
#include <fmt/format.h>
#include <xxhash.h>

#include "kernels/common/fault.h"

#include "src/base/file.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_mapping.h"
#include "src/io/checkpoint_shared.h"
#include "src/io/io_thread.h"

namespace ogrom {

namespace {

constexpr std::size_t listed_differences = 200;
constexpr i64 read_piece_bytes = i64{256} << 20;

void refuse(const Match& match, const std::string& path) {
    const std::vector<std::string> lines = match.lines();
    std::string message = fmt::format("{}: {} tensors do not match this run:", path, lines.size());
    for (std::size_t i = 0; i < lines.size() && i < listed_differences; ++i) {
        message += "\n  " + lines[i];
    }
    if (lines.size() > listed_differences) {
        message += fmt::format("\n  ... and {} more", lines.size() - listed_differences);
    }
    fail(ExitCode::checkpoint, message + "\n  checkpoint.strict = false loads what matches and lists the rest");
}

// A rectangle of a dataset, row-major without gaps to `to`, in pieces of whole rows below 256 MiB.
void read_slab(hid_t dataset, const std::string& file, const std::string& item, std::vector<hsize_t> start,
               std::vector<hsize_t> count, Dtype type, std::byte* to) {
    i64 row = 1;
    for (std::size_t i = 1; i < count.size(); ++i) {
        row *= static_cast<i64>(count[i]);
    }
    if (count.empty() || count[0] == 0 || row == 0) {
        return;
    }
    const i64 rows = static_cast<i64>(count[0]), step = std::max<i64>(1, read_piece_bytes / (row * size_of(type)));
    const h5::Space source(h5::check(H5Dget_space(dataset), file, item));
    for (i64 first = 0; first < rows; first += step, start[0] += count[0]) {
        count[0] = static_cast<hsize_t>(std::min(step, rows - first));
        h5::check_status(
            H5Sselect_hyperslab(source.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), file,
            item);
        const hsize_t elements = count[0] * static_cast<hsize_t>(row);
        const h5::Space memory(h5::check(H5Screate_simple(1, &elements, nullptr), file, item));
        h5::check_status(H5Dread(dataset, h5::memory_type(type), memory.get(), source.get(), H5P_DEFAULT,
                                 to + first * row * size_of(type)),
                         file, item);
    }
}

// Padding of the tensors that are read is zero.
void clear_padding(const ParameterLayout& layout, const HeldRange<std::byte>& range, const std::vector<bool>& usable,
                   i64 width) {
    for (const LocalTensor& tensor : layout.tensors()) {
        const i64 first = std::max(range.flat.first, tensor.offset + tensor.logical);
        const i64 last = std::min(range.flat.last, tensor.offset + tensor.count);
        if (first < last && usable[static_cast<std::size_t>(stored_tensor(layout.table(), *tensor.parameter))]) {
            std::fill_n(range.data + (first - range.flat.first) * width, (last - first) * width, std::byte{0});
        }
    }
}

// Pieces come in the order of the buffer, so each tensor is opened once for a range. Returns the bytes read.
i64 read_range(hid_t file_id, const std::string& file, const std::string& group, const ParameterLayout& layout,
               const HeldRange<std::byte>& range, const std::vector<bool>& usable, Dtype type) {
    i64 opened = -1;
    std::string item;
    h5::Dataset dataset;
    return fill_range(layout, range, usable, type,
                      [&](const Parameter& tensor, const TensorPiece& piece, std::byte* to) {
                          if (piece.tensor != opened) {
                              item = "/" + group + "/" + tensor.name;
                              dataset = h5::open_dataset(file_id, item, file);
                              opened = piece.tensor;
                          }
                          read_piece(dataset.get(), file, item, tensor, piece, type, to);
                      });
}

// Ranks with equal signatures have the same flat buffer.
u64 signature(const ParameterLayout& layout) {
    std::vector<i64> words = {layout.part().rank};
    for (const LocalTensor& tensor : layout.tensors()) {
        words.insert(words.end(), {tensor.parameter->id, tensor.offset, tensor.count, tensor.row0, tensor.col0});
    }
    return XXH3_64bits(words.data(), words.size() * sizeof(i64));
}

// Hash of the weights over all ranks, each element counted on the lowest rank that holds it. Layouts differ between
// stages and tensor ranks, which hold different elements (or replicas that weight_hash counts once by itself).
template <class T>
u64 hash_over_ranks(Communicator& world, const ParameterLayout& layout, std::span<const HeldRange<T>> held) {
    std::vector<u64> mine = {signature(layout)};
    for (const HeldRange<T>& range : held) {
        mine.push_back(static_cast<u64>(range.flat.first));
        mine.push_back(static_cast<u64>(range.flat.last));
    }
    const auto all = gather_words(world, mine, Receivers::all, "checkpoint.held");
    std::vector<FlatRange> taken;
    for (int rank = 0; rank < world.rank() && !fault_active("hash_counts_replicas"); ++rank) {
        const std::vector<u64>& other = all[static_cast<std::size_t>(rank)];
        for (std::size_t i = 1; other[0] == mine[0] && i + 1 < other.size(); i += 2) {
            taken.push_back({static_cast<i64>(other[i]), static_cast<i64>(other[i + 1])});
        }
    }
    u64 sum = 0;
    for (const HeldRange<T>& range : held) {
        for (const FlatRange& part : remainder(range.flat, taken)) {
            sum += weight_hash<T>(range.data + (part.first - range.flat.first), part, layout);
        }
    }
    u64 whole = 0;
    for (const std::vector<u64>& part : gather_words(world, {&sum, 1}, Receivers::all, "checkpoint.hash")) {
        whole += part[0];
    }
    return whole;
}

// The step folder that is meant, complete and unchanged; its manifest in `manifest`. Returns the bytes hashed here.
i64 verify_files(const std::string& folder, Manifest& manifest, int share, int shares) {
    if (const std::string reason = incomplete_reason(folder); !reason.empty()) {
        fail(ExitCode::checkpoint, fmt::format("{} is not a complete checkpoint: {}", folder, reason));
    }
    manifest = read_manifest(folder);
    return verify_manifest(folder, manifest, share, shares);
}

template <class T>
std::span<const HeldRange<T>> ranges_of(std::span<const StateGroup<T>> groups, std::string_view name) {
    const auto found =
        std::find_if(groups.begin(), groups.end(), [&](const StateGroup<T>& group) { return group.name == name; });
    return found == groups.end() ? std::span<const HeldRange<T>>() : std::span<const HeldRange<T>>(found->ranges);
}

}  // namespace

i64 fill_range(const ParameterLayout& layout, const HeldRange<std::byte>& range, const std::vector<bool>& usable,
               Dtype type, const ReadPiece& read) {
    i64 bytes = 0;
    for (const TensorPiece& piece : pieces(layout, range.flat, Copies::all)) {
        if (usable[static_cast<std::size_t>(piece.tensor)]) {
            read(layout.table()[static_cast<std::size_t>(piece.tensor)], piece,
                 range.data + piece.source * size_of(type));
            bytes += piece.count() * size_of(type);
        }
    }
    clear_padding(layout, range, usable, size_of(type));
    return bytes;
}

// A part holds plain datasets of its own bytes: a source that reads on from elsewhere would leave the folder.
void check_parts(const std::string& folder, const Manifest& manifest, int share, int shares) {
    for (std::size_t i = 0; i < manifest.files.size(); ++i) {
        if (manifest.files[i].file == master_name || static_cast<int>(i) % shares != share) {
            continue;
        }
        const std::string path = join_path(folder, manifest.files[i].file);
        const h5::File file = h5::open_read(path);
        for (const h5::Object& object : h5::list(file.get(), path)) {
            const h5::Dataset dataset = h5::open_dataset(file.get(), "/" + object.name, path);
            const h5::Properties creation(h5::check(H5Dget_create_plist(dataset.get()), path, object.name));
            require(H5Pget_layout(creation.get()) == H5D_CONTIGUOUS && H5Pget_external_count(creation.get()) == 0,
                    ExitCode::checkpoint,
                    fmt::format("{}: /{} does not hold its own data in one piece; refused", path, object.name));
        }
    }
}

template <class T>
LoadTarget load_target(std::span<const StateGroup<T>> wanted, const ParameterLayout& layout) {
    LoadTarget target{dtype_of<T>(), {}, false, Types::same};
    for (const StateGroup<T>& group : wanted) {
        LoadGroup into{group.name, {}};
        for (const HeldRange<T>& range : group.ranges) {
            OGROM_ASSERT(range.flat.first >= 0 && range.flat.last <= layout.size());
            into.ranges.push_back({range.flat, reinterpret_cast<std::byte*>(range.data)});
        }
        target.groups.push_back(std::move(into));
        target.training = target.training || group.name != "weights";
    }
    return target;
}
template LoadTarget load_target<float>(std::span<const StateGroup<float>>, const ParameterLayout&);
template LoadTarget load_target<double>(std::span<const StateGroup<double>>, const ParameterLayout&);

LoadResult load_state(const std::string& folder, const Manifest& manifest, const ParameterLayout& layout,
                      const LoadTarget& target, bool strict) {
    const std::string path = join_path(folder, master_name);
    const h5::File file = h5::open_read(path);
    const Match match = match_tensors(file.get(), path, layout.table(), target, manifest);
    if (strict && !match.exact()) {
        refuse(match, path);
    }
    LoadResult result{match.lines(), 0};
    for (std::size_t g = 0; g < target.groups.size(); ++g) {
        for (const HeldRange<std::byte>& range : target.groups[g].ranges) {
            result.bytes_read +=
                read_range(file.get(), path, target.groups[g].name, layout, range, match.usable[g], target.type);
        }
    }
    return result;
}

void read_dataset(hid_t dataset, const std::string& file, const std::string& item, Dtype type, std::byte* to) {
    const std::vector<i64> shape = h5::shape(dataset, file, item);
    if (is_virtual(dataset, file, item)) {
        read_virtual(dataset, file, item, {0, 0, 0, shape.at(0), shape.size() == 1 ? 1 : shape.at(1), 0}, type, to);
        return;
    }
    read_slab(dataset, file, item, std::vector<hsize_t>(shape.size()), {shape.begin(), shape.end()}, type, to);
}

void read_piece(hid_t dataset, const std::string& file, const std::string& item, const Parameter& tensor,
                const TensorPiece& piece, Dtype type, std::byte* to) {
    if (is_virtual(dataset, file, item)) {
        read_virtual(dataset, file, item, piece, type, to);
        return;
    }
    std::vector<hsize_t> start = {static_cast<hsize_t>(piece.row), static_cast<hsize_t>(piece.col)};
    std::vector<hsize_t> count = {static_cast<hsize_t>(piece.rows), static_cast<hsize_t>(piece.cols)};
    start.resize(tensor.shape.size());
    count.resize(tensor.shape.size());
    read_slab(dataset, file, item, std::move(start), std::move(count), type, to);
}

namespace {

// What `look` finds wrong on any rank, the lowest first. Files that the system does not give (no permission, an
// input/output error) end the job: they may be intact.
std::string found_by_ranks(Communicator& world, const char* what, const std::function<void()>& look) {
    std::string mine;
    share_result(world, what, [&] {
        try {
            look();
        } catch (const FileError& error) {
            if (!error.absent()) {
                throw;
            }
            mine = error.what();
        } catch (const Error& error) {
            if (error.code() != ExitCode::checkpoint) {
                throw;
            }
            mine = error.what();
        }
        return std::string();
    });
    for (const std::string& found : gather_text(world, mine, "checkpoint.damage")) {
        if (!found.empty()) {
            return found;
        }
    }
    return {};
}

}  // namespace

// HDF5, which crashes on some bytes, is given a file only after every block of every file was hashed on some rank.
std::string damage_of(Communicator& world, const std::string& checkpoint) {
    Manifest manifest;
    const std::string damage = found_by_ranks(
        world, "checkpoint.verify", [&] { (void)verify_files(checkpoint, manifest, world.rank(), world.size()); });
    return !damage.empty() ? damage : found_by_ranks(world, "checkpoint.parts", [&] {
        on_io_thread([&] { check_parts(checkpoint, manifest, world.rank(), world.size()); });
    });
}

template <class T>
LoadReport load_checkpoint(Communicator& world, const std::string& checkpoint, const ParameterLayout& layout,
                           std::span<const StateGroup<T>> wanted, bool strict, std::vector<std::string>& skipped,
                           Hashes hashes, Types types) {
    std::string folder;
    Manifest manifest;
    LoadReport report;
    share_result(world, "checkpoint.verify", [&] {
        folder = resolve_checkpoint(checkpoint);
        if (hashes == Hashes::check) {
            report.bytes_verified = verify_files(folder, manifest, world.rank(), world.size());
        } else {
            manifest = read_manifest(folder);
        }
        return std::string();
    });
    if (hashes == Hashes::check) {
        share_result(world, "checkpoint.parts", [&] {
            on_io_thread([&] { check_parts(folder, manifest, world.rank(), world.size()); });
            return std::string();
        });
    }
    LoadResult result;
    CheckpointHeader header;
    share_result(world, "checkpoint.read", [&] {
        LoadTarget target = load_target<T>(wanted, layout);
        target.types = types;
        result = on_io_thread([&] { return load_state(folder, manifest, layout, target, strict); });
        header = read_header(folder);
        require(
            header.step == manifest.step, ExitCode::checkpoint,
            fmt::format("{}: step {} in {}, {} in {}", folder, header.step, master_name, manifest.step, manifest_name));
        return std::string();
    });
    report.bytes_read = result.bytes_read;
    skipped.insert(skipped.end(), result.left_out.begin(), result.left_out.end());
    const bool has_weights =
        std::any_of(wanted.begin(), wanted.end(), [](const StateGroup<T>& group) { return group.name == "weights"; });
    if (result.left_out.empty() && has_weights) {
        const u64 hash = hash_over_ranks<T>(world, layout, ranges_of<T>(wanted, "weights"));
        require(hash == header.weight_hash, ExitCode::checkpoint,
                fmt::format("{}: the weights that were read have the hash {:016x}, those that were saved had {:016x}",
                            join_path(folder, master_name), hash, header.weight_hash));
    }
    return report;
}
template LoadReport load_checkpoint<float>(Communicator&, const std::string&, const ParameterLayout&,
                                           std::span<const StateGroup<float>>, bool, std::vector<std::string>&, Hashes,
                                           Types);
template LoadReport load_checkpoint<double>(Communicator&, const std::string&, const ParameterLayout&,
                                            std::span<const StateGroup<double>>, bool, std::vector<std::string>&,
                                            Hashes, Types);

template <class T>
LoadReport load_checkpoint(Communicator& comm, const std::string& checkpoint, const ParameterLayout& layout,
                           const StateView<T>& state, bool strict, std::vector<std::string>& skipped) {
    const auto groups = state_groups(state, {0, layout.size()});
    return load_checkpoint<T>(comm, checkpoint, layout, std::span(groups), strict, skipped);
}
template LoadReport load_checkpoint<float>(Communicator&, const std::string&, const ParameterLayout&,
                                           const StateView<float>&, bool, std::vector<std::string>&);
template LoadReport load_checkpoint<double>(Communicator&, const std::string&, const ParameterLayout&,
                                            const StateView<double>&, bool, std::vector<std::string>&);

}  // namespace ogrom
