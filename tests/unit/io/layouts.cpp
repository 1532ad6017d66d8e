#include "tests/unit/io/layouts.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "src/base/file.h"
#include "src/config/layer_map.h"
#include "src/io/checkpoint_folder.h"

#include "tests/unit/io/support.h"

namespace ogrom::test {

namespace {

constexpr const char* group_names[] = {"weights", "moment1", "moment2"};

std::vector<StageSpan> spans_of(const ModelConfig& model, const MeshCase& mesh, int rank) {
    ParallelConfig parallel;
    parallel.pipeline = mesh.pp;
    parallel.virtual_stages = mesh.chunks;
    return stage_spans(model, parallel, rank / (mesh.dp * mesh.tp));
}

}  // namespace

std::string MeshCase::text() const {
    return fmt::format("pp{} dp{} tp{} zero{} group{} chunks{}", pp, dp, tp, zero, group, chunks);
}

ModelConfig odd_model(bool tied) {
    ModelConfig model;
    model.layers = 3;
    model.hidden = 60;
    model.heads = model.kv_heads = 6;
    model.head_dim = 10;
    model.ffn_hidden = 100;
    model.vocab = 509;
    model.padded_vocab = 512;
    model.sequence = 13;
    model.tied = tied;
    return model;
}

double value_of(const Parameter& tensor, i64 row, i64 col) {
    return static_cast<double>(32768 * tensor.id + row * extent_of(tensor).cols + col);
}

template <class T>
MeshRank<T>::MeshRank(const ParameterTable& table, const ModelConfig& model, const MeshCase& mesh, int rank)
    : layout(table, spans_of(model, mesh, rank), TensorPart{mesh.tp, rank % mesh.tp}) {
    const int dp = rank / mesh.tp % mesh.dp, group = mesh.group == 0 ? mesh.dp : mesh.group;
    first_replica_ = dp / group == 0;
    // Two segments, each cut evenly: ranges begin and end anywhere in rows and in padding.
    const i64 segment = layout.size() / 3;
    const FlatRange low = writer_range(segment, dp % group, group);
    const FlatRange high = writer_range(layout.size() - segment, dp % group, group);
    own_ = {low, {high.first + segment, high.last + segment}};
    for (const char* name : group_names) {
        const bool sharded = mesh.zero >= (std::string(name) == "weights" ? 3 : 1);
        StateGroup<T> state{name, {}};
        for (const FlatRange& range : sharded ? own_ : std::vector<FlatRange>{{0, layout.size()}}) {
            memory_.emplace_back(static_cast<std::size_t>(range.count()));
            state.ranges.push_back({range, memory_.back().data()});
        }
        held_.push_back(std::move(state));
    }
}

// Calls visit(value in memory, tensor, local element, group) for everything held.
template <class T>
template <class Visit>
void MeshRank<T>::visit(Visit&& visit) const {
    for (std::size_t g = 0; g < held_.size(); ++g) {
        for (const HeldRange<T>& range : held_[g].ranges) {
            for (const LocalTensor& tensor : layout.tensors()) {
                const i64 first = std::max(range.flat.first, tensor.offset);
                const i64 last = std::min(range.flat.last, tensor.offset + tensor.count);
                for (i64 at = first; at < last; ++at) {
                    visit(range.data[at - range.flat.first], tensor, at - tensor.offset, 0.25 * static_cast<double>(g));
                }
            }
        }
    }
}

template <class T>
void MeshRank<T>::fill() {
    visit([&](T& value, const LocalTensor& tensor, i64 e, double shift) {
        const Parameter& parameter = *tensor.parameter;
        const i64 row = tensor.row0 + e / tensor.cols(), col = tensor.col0 + e % tensor.cols();
        const bool never_saved =
            e >= tensor.logical || !parameter.tie.empty() || (layout.replicated(tensor) && layout.part().rank != 0);
        value = static_cast<T>(never_saved ? -7777 : value_of(parameter, row, col) + shift);
    });
}

template <class T>
void MeshRank<T>::poison() {
    visit([](T& value, const LocalTensor&, i64, double) { value = std::numeric_limits<T>::quiet_NaN(); });
}

template <class T>
i64 MeshRank<T>::wrong(Groups groups) const {
    i64 count = 0;
    visit([&](T& value, const LocalTensor& tensor, i64 e, double shift) {
        if (groups == Groups::weights && shift != 0) {
            return;
        }
        const Parameter& source =
            layout.table()[static_cast<std::size_t>(stored_tensor(layout.table(), *tensor.parameter))];
        const i64 row = tensor.row0 + e / tensor.cols(), col = tensor.col0 + e % tensor.cols();
        const double wanted = e >= tensor.logical ? 0 : value_of(source, row, col) + shift;
        count += static_cast<double>(value) == wanted ? 0 : 1;
    });
    return count;
}

template <class T>
i64 MeshRank<T>::elements() const {
    i64 count = 0;
    visit([&](T&, const LocalTensor& tensor, i64 e, double) { count += e < tensor.logical ? 1 : 0; });
    return count;
}

template <class T>
std::vector<StateGroup<const T>> MeshRank<T>::writes() const {
    std::vector<StateGroup<const T>> groups;
    for (const StateGroup<T>& state : held_) {
        StateGroup<const T> written{state.name, {}};
        for (const FlatRange& own : first_replica_ ? own_ : std::vector<FlatRange>{}) {
            for (const HeldRange<T>& range : state.ranges) {
                if (own.first >= range.flat.first && own.last <= range.flat.last) {
                    written.ranges.push_back({own, range.data + (own.first - range.flat.first)});
                }
            }
        }
        groups.push_back(std::move(written));
    }
    return groups;
}

template <class T>
u64 MeshRank<T>::hash() const {
    u64 sum = 0;
    const auto groups = writes();
    for (const HeldRange<const T>& range : groups.front().ranges) {
        sum += weight_hash<T>(range.data, range.flat, layout);
    }
    return sum;
}

template <class T>
std::string save_mesh(const std::string& directory, const MeshCase& mesh, bool tied) {
    const ModelConfig model = odd_model(tied);
    const ParameterTable table = make_parameters(model, dtype_of<T>());
    CheckpointHeader header = small_header(5);
    const Disk disk;
    const std::string temporary = join_path(directory, temporary_name(header.step));
    disk.make_folders(temporary);
    Placement placement(table.rows());
    Manifest manifest{1, header.step, {}};
    for (int rank = 0; rank < mesh.size(); ++rank) {
        MeshRank<T> one(table, model, mesh, rank);
        one.fill();
        header.weight_hash += one.hash();
        const auto writes = one.writes();
        const Part part = make_part<T>(one.layout, std::span(writes));
        unpack(pack(part), rank, placement);
        if (!part.empty()) {
            manifest.files.push_back(write_file(disk, temporary, lay_out_part(part, rank)));
        }
    }
    placement.require_whole();
    manifest.files.push_back(write_file(disk, temporary, lay_out_master(placement, dtype_of<T>(), header, model)));
    write_manifest(disk, temporary, manifest);
    commit(disk, directory, temporary, header.step);
    return join_path(directory, step_name(header.step));
}

template class MeshRank<float>;
template class MeshRank<double>;
template std::string save_mesh<float>(const std::string&, const MeshCase&, bool);
template std::string save_mesh<double>(const std::string&, const MeshCase&, bool);

}  // namespace ogrom::test
