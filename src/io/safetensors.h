// safetensors: u64 length of the header, a JSON header of names, types, extents and byte ranges, then the values,
// little-endian. Comes in: a file, or a folder of shards with an index. Goes out: bytes of named tensors. Nothing in a
// file is trusted: Error(data) names the file, the tensor and what is wrong. Next: io/hf_gpt2.h
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/common/dtype.h"

#include "src/data/mapped_file.h"
#include "src/io/durable.h"

namespace ogrom {

struct SafeTensor {
    std::string type;           // as the file names it: "F32", "BF16", ...
    std::optional<Dtype> held;  // F64, F32, F16 and BF16; none: refused when the tensor is wanted
    std::vector<i64> shape;
    i64 first = 0, bytes = 0;  // place in the file; values need not be aligned
    [[nodiscard]] i64 count() const;
};

class SafetensorsFile {
public:
    explicit SafetensorsFile(const std::string& path);
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] const std::map<std::string, SafeTensor>& tensors() const { return tensors_; }
    [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
    // Elements [first, first + count) widened to T (float or double), which must hold every value of the type.
    template <class T>
    void read(const std::string& name, i64 first, i64 count, T* to) const;

private:
    std::string path_;
    MappedFile file_;
    std::map<std::string, SafeTensor> tensors_;
    std::map<std::string, std::string> metadata_;
};

// The tensors of a folder with model.safetensors, or with model.safetensors.index.json and the shards it names.
class SafetensorsSet {
public:
    explicit SafetensorsSet(const std::string& folder);
    [[nodiscard]] std::vector<std::string> names() const;  // ascending
    [[nodiscard]] const SafeTensor* find(const std::string& name) const;
    [[nodiscard]] const std::string& file_of(const std::string& name) const { return shard(name).path(); }
    template <class T>
    void read(const std::string& name, i64 first, i64 count, T* to) const {
        shard(name).read(name, first, count, to);
    }

private:
    void open_shards(const std::string& folder, const std::string& index);
    [[nodiscard]] const SafetensorsFile& shard(const std::string& name) const { return files_[places_.at(name)]; }
    std::vector<SafetensorsFile> files_;
    std::map<std::string, std::size_t> places_;
};

struct SafeEntry {
    std::string name;
    Dtype type = Dtype::fp32;
    std::vector<i64> shape;
    [[nodiscard]] i64 bytes() const;
};
// Length word and header of a file that holds `entries` one behind the other; padded with blanks to 8 bytes.
std::string safetensors_header(const std::vector<SafeEntry>& entries);

// `values` in `type`, to the nearest, ties to even; a finite value beyond the type is refused by the tensor's name.
template <class T>
std::vector<std::byte> narrowed(const T* values, i64 count, Dtype type, const std::string& tensor);

}  // namespace ogrom
