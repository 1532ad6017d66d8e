// What a checkpoint has against what a run asks for. Comes in: an open master file. Goes out: differences by name.
#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "src/io/checkpoint_load.h"

namespace ogrom {

namespace {

bool asked_for(const LoadTarget& target, const std::string& group) {
    return std::any_of(target.groups.begin(), target.groups.end(),
                       [&](const LoadGroup& wanted) { return wanted.name == group; });
}

// Groups that nobody asked for are unexpected in a training run; what is no group is unexpected always.
void match_groups(hid_t file_id, const std::string& file, const LoadTarget& target, Match& match) {
    for (const h5::Object& object : h5::list(file_id, file)) {
        const bool left_alone = !target.training && object.kind == h5::ObjectKind::group;
        if (holds_state(object.name) && !asked_for(target, object.name) && !left_alone) {
            match.unexpected.push_back("/" + object.name);
        }
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

bool matches(hid_t file_id, const std::string& file, const std::string& path, const Parameter& tensor,
             const LoadTarget& target, const Manifest& manifest, Match& match) {
    const h5::Dataset dataset = h5::open_dataset(file_id, path, file);
    const h5::Type type(h5::check(H5Dget_type(dataset.get()), file, path));
    const std::optional<Dtype> stored = h5::dtype(type.get());
    const std::vector<i64> shape = h5::shape(dataset.get(), file, path);
    if (shape != tensor.shape) {
        match.mismatched.push_back(fmt::format("{}: shape {} in the checkpoint, {} in the model", path,
                                               h5::shape_text(shape), h5::shape_text(tensor.shape)));
        return false;
    }
    const bool widens = target.types == Types::may_widen && stored == Dtype::fp32 && target.type == Dtype::fp64;
    if (stored != target.type && !widens) {
        match.mismatched.push_back(fmt::format("{}: type {} in the checkpoint, {} in the run", path,
                                               stored ? name_of(*stored) : "unknown", name_of(target.type)));
        return false;
    }
    check_sources(dataset.get(), file, path, manifest);
    return true;
}

}  // namespace

bool holds_state(const std::string& group) {
    return group != "header" && group != "extra" && group != "model";
}

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

Match match_tensors(hid_t file_id, const std::string& file, std::span<const Parameter> table, const LoadTarget& target,
                    const Manifest& manifest) {
    Match match;
    match.usable.assign(target.groups.size(), std::vector<bool>(table.size()));
    match_groups(file_id, file, target, match);
    for (std::size_t g = 0; g < target.groups.size(); ++g) {
        const std::string& group = target.groups[g].name;
        const bool there = h5::has_link(file_id, group);
        std::set<std::string> present = there ? names_of_group(file_id, group, file) : std::set<std::string>();
        if (!there) {
            match.missing.push_back(fmt::format("/{} (all tensors)", group));
        }
        for (std::size_t id = 0; there && id < table.size(); ++id) {
            const std::string path = "/" + group + "/" + table[id].name;
            if (!table[id].tie.empty()) {
                continue;
            }
            if (present.erase(table[id].name) == 0) {
                match.missing.push_back(path);
            } else {
                match.usable[g][id] = matches(file_id, file, path, table[id], target, manifest, match);
            }
        }
        for (const std::string& name : present) {
            match.unexpected.push_back(fmt::format("/{}/{}", group, name));
        }
    }
    return match;
}

}  // namespace ogrom
