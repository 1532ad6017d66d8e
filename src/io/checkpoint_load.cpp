// A load over the ranks of dp. Comes in: a step folder. Goes out: this rank's flat state, whole on every rank.
#include "src/io/checkpoint_load.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "src/base/file.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_header.h"
#include "src/io/checkpoint_shared.h"
#include "src/io/io_thread.h"

namespace ogrom {

namespace {

constexpr std::size_t listed_differences = 200;
constexpr i64 read_piece_bytes = i64{256} << 20;
const std::set<std::string> state_groups = {"weights", "master", "moment1", "moment2", "buffers"};

bool asked_for(const LoadTarget& target, const std::string& group) {
    return std::any_of(target.groups.begin(), target.groups.end(),
                       [&](const LoadGroup& wanted) { return wanted.name == group; });
}

// Root groups with state: those that nobody asked for are unexpected in a training run, unknown ones always are.
void match_groups(hid_t file_id, const std::string& file, const LoadTarget& target, Match& match) {
    for (const h5::Object& object : h5::list(file_id, file)) {
        const bool known = object.name == "header" || object.name == "extra" || object.name == "model";
        const bool state = state_groups.contains(object.name);
        if (known || asked_for(target, object.name) || (state && !target.training)) {
            continue;
        }
        match.unexpected.push_back("/" + object.name);
    }
}

std::set<std::string> names_of_group(hid_t file_id, const std::string& group, const std::string& file) {
    std::set<std::string> present;
    const h5::Group opened = h5::open_group(file_id, group, file);
    for (const h5::Object& object : h5::list(opened.get(), file)) {
        if (object.kind == h5::ObjectKind::external_link || object.kind == h5::ObjectKind::soft_link) {
            fail(ExitCode::checkpoint,
                 fmt::format("{}: /{}/{} is a link to elsewhere; refused", file, group, object.name));
        }
        present.insert(object.name);
    }
    return present;
}

void match_tensor(hid_t file_id, const std::string& file, const std::string& path, const LogicalTensor& tensor,
                  const LoadTarget& target, const Manifest& manifest, Match& match, std::vector<i64>& usable,
                  i64 index) {
    const h5::Dataset dataset = h5::open_dataset(file_id, path, file);
    const h5::Type type(h5::check(H5Dget_type(dataset.get()), file, path));
    const std::optional<Dtype> stored = h5::dtype(type.get());
    const std::vector<i64> shape = h5::shape(dataset.get(), file, path);
    if (shape != tensor.shape) {
        match.mismatched.push_back(fmt::format("{}: shape {} in the checkpoint, {} in the model", path,
                                               h5::shape_text(shape), h5::shape_text(tensor.shape)));
    } else if (stored != target.type) {
        match.mismatched.push_back(fmt::format("{}: type {} in the checkpoint, {} in the run", path,
                                               stored ? name_of(*stored) : "unknown", name_of(target.type)));
    } else {
        check_sources(dataset.get(), file, path, manifest);
        usable.push_back(index);
    }
}

template <class T>
LoadTarget load_target(const StateView<T>& state, const ParameterLayout& layout) {
    LoadTarget target{dtype_of<T>(), {}, !state.moment1.empty() || !state.moment2.empty()};
    const auto add = [&](const char* name, std::span<T> values) {
        if (!values.empty()) {
            OGROM_ASSERT(static_cast<i64>(values.size()) == layout.size());
            target.groups.push_back({name, reinterpret_cast<std::byte*>(values.data())});
        }
    };
    add("weights", state.weights);
    add("moment1", state.moment1);
    add("moment2", state.moment2);
    return target;
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

// Fills the target; returns the lines of what was left out (empty when exact).
std::vector<std::string> load_tensors(const std::string& folder, const Manifest& manifest,
                                      const std::vector<LogicalTensor>& tensors, const LoadTarget& target,
                                      bool strict) {
    const std::string path = join_path(folder, master_name);
    const h5::File file = h5::open_read(path);
    const Match match = match_tensors(file.get(), path, tensors, target, manifest);
    const std::vector<std::string> lines = match.lines();
    if (strict && !match.exact()) {
        std::string message = fmt::format("{}: {} tensors do not match this run:", path, lines.size());
        for (std::size_t i = 0; i < lines.size() && i < listed_differences; ++i) {
            message += "\n  " + lines[i];
        }
        if (lines.size() > listed_differences) {
            message += fmt::format("\n  ... and {} more", lines.size() - listed_differences);
        }
        fail(ExitCode::checkpoint, message + "\n  checkpoint.strict = false loads what matches and lists the rest");
    }
    for (std::size_t group = 0; group < target.groups.size(); ++group) {
        for (const i64 index : match.usable[group]) {
            const LogicalTensor& tensor = tensors[static_cast<std::size_t>(index)];
            const std::string item = "/" + target.groups[group].name + "/" + tensor.name;
            const h5::Dataset dataset = h5::open_dataset(file.get(), item, path);
            const i64 width = size_of(target.type);
            std::byte* to = target.groups[group].data + tensor.local * width;
            read_dataset(dataset.get(), path, item, target.type, to);
            std::fill(to + tensor.count * width, to + tensor.stored * width, std::byte{0});  // padding is zero
        }
    }
    return lines;
}

}  // namespace

std::vector<std::string> Match::lines() const {
    std::vector<std::string> all;
    for (const std::string& path : missing) {
        all.push_back("missing: " + path);
    }
    for (const std::string& path : unexpected) {
        all.push_back("unexpected: " + path);
    }
    for (const std::string& text : mismatched) {
        all.push_back("does not fit: " + text);
    }
    return all;
}

Match match_tensors(hid_t file_id, const std::string& file, const std::vector<LogicalTensor>& tensors,
                    const LoadTarget& target, const Manifest& manifest) {
    Match match;
    match.usable.resize(target.groups.size());
    match_groups(file_id, file, target, match);
    for (std::size_t g = 0; g < target.groups.size(); ++g) {
        const std::string& group = target.groups[g].name;
        if (!h5::has_link(file_id, group)) {
            match.missing.push_back(fmt::format("/{} (all {} tensors)", group, tensors.size()));
            continue;
        }
        std::set<std::string> present = names_of_group(file_id, group, file);
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            const std::string path = "/" + group + "/" + tensors[i].name;
            if (present.erase(tensors[i].name) == 0) {
                match.missing.push_back(path);
            } else {
                match_tensor(file_id, file, path, tensors[i], target, manifest, match, match.usable[g],
                             static_cast<i64>(i));
            }
        }
        for (const std::string& name : present) {
            match.unexpected.push_back(fmt::format("/{}/{}", group, name));
        }
    }
    return match;
}

void check_sources(hid_t dataset, const std::string& file, const std::string& item, const Manifest& manifest) {
    const h5::Properties creation(h5::check(H5Dget_create_plist(dataset), file, item));
    if (H5Pget_layout(creation.get()) != H5D_VIRTUAL) {
        require(H5Pget_external_count(creation.get()) == 0, ExitCode::checkpoint,
                fmt::format("{}: {} reads external raw files; refused", file, item));
        return;
    }
    std::size_t count = 0;
    h5::check_status(H5Pget_virtual_count(creation.get(), &count), file, item);
    hssize_t covered = 0;
    for (std::size_t i = 0; i < count; ++i) {
        char name[64] = {};
        const ssize_t length = H5Pget_virtual_filename(creation.get(), i, name, sizeof name);
        const bool listed = length > 0 && length < static_cast<ssize_t>(sizeof name) &&
                            std::any_of(manifest.files.begin(), manifest.files.end(),
                                        [&](const FileRecord& record) { return record.file == name; });
        if (!listed) {
            fail(ExitCode::checkpoint, fmt::format("{}: {} reads from '{}', which is not a file of this checkpoint "
                                                   "(absolute names and '..' are refused)",
                                                   file, item, name));
        }
        const h5::Space space(h5::check(H5Pget_virtual_vspace(creation.get(), i), file, item));
        covered += H5Sget_select_npoints(space.get());
    }
    const h5::Space whole(h5::check(H5Dget_space(dataset), file, item));
    const hssize_t elements = H5Sget_simple_extent_npoints(whole.get());
    if (covered != elements) {
        fail(ExitCode::checkpoint,
             fmt::format("{}: {}: the parts hold {} of {} elements", file, item, covered, elements));
    }
}

void read_dataset(hid_t dataset, const std::string& file, const std::string& item, Dtype type, std::byte* to) {
    const std::vector<i64> shape = h5::shape(dataset, file, item);
    if (shape.empty() || std::find(shape.begin(), shape.end(), 0) != shape.end()) {
        return;
    }
    i64 row = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) {
        row *= shape[i];
    }
    const i64 step = std::max<i64>(1, read_piece_bytes / (row * size_of(type)));
    const h5::Space source(h5::check(H5Dget_space(dataset), file, item));
    for (i64 first = 0; first < shape[0]; first += step) {
        std::vector<hsize_t> start(shape.size()), count(shape.begin(), shape.end());
        start[0] = static_cast<hsize_t>(first);
        count[0] = static_cast<hsize_t>(std::min(step, shape[0] - first));
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

void verify_master(const std::string& checkpoint) {
    const std::string folder = resolve_checkpoint(checkpoint);
    Manifest manifest = read_manifest(folder);
    std::erase_if(manifest.files, [](const FileRecord& record) { return record.file != master_name; });
    verify_manifest(folder, manifest, 0, 1);
}

CheckpointHeader read_header(const std::string& checkpoint) {
    return on_io_thread([&] {
        const std::string path = join_path(resolve_checkpoint(checkpoint), master_name);
        const h5::File file = h5::open_read(path);
        return get_header(file.get(), path);
    });
}

ModelConfig read_model(const std::string& checkpoint) {
    return on_io_thread([&] {
        const std::string path = join_path(resolve_checkpoint(checkpoint), master_name);
        const h5::File file = h5::open_read(path);
        return get_model(file.get(), path);
    });
}

template <class T>
void load_checkpoint(Communicator& dp, const std::string& checkpoint, const ParameterLayout& layout,
                     const StateView<T>& state, bool strict, std::vector<std::string>& skipped) {
    std::string folder;
    Manifest manifest;
    share_result(dp, "checkpoint.verify", [&] {
        folder = resolve_checkpoint(checkpoint);
        if (const std::string reason = incomplete_reason(folder); !reason.empty()) {
            fail(ExitCode::checkpoint, fmt::format("{} is not a complete checkpoint: {}", folder, reason));
        }
        manifest = read_manifest(folder);
        verify_manifest(folder, manifest, dp.rank(), dp.size());
        on_io_thread([&] { check_parts(folder, manifest, dp.rank(), dp.size()); });
        return std::string();
    });
    share_result(dp, "checkpoint.read", [&] {
        const LoadTarget target = load_target(state, layout);
        const std::vector<LogicalTensor> tensors = logical_tensors(layout);
        const std::vector<std::string> lines =
            on_io_thread([&] { return load_tensors(folder, manifest, tensors, target, strict); });
        skipped.insert(skipped.end(), lines.begin(), lines.end());
        const CheckpointHeader header = read_header(folder);
        require(
            header.step == manifest.step, ExitCode::checkpoint,
            fmt::format("{}: step {} in {}, {} in {}", folder, header.step, master_name, manifest.step, manifest_name));
        if (lines.empty() && !state.weights.empty()) {
            const u64 hash = weight_hash(std::span<const T>(state.weights), layout);
            if (hash != header.weight_hash) {
                fail(ExitCode::checkpoint,
                     fmt::format("{}: the weights that were read have the hash {:016x}, those that "
                                 "were saved had {:016x}",
                                 folder, hash, header.weight_hash));
            }
        }
        return std::string();
    });
}
template void load_checkpoint<float>(Communicator&, const std::string&, const ParameterLayout&, const StateView<float>&,
                                     bool, std::vector<std::string>&);
template void load_checkpoint<double>(Communicator&, const std::string&, const ParameterLayout&,
                                      const StateView<double>&, bool, std::vector<std::string>&);

}  // namespace ogrom
