// A fake rank (tests/unit/optim/fake_rank.h) placed on a mesh of the test's ranks.
#pragma once
#include <cmath>

#include "src/comm/mesh.h"

#include "tests/mpi/world.h"
#include "tests/unit/optim/fake_rank.h"

namespace ogrom::test {

struct Axes {
    int pp = 1, dp = 1, tp = 1, zero_group = 1;
};

inline Mesh mesh_of(const Axes& axes) {
    ParallelConfig parallel;
    parallel.pipeline = axes.pp;
    parallel.data = axes.dp;
    parallel.tensor = axes.tp;
    parallel.zero_group = axes.zero_group;
    return make_mesh(session(), parallel);
}
inline StepGroups groups_of(const Mesh& mesh) {
    return {mesh.shard.get(), mesh.replica.get(), mesh.tp.get(), mesh.tie.get()};
}

// Small enough for buckets of one element: shards of whole tensors. Splits over 2, 3 and 4 tensor ranks; one padded row
// of the vocabulary.
inline ModelConfig tiny_model(i64 layers = 1, bool tied = true) {
    ModelConfig model;
    model.layers = layers;
    model.hidden = 6;
    model.heads = model.kv_heads = 12;
    model.head_dim = 1;
    model.ffn_hidden = 12;
    model.vocab = 11;
    model.padded_vocab = 12;
    model.sequence = 5;
    model.tied = tied;
    return model;
}
// Tensors of up to 720 elements: owners meet inside of them.
inline ModelConfig small_model(i64 layers = 2, bool tied = true) {
    ModelConfig model = tiny_model(layers, tied);
    model.hidden = 15;
    model.head_dim = 2;
    model.ffn_hidden = 36;
    model.vocab = 37;
    model.padded_vocab = 48;
    return model;
}

// One layer on each pipeline stage.
inline std::vector<StageSpan> stage_spans(const Mesh& mesh) {
    const i64 stage = mesh.place.pp;
    return {{stage, 0, stage, stage + 1, stage == 0, stage + 1 == mesh.shape.pp}};
}

// Whole numbers that name their origin: every sum of them is exact, whatever its order.
inline double origin(int data_rank, i64 micro_batch, i64 element) {
    return static_cast<double>(data_rank * 1000 + micro_batch * 100'000 + element);
}
inline double origin_sum(int data_ranks, i64 micro_batches, i64 element) {
    double sum = 0;
    for (int r = 0; r < data_ranks; ++r) {
        for (i64 m = 0; m < micro_batches; ++m) {
            sum += origin(r, m, element);
        }
    }
    return sum;
}
// Numbers whose sum depends on its order. The argument is made of whole numbers: the compiler cannot fuse it.
inline double rough(int data_rank, i64 micro_batch, i64 element) {
    return std::sin(static_cast<double>(37 * element + 1000 * data_rank + 17 * micro_batch));
}
inline double start_weight(i64 element) {
    return std::sin(static_cast<double>(11 * element));
}

// Bytes that the mesh's communicators have sent, by label.
inline std::map<std::string, i64, std::less<>> sent_by(const Mesh& mesh) {
    std::map<std::string, i64, std::less<>> all;
    for (const Communicator* comm : {mesh.shard.get(), mesh.replica.get(), mesh.tp.get(), mesh.tie.get()}) {
        for (const auto& [label, bytes] : comm == nullptr ? decltype(all)() : comm->bytes_by_label()) {
            all[label] += bytes;
        }
    }
    return all;
}

// The full weights, whoever holds them. Collective over the zero group.
inline std::vector<double> whole_weights(FakeRank& rank, Communicator& shard) {
    std::vector<double> whole(static_cast<std::size_t>(rank.layout.size()), -1);
    for (const OwnedPiece& piece : rank.ownership.pieces({0, rank.layout.size()})) {
        double* const to = whole.data() + piece.range.first;
        if (piece.owner == shard.rank()) {
            const double* const from = rank.state.weights.locate(piece.range);
            std::copy(from, from + piece.range.count(), to);
        }
        shard.broadcast(to, piece.range.count(), Dtype::fp64, piece.owner, "test").wait();
    }
    return whole;
}

}  // namespace ogrom::test
