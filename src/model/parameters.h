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

#include "src/config/model.h"

namespace ogrom {

enum class ParameterKind { weight, buffer };
enum class ParameterGroup { embedding, matrix, bias, norm };  // optimizer settings are per group
enum class Initial { normal, zeros, ones };

struct Parameter {
    i64 id = 0;  // place in the table of the whole model: key of RNG and hash, equal in every layout
    std::string name;
    ParameterKind kind = ParameterKind::weight;
    std::vector<i64> shape;         // logical: what counts, is saved, exported
    std::vector<i64> padded_shape;  // stored: rows of the vocabulary padded
    int tensor_axis = -1;           // dimension that tensor parallelism splits; -1 = replicated
    int expert_axis = -1;
    bool reduce_dp = true, reduce_cp = true, reduce_ep = false;  // axes over which its gradient is summed
    i64 layer = -1;                                              // -1 = embedding side, layers = head side
    i64 stage = 0, chunk = 0;
    std::string tie;  // name of the tensor it is a copy of
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

ParameterTable make_parameters(const ModelConfig& model, Dtype compute);

// This rank's flat buffer: where each tensor of its stage starts. Order = order of the forward pass, so that the
// backward pass finishes gradients from the end towards the start (buckets). q, k and v of a block are adjacent,
// weights then biases: one product computes all three.
struct LocalTensor {
    const Parameter* parameter = nullptr;
    i64 offset = 0;          // elements from the start of the flat buffer
    std::vector<i64> shape;  // local, padded
    i64 count = 0;
};
class ParameterLayout {
public:
    // Keeps pointers to the rows: the table must outlive the layout.
    ParameterLayout(const ParameterTable& table, const StageSpan& span);
    ParameterLayout(ParameterTable&&, const StageSpan&) = delete;
    [[nodiscard]] std::span<const LocalTensor> tensors() const { return tensors_; }
    [[nodiscard]] const LocalTensor& tensor(std::string_view name) const;
    [[nodiscard]] i64 size() const { return size_; }  // elements of the flat buffer
private:
    std::vector<LocalTensor> tensors_;
    i64 size_ = 0;
};

// Fills this rank's weights by global index from (seed, tensor id): the same model under every layout; padding is 0.
template <class T>
void initialise(std::span<T> flat, const ParameterLayout& layout, u64 seed);

// sum mod 2^64 of mix(tensor id, global index, bits of the fp32 master): layout-independent (contracts.md, Numerics).
template <class T>
u64 weight_hash(std::span<const T> flat, const ParameterLayout& layout);

}  // namespace ogrom
