// The parameter table: every logical tensor of the model, once. Initialisation, sharding, optimizer groups,
// checkpoints, import/export, counting and planning are derived from it; nothing else knows a tensor's shape. Names
// (contracts of the checkpoint): embedding.token.weight [V,C], embedding.position.weight [T,C], block.N.norm1.weight
// [C], block.N.norm1.bias, block.N.attention.{query,key,value}.{weight [H D,C], bias}, block.N.attention.out.{weight
// [C,H D], bias}, block.N.norm2.*, block.N.mlp.up.{weight [F,C], bias}, block.N.mlp.down.{weight [C,F], bias},
// final_norm.*, head.weight [V,C] (untied only).
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/common/dtype.h"
#include "kernels/common/stream.h"

#include "src/config/model.h"

namespace ogrom {

enum class ParameterKind { weight, buffer };
enum class ParameterGroup { embedding, matrix, bias, norm };  // optimizer settings are per group
enum class Initial { normal, zeros, ones };

struct Parameter {
    i64 id = 0;   // place in the table of the whole model, equal in every layout
    i64 key = 0;  // of RNG and hash: the id, or that of the tensor it is a copy of
    std::string name;
    ParameterKind kind = ParameterKind::weight;
    std::vector<i64> shape;         // logical: what counts, is saved, exported
    std::vector<i64> padded_shape;  // stored: rows of the vocabulary padded
    int tensor_axis = -1;           // dimension that tensor parallelism splits; -1 = replicated
    int expert_axis = -1;
    bool reduce_dp = true, reduce_cp = true, reduce_ep = false;  // axes over which its gradient is summed
    i64 layer = -1;                                              // -1 = embedding side, layers = head side
    i64 stage = 0, chunk = 0;
    std::string tie;  // name of the tensor it is a copy of: not counted, not saved, not normed
    ParameterGroup group = ParameterGroup::matrix;
    double lr_factor = 1, decay_factor = 1;  // decay_factor 0 on biases and norms
    bool frozen = false;
    Dtype storage = Dtype::fp32, master = Dtype::fp32, moment = Dtype::fp32;
    Initial initial = Initial::normal;
    double initial_std = 0;

    [[nodiscard]] i64 count() const;         // logical elements
    [[nodiscard]] i64 stored_count() const;  // with padding
};

class ParameterTable {
public:
    explicit ParameterTable(std::vector<Parameter> rows) : rows_(std::move(rows)) {}
    [[nodiscard]] std::span<const Parameter> rows() const { return rows_; }
    [[nodiscard]] const Parameter& row(std::string_view name) const;  // throws when absent
    [[nodiscard]] i64 count() const;  // logical elements of the model, tied copies and padding not counted
private:
    std::vector<Parameter> rows_;
};

// `storage`: of the weights. Masters and moments are fp32 where that has 16 bits, else the same.
ParameterTable make_parameters(const ModelConfig& model, Dtype storage);

// A range of elements of a flat buffer.
struct FlatRange {
    i64 first = 0, last = 0;
    [[nodiscard]] i64 count() const { return last - first; }
};

// This rank's place on the tensor axis.
struct TensorPart {
    int size = 1, rank = 0;
};

// A tensor of this rank: the part of the logical one that its place on the tensor axis gives it.
struct LocalTensor {
    const Parameter* parameter = nullptr;
    i64 offset = 0;          // elements from the start of the flat buffer
    std::vector<i64> shape;  // local, padded
    i64 count = 0;           // elements of `shape`
    i64 row0 = 0, col0 = 0;  // place of its first element in the logical tensor ([rows, 1] when it has one dimension)
    i64 logical = 0;         // its first `logical` elements are of the logical tensor, what follows is padding

    [[nodiscard]] i64 cols() const { return shape.size() > 1 ? shape[1] : 1; }
    // Global index in the logical tensor, row-major, of local element i < logical.
    [[nodiscard]] i64 global_index(i64 i) const;
};

enum class UnitKind { embedding, block, head };

// What is gathered, used and reduced as one. Flat ranges in the order in which they stand in a unit buffer.
struct Unit {
    UnitKind kind = UnitKind::block;
    i64 chunk = 0;
    i64 layer = 0;  // of the model; blocks only
    // One range; a tied head on the embedding's stage has two: its norm, and the token table (weights) or the head's
    // part of the table's gradient (gradients).
    std::vector<FlatRange> weights, gradients;
    [[nodiscard]] i64 count() const;
};

// This rank's flat buffer: where each tensor of its stage starts. Order = order of the forward pass, so that the
// backward pass finishes gradients from the end towards the start (buckets). q, k and v of a block are adjacent,
// weights then biases: one product computes all three.
class ParameterLayout {
public:
    // Keeps pointers to the rows: the table must outlive the layout. One span per chunk, in order of the forward pass.
    ParameterLayout(const ParameterTable& table, std::span<const StageSpan> spans, TensorPart part = {});
    ParameterLayout(const ParameterTable& table, const StageSpan& span)
        : ParameterLayout(table, std::span<const StageSpan>(&span, 1)) {}
    ParameterLayout(ParameterTable&&, const StageSpan&) = delete;
    ParameterLayout(ParameterTable&&, std::span<const StageSpan>, TensorPart = {}) = delete;
    [[nodiscard]] std::span<const LocalTensor> tensors() const { return tensors_; }
    [[nodiscard]] std::span<const Parameter> table() const { return table_; }  // every row of the model, by id
    [[nodiscard]] const LocalTensor& tensor(std::string_view name) const;
    [[nodiscard]] i64 size() const { return size_; }  // elements of the flat buffer
    // Elements of the gradient space: the flat buffer, and behind it the head's part of a tied table's gradient where
    // head and embedding stand on this stage.
    [[nodiscard]] i64 gradient_size() const { return gradient_size_; }
    [[nodiscard]] TensorPart part() const { return part_; }
    [[nodiscard]] std::span<const Unit> units() const { return units_; }  // chunk by chunk, in forward order
    // The token table that a tied head shares, wherever the two stand: its flat range here; empty when untied or when
    // this stage holds neither.
    [[nodiscard]] FlatRange tied_table() const { return tied_table_; }
    // True where the gradient of the tensor is a partial sum over tensor ranks under sequence parallelism, and one of
    // equal copies otherwise.
    [[nodiscard]] bool replicated(const LocalTensor& tensor) const;

private:
    void add_units(const StageSpan& span);
    std::span<const Parameter> table_;
    std::vector<LocalTensor> tensors_;
    std::vector<Unit> units_;
    TensorPart part_;
    FlatRange tied_table_;
    i64 size_ = 0, gradient_size_ = 0;
};

// Fills this rank's weights by global index from (seed, tensor id): the same model under every layout; padding is 0.
template <class T>
void initialise(std::span<T> flat, const ParameterLayout& layout, u64 seed);
// The same for flat elements [range.first, range.last) alone, which stand at `weights`.
template <class T>
void initialise(T* weights, FlatRange range, const ParameterLayout& layout, u64 seed);

// sum mod 2^64 of mix(tensor id, global index, bits of the fp32 master): layout-independent (contracts.md, Numerics).
template <class T>
u64 weight_hash(std::span<const T> flat, const ParameterLayout& layout);
// The same over flat elements [range.first, range.last) alone, which stand at `weights`. Tied copies are left out, and
// tensors replicated over tensor ranks count on tensor rank 0 only: the sum over ranks that hold each element once is
// the hash of the model. `weights` stand where the kernels of `stream` run, which is waited for.
template <class T>
u64 weight_hash(const T* weights, FlatRange range, const ParameterLayout& layout, Stream stream = {});

}  // namespace ogrom
