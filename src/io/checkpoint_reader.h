// A checkpoint without any rank's layout: stretches of whole logical tensors in bounded memory, for what exports or
// rewrites one. Comes in: a step folder. Goes out: elements in row-major order of the logical tensor.
#pragma once
#include <string>
#include <vector>

#include "src/io/checkpoint.h"
#include "src/io/hdf5.h"
#include "src/io/manifest.h"

namespace ogrom {

enum class Kept { everything, weights };  // which groups of state

// State of a run, whole tensors by stretches: a checkpoint, or another program's files taken as one.
class StateSource {
public:
    StateSource() = default;
    virtual ~StateSource() = default;
    StateSource(const StateSource&) = delete;
    StateSource& operator=(const StateSource&) = delete;

    [[nodiscard]] virtual const std::string& folder() const = 0;
    [[nodiscard]] virtual const CheckpointHeader& header() const = 0;
    [[nodiscard]] virtual const ModelConfig& model() const = 0;
    [[nodiscard]] virtual const ParameterTable& table() const = 0;  // tied copies are in no group
    [[nodiscard]] virtual Dtype type() const = 0;
    [[nodiscard]] virtual const std::vector<std::string>& groups() const = 0;
    // Elements [first, first + count) of a tensor of a group, as stored, to `to`.
    virtual void read(const std::string& group, const Parameter& tensor, i64 first, i64 count, std::byte* to) const = 0;
};

class CheckpointReader : public StateSource {
public:
    // `checkpoint` as for read_header. Error(checkpoint) unless it is complete, every file has the hashes of the
    // manifest, and each group that is kept holds every tensor of the model, whole and of one type, and nothing else.
    CheckpointReader(const std::string& checkpoint, Kept kept);
    ~CheckpointReader() override;

    [[nodiscard]] const std::string& folder() const override { return folder_; }
    [[nodiscard]] const CheckpointHeader& header() const override { return header_; }
    [[nodiscard]] const ModelConfig& model() const override { return model_; }
    [[nodiscard]] const ParameterTable& table() const override { return table_; }
    [[nodiscard]] Dtype type() const override { return type_; }
    [[nodiscard]] const std::vector<std::string>& groups() const override { return groups_; }

    void read(const std::string& group, const Parameter& tensor, i64 first, i64 count, std::byte* to) const override;

private:
    void open(Kept kept);  // on the I/O thread

    std::string folder_, file_;
    Manifest manifest_;
    CheckpointHeader header_;
    ModelConfig model_;
    ParameterTable table_{{}};
    Dtype type_ = Dtype::fp32;
    std::vector<std::string> groups_;
    h5::File handle_;
};

}  // namespace ogrom
