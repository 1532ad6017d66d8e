// Comes in: a checkpoint's folder. Goes out: another folder with the same state in other parts. Each part is laid out
// by HDF5 in memory and filled from the source piece by piece on the way to the disk. Next: io/checkpoint_write.cpp
#include "src/io/checkpoint_rewrite.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <span>
#include <vector>

#include "kernels/common/fault.h"

#include "src/base/text.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_write.h"
#include "src/io/hdf5_image.h"
#include "src/io/io_thread.h"
#include "src/io/output_folder.h"
#include "src/io/replay_trace.h"

namespace ogrom {
namespace {

// Elements [first, last) of the logical tensors one behind the other, as the pieces that a part holds.
std::vector<TensorPiece> pieces_of(const ParameterTable& table, FlatRange range) {
    std::vector<TensorPiece> list;
    i64 start = 0;
    for (const Parameter& tensor : table.rows()) {
        if (!tensor.tie.empty()) {
            continue;
        }
        const i64 first = std::max(range.first - start, i64{0}), last = std::min(range.last - start, tensor.count());
        if (first < last) {
            for (TensorPiece piece : row_blocks(extent_of(tensor).cols, first, last)) {
                piece.tensor = tensor.id;
                list.push_back(piece);
            }
        }
        start += tensor.count();
    }
    return list;
}

// Calls `use` with the first element and the number of elements of stretches of at most rewrite_piece_bytes.
void in_stretches(FlatRange range, Dtype type, const std::function<void(i64 first, i64 count)>& use) {
    const i64 most = rewrite_piece_bytes / size_of(type);
    for (i64 first = range.first; first < range.last; first += most) {
        use(first, std::min(most, range.last - first));
    }
}

class Rewrite {
public:
    Rewrite(const StateSource& source, int writers)
        : source_(source), writers_(writers), groups_(source.groups()), placement_(source.table().rows()) {
        if (fault_active("convert_group_dropped") && groups_.size() > 1) {
            groups_.pop_back();
        }
        for (int writer = 0; writer < writers_; ++writer) {
            pieces_.push_back(pieces_of(source.table(), writer_range(source.table().count(), writer, writers)));
            for (const std::string& group : groups_) {
                placement_.add(writer, group, pieces_.back());
            }
        }
        placement_.require_whole();
    }
    [[nodiscard]] i64 bytes() const { return placement_.elements() * size_of(source_.type()); }
    [[nodiscard]] i64 elements() const { return placement_.elements(); }

    Manifest write(const Disk& disk, const std::string& folder) {
        Manifest manifest{1, source_.header().step, {}};
        for (int writer = 0; writer < writers_; ++writer) {
            if (!pieces_[static_cast<std::size_t>(writer)].empty()) {
                manifest.files.push_back(write_part(disk, folder, writer));
            }
        }
        manifest.files.push_back(on_io_thread([&] {
            return write_file(disk, folder,
                              lay_out_master(placement_, source_.type(), source_.header(), source_.model()));
        }));
        write_manifest(disk, folder, manifest);
        return manifest;
    }

private:
    FileRecord write_part(const Disk& disk, const std::string& folder, int writer) {
        const std::vector<TensorPiece>& pieces = pieces_[static_cast<std::size_t>(writer)];
        i64 count = 0;
        for (const TensorPiece& piece : pieces) {
            count += piece.count();
        }
        h5::Image image;
        std::vector<i64> offsets;
        on_io_thread([&] {
            image.create(part_name(writer));
            h5::put(image.file(), "format", i64{1}, part_name(writer));
            h5::put(image.file(), "writer", i64{writer}, part_name(writer));
            for (const std::string& group : groups_) {
                offsets.push_back(image.reserve(image.file(), group, source_.type(), count));
            }
            image.close();
        });
        return write_around(disk, join_path(folder, part_name(writer)), image, offsets,
                            [&](std::size_t group, DurableFile& file) {
                                for (const TensorPiece& piece : pieces) {
                                    append(groups_[group], piece, file);
                                }
                            });
    }

    void append(const std::string& group, const TensorPiece& piece, DurableFile& file) {
        const Parameter& tensor = source_.table().rows()[static_cast<std::size_t>(piece.tensor)];
        // Rows of a logical range are whole, but for a first and a last that stand alone: elements without gaps.
        const i64 start = piece.row * extent_of(tensor).cols + piece.col;
        in_stretches({start, start + piece.count()}, source_.type(), [&](i64 first, i64 stretch) {
            buffer_.resize(static_cast<std::size_t>(stretch * size_of(source_.type())));
            source_.read(group, tensor, first, stretch, buffer_.data());
            file.append(buffer_);
        });
    }

    const StateSource& source_;
    int writers_;
    std::vector<std::string> groups_;
    Placement placement_;
    std::vector<std::vector<TensorPiece>> pieces_;  // by writer
    std::vector<std::byte> buffer_;
};

template <class T>
u64 hash_piece(const std::vector<std::byte>& bytes, const ParameterLayout& layout, i64 first) {
    const i64 count = static_cast<i64>(bytes.size() / sizeof(T));
    return weight_hash<T>(reinterpret_cast<const T*>(bytes.data()), {first, first + count}, layout);
}

// What stands on the disk now, against the source. Returns the hash of the weights that were read back.
u64 compare(const StateSource& source, const CheckpointReader& copy) {
    const ParameterLayout layout(copy.table(), StageSpan{.first_layer = 0, .last_layer = copy.model().layers});
    const Dtype type = copy.type();
    std::vector<std::byte> wanted, found;
    u64 hash = 0;
    for (const std::string& group : copy.groups()) {
        for (const LocalTensor& local : layout.tensors()) {
            const Parameter& tensor = *local.parameter;
            if (!tensor.tie.empty()) {
                continue;
            }
            in_stretches({0, tensor.count()}, type, [&](i64 first, i64 count) {
                wanted.resize(static_cast<std::size_t>(count * size_of(type)));
                found.resize(wanted.size());
                source.read(group, tensor, first, count, wanted.data());
                copy.read(group, tensor, first, count, found.data());
                require(std::memcmp(wanted.data(), found.data(), found.size()) == 0, ExitCode::checkpoint,
                        fmt::format("{}: /{}/{}: what was written reads back as something else; the disk or memory "
                                    "of this machine is at fault",
                                    copy.folder(), group, tensor.name));
                if (group == "weights") {
                    const i64 at = local.offset + first;
                    hash += type == Dtype::fp64 ? hash_piece<double>(found, layout, at)
                                                : hash_piece<float>(found, layout, at);
                }
            });
        }
    }
    return hash;
}

void verify(const StateSource& source, const std::string& folder) {
    const CheckpointReader copy(folder, Kept::everything);
    require(copy.groups() == source.groups(), ExitCode::checkpoint,
            fmt::format("{}: the groups {} were written, {} were asked for", folder, join(copy.groups(), ", "),
                        join(source.groups(), ", ")));
    const u64 hash = compare(source, copy);
    require(hash == source.header().weight_hash, ExitCode::checkpoint,
            fmt::format("{}: the weights have the hash {:016x}, those that were saved had {:016x}; nothing was "
                        "written",
                        source.folder(), hash, source.header().weight_hash));
}

// What a run recorded of the steps after the save (not in the manifest, since it is written later): it is of the state,
// not of the parts.
void copy_trace(const std::string& from, const Disk& disk, const std::string& to) {
    constexpr i64 longest = i64{64} << 20;
    const std::string path = join_path(from, replay_trace_name);
    if (file_surely_exists(path)) {
        const std::string text = read_file(path, longest);
        DurableFile file(disk, join_path(to, replay_trace_name));
        file.append(std::as_bytes(std::span(text)));
        file.finish();
    }
}

}  // namespace

RewriteReport rewrite_checkpoint(const std::string& checkpoint, const std::string& out, int writers, Kept kept) {
    return write_checkpoint(CheckpointReader(checkpoint, kept), out, writers, kept);
}

u64 hash_weights(const StateSource& source) {
    const ParameterLayout layout(source.table(), StageSpan{.first_layer = 0, .last_layer = source.model().layers});
    std::vector<std::byte> bytes;
    u64 hash = 0;
    for (const LocalTensor& local : layout.tensors()) {
        if (!local.parameter->tie.empty()) {
            continue;
        }
        in_stretches({0, local.parameter->count()}, source.type(), [&](i64 first, i64 count) {
            bytes.resize(static_cast<std::size_t>(count * size_of(source.type())));
            source.read("weights", *local.parameter, first, count, bytes.data());
            const i64 at = local.offset + first;
            hash += source.type() == Dtype::fp64 ? hash_piece<double>(bytes, layout, at)
                                                 : hash_piece<float>(bytes, layout, at);
        });
    }
    return hash;
}

RewriteReport write_checkpoint(const StateSource& source, const std::string& out, int writers, Kept kept) {
    OGROM_ASSERT(writers >= 1);
    const std::string name = std::filesystem::path(out).lexically_normal().filename().string();
    const std::optional<i64> named = step_of(name);
    if (named && *named != source.header().step) {
        fail(ExitCode::usage,
             fmt::format("{}: is named for step {}, {} is of step {}; would be right: {} or a name "
                         "without a step",
                         out, *named, source.folder(), source.header().step, step_name(source.header().step)));
    }
    const Disk disk;
    OutputFolder folder(disk, out);
    Rewrite rewrite(source, writers);
    folder.require_room(rewrite.bytes());
    const Manifest manifest = rewrite.write(disk, folder.path());
    verify(source, folder.path());
    if (kept == Kept::everything) {
        copy_trace(source.folder(), disk, folder.path());
    }
    folder.commit();
    RewriteReport report{source.header().step, static_cast<i64>(source.groups().size()), rewrite.elements(),
                         static_cast<i64>(manifest.files.size()), 0};
    for (const FileRecord& record : manifest.files) {
        report.bytes += record.bytes;
    }
    return report;
}

}  // namespace ogrom
