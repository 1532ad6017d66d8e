#include "src/io/describe.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <map>

#include "src/base/file.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_load.h"
#include "src/io/checkpoint_mapping.h"
#include "src/io/hdf5.h"
#include "src/io/io_thread.h"
#include "src/io/manifest.h"

namespace ogrom {

namespace {

constexpr std::size_t most_entries = 1'000'000;
constexpr int deepest = 64;
constexpr i64 piece_bytes = i64{16} << 20;

i64 elements_of(const std::vector<i64>& shape) {
    i64 count = 1;
    for (const i64 extent : shape) {
        if (extent != 0 && count > std::numeric_limits<i64>::max() / 16 / extent) {
            return std::numeric_limits<i64>::max() / 16;  // more than any file holds
        }
        count *= extent;
    }
    return count;
}

InspectEntry describe_dataset(hid_t file_id, const std::string& path, const std::string& file) {
    const h5::Dataset dataset = h5::open_dataset(file_id, path, file);
    const h5::Type type(h5::check(H5Dget_type(dataset.get()), file, path));
    const std::optional<Dtype> known = h5::dtype(type.get());
    InspectEntry entry{
        path, "dataset", known ? std::string(name_of(*known)) : "other", h5::shape(dataset.get(), file, path), 0, {}};
    if (H5Tget_class(type.get()) == H5T_STRING) {
        entry.type = "string";
    }
    const i64 width = static_cast<i64>(std::min<std::size_t>(H5Tget_size(type.get()), std::size_t{1} << 40));
    const i64 count = elements_of(entry.shape);
    entry.bytes = count > std::numeric_limits<i64>::max() / std::max<i64>(1, width) ? std::numeric_limits<i64>::max()
                                                                                    : count * width;
    return entry;
}

void walk(hid_t file_id, const std::string& group_path, const std::string& file, int depth,
          std::vector<InspectEntry>& entries) {
    require(depth < deepest, ExitCode::checkpoint, file + ": groups are nested too deeply");
    const h5::Group group = h5::open_group(file_id, group_path.empty() ? "/" : group_path, file);
    for (const h5::Object& object : h5::list(group.get(), file)) {
        require(entries.size() < most_entries, ExitCode::checkpoint, file + ": has too many objects");
        const std::string path = group_path + "/" + object.name;
        if (object.kind == h5::ObjectKind::dataset) {
            entries.push_back(describe_dataset(file_id, path, file));
        } else if (object.kind == h5::ObjectKind::group) {
            entries.push_back({path, "group", {}, {}, 0, {}});
            walk(file_id, path, file, depth + 1, entries);
        } else {
            const bool link = object.kind != h5::ObjectKind::other;
            entries.push_back({path, link ? "link" : "other", {}, {}, 0, {}});
        }
    }
}

// Calls `use` with the values of a dataset, in order, in pieces of the flattened extents.
void read_pieces(hid_t dataset, const InspectEntry& entry, Dtype type, const std::string& file,
                 const std::function<void(std::span<const std::byte>)>& use) {
    const i64 total = elements_of(entry.shape);
    const i64 width = size_of(type);
    const i64 rows = entry.shape.empty() ? 1 : entry.shape[0];
    if (total == 0) {
        return;
    }
    const i64 row = total / rows;
    require(row > 0 && row * width <= i64{4} << 30, ExitCode::checkpoint,
            fmt::format("{}: {}: a row of {} values", file, entry.path, row));
    const i64 step = std::max<i64>(1, piece_bytes / (row * width));
    std::vector<std::byte> buffer;
    const bool parts = is_virtual(dataset, file, entry.path);
    const h5::Space source(h5::check(H5Dget_space(dataset), file, entry.path));
    for (i64 first = 0; first < rows; first += step) {
        const i64 count = std::min(step, rows - first);
        buffer.resize(static_cast<std::size_t>(count * row * width));
        if (parts) {
            read_virtual(dataset, file, entry.path, {0, first, 0, count, row, 0}, type, buffer.data());
            use(buffer);
            continue;
        }
        if (!entry.shape.empty()) {
            std::vector<hsize_t> start(entry.shape.size()), extent(entry.shape.begin(), entry.shape.end());
            start[0] = static_cast<hsize_t>(first);
            extent[0] = static_cast<hsize_t>(count);
            h5::check_status(
                H5Sselect_hyperslab(source.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr), file,
                entry.path);
        }
        const hsize_t elements = static_cast<hsize_t>(count) * static_cast<hsize_t>(row);
        const h5::Space memory(h5::check(H5Screate_simple(1, &elements, nullptr), file, entry.path));
        h5::check_status(
            H5Dread(dataset, h5::memory_type(type), memory.get(), source.get(), H5P_DEFAULT, buffer.data()), file,
            entry.path);
        use(buffer);
    }
}

std::optional<Dtype> dtype_named(const std::string& name) {
    for (const Dtype type : {Dtype::fp32, Dtype::fp64, Dtype::i32, Dtype::i64, Dtype::u16, Dtype::u64}) {
        if (name == name_of(type)) {
            return type;
        }
    }
    return std::nullopt;
}

bool is_state(const InspectEntry& entry) {
    const std::size_t slash = entry.path.find('/', 1);
    return entry.kind == "dataset" && slash != std::string::npos && holds_state(entry.path.substr(1, slash - 1));
}

// One open checkpoint with its checked tensors.
struct OpenCheckpoint {
    std::string file;
    h5::File handle;
    std::map<std::string, InspectEntry> tensors;
};
OpenCheckpoint open_checkpoint(const std::string& folder) {
    OpenCheckpoint opened{verified_master(folder), {}, {}};
    const Manifest manifest = read_manifest(folder);
    i64 bytes = 0;
    for (const FileRecord& record : manifest.files) {
        bytes += record.bytes;
    }
    check_parts(folder, manifest, 0, 1);
    opened.handle = h5::open_read(opened.file);
    std::vector<InspectEntry> entries;
    walk(opened.handle.get(), "", opened.file, 0, entries);
    for (InspectEntry& entry : entries) {
        if (is_state(entry)) {
            require(
                entry.bytes <= bytes, ExitCode::checkpoint,
                fmt::format("{}: {} claims {} bytes, the files have {}", opened.file, entry.path, entry.bytes, bytes));
            const h5::Dataset dataset = h5::open_dataset(opened.handle.get(), entry.path, opened.file);
            check_sources(dataset.get(), opened.file, entry.path, manifest);
            opened.tensors.emplace(entry.path, entry);
        }
    }
    return opened;
}

template <class T>
void compare_values(std::span<const std::byte> a, std::span<const std::byte> b, Difference& difference) {
    for (std::size_t at = 0; at < a.size(); at += sizeof(T)) {
        T x, y;
        std::memcpy(&x, a.data() + at, sizeof x);
        std::memcpy(&y, b.data() + at, sizeof y);
        if (std::memcmp(&x, &y, sizeof x) == 0) {
            continue;
        }
        ++difference.unequal;
        const double distance = std::abs(static_cast<double>(x) - static_cast<double>(y));
        // A NaN stays: "not comparable" must not hide behind a later number.
        if (std::isnan(distance) || distance > difference.max_difference) {
            difference.max_difference = distance;
        }
    }
}

Difference compare_tensor(const OpenCheckpoint& first, const OpenCheckpoint& second, const InspectEntry& a,
                          const InspectEntry& b) {
    Difference difference{a.path, {}, 0, 0};
    const std::optional<Dtype> type = dtype_named(a.type);
    if (a.shape != b.shape) {
        difference.note = fmt::format("shape {} and {}", h5::shape_text(a.shape), h5::shape_text(b.shape));
    } else if (a.type != b.type || (type != Dtype::fp32 && type != Dtype::fp64)) {
        difference.note = fmt::format("type {} and {}", a.type, b.type);
    } else {
        const h5::Dataset left = h5::open_dataset(first.handle.get(), a.path, first.file);
        const h5::Dataset right = h5::open_dataset(second.handle.get(), b.path, second.file);
        std::vector<std::byte> held(static_cast<std::size_t>(a.bytes)), other(held.size());
        read_dataset(left.get(), first.file, a.path, *type, held.data());
        read_dataset(right.get(), second.file, b.path, *type, other.data());
        if (*type == Dtype::fp32) {
            compare_values<float>(held, other, difference);
        } else {
            compare_values<double>(held, other, difference);
        }
    }
    return difference;
}

// `bytes`: what the files have; the model of a damaged header must not size memory beyond it.
template <class T>
void load_and_check(const std::string& folder, const ModelConfig& model, i64 bytes) {
    const ParameterTable table = make_parameters(model, dtype_of<T>());
    require(table.count() <= bytes / size_of(dtype_of<T>()), ExitCode::checkpoint,
            fmt::format("{}: the model of the header has {} parameters, the files have {} bytes", folder, table.count(),
                        bytes));
    const ParameterLayout layout(table, StageSpan{0, 0, 0, model.layers, true, true});
    std::vector<T> weights(static_cast<std::size_t>(layout.size()));
    std::vector<std::string> skipped;
    load_checkpoint<T>(*make_single_communicator(), folder, layout, {weights, {}, {}}, true, skipped);
}

}  // namespace

std::vector<InspectEntry> describe_file(const std::string& path) {
    return on_io_thread([&] {
        const h5::File file = h5::open_read(path);
        std::vector<InspectEntry> entries;
        walk(file.get(), "", path, 0, entries);
        return entries;
    });
}

void hash_tensors(const std::string& path, std::vector<InspectEntry>& entries, i64 limit_bytes,
                  const Manifest& manifest) {
    on_io_thread([&] {
        const h5::File file = h5::open_read(path);
        for (InspectEntry& entry : entries) {
            const std::optional<Dtype> type = dtype_named(entry.type);
            if (entry.kind != "dataset" || !type) {
                continue;
            }
            require(
                entry.bytes <= limit_bytes, ExitCode::checkpoint,
                fmt::format("{}: {} claims {} bytes, the files have {}", path, entry.path, entry.bytes, limit_bytes));
            const h5::Dataset dataset = h5::open_dataset(file.get(), entry.path, path);
            check_sources(dataset.get(), path, entry.path, manifest);
            BlockHasher hasher;
            read_pieces(dataset.get(), entry, *type, path,
                        [&](std::span<const std::byte> bytes) { hasher.add(bytes); });
            for (const BlockHash& hash : hasher.finish()) {
                entry.hash += fmt::format("{}{:016x}{:016x}", entry.hash.empty() ? "" : "-", hash.high, hash.low);
            }
        }
    });
}

std::vector<Difference> compare_checkpoints(const std::string& first, const std::string& second) {
    return on_io_thread([&] {
        const OpenCheckpoint left = open_checkpoint(first), right = open_checkpoint(second);
        std::vector<Difference> differences;
        for (const auto& [path, entry] : left.tensors) {
            const auto other = right.tensors.find(path);
            differences.push_back(other == right.tensors.end() ? Difference{path, "only in the first", 0, 0}
                                                               : compare_tensor(left, right, entry, other->second));
        }
        for (const auto& [path, entry] : right.tensors) {
            if (!left.tensors.contains(path)) {
                differences.push_back({path, "only in the second", 0, 0});
            }
        }
        return differences;
    });
}

void verify_checkpoint(const std::string& folder) {
    if (const std::string reason = incomplete_reason(folder); !reason.empty()) {
        fail(ExitCode::checkpoint, fmt::format("{} is not a complete checkpoint: {}", folder, reason));
    }
    i64 bytes = 0, tensors = 0;
    for (const FileRecord& record : read_manifest(folder).files) {
        bytes += record.bytes;
    }
    std::string type = "fp32";
    for (const InspectEntry& entry : describe_file(verified_master(folder))) {
        if (entry.path.starts_with("/weights/")) {
            type = entry.type;
            ++tensors;
        }
    }
    const ModelConfig model = read_model(folder);
    require(model.layers <= tensors, ExitCode::checkpoint,
            fmt::format("{}: {} layers in the header, {} tensors in the file", folder, model.layers, tensors));
    if (type == "fp64") {
        load_and_check<double>(folder, model, bytes);
    } else {
        load_and_check<float>(folder, model, bytes);
    }
}

}  // namespace ogrom
