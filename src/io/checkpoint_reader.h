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

class CheckpointReader {
public:
    // `checkpoint` as for read_header. Error(checkpoint) unless it is complete, every file has the hashes of the
    // manifest, and each group that is kept holds every tensor of the model, whole and of one type, and nothing else.
    CheckpointReader(const std::string& checkpoint, Kept kept);
    ~CheckpointReader();
    CheckpointReader(const CheckpointReader&) = delete;
    CheckpointReader& operator=(const CheckpointReader&) = delete;

    [[nodiscard]] const std::string& folder() const { return folder_; }
    [[nodiscard]] const CheckpointHeader& header() const { return header_; }
    [[nodiscard]] const ModelConfig& model() const { return model_; }
    [[nodiscard]] const ParameterTable& table() const { return table_; }  // tied copies are in no group
    [[nodiscard]] Dtype type() const { return type_; }
    [[nodiscard]] const std::vector<std::string>& groups() const { return groups_; }

    // Elements [first, first + count) of a tensor of a group, as stored, to `to`.
    void read(const std::string& group, const Parameter& tensor, i64 first, i64 count, std::byte* to) const;

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
