#include "src/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <type_traits>

#include "kernels/common/fault.h"

#include "src/base/json.h"
#include "src/base/text.h"

namespace ogrom {
namespace {

static_assert(std::endian::native == std::endian::little);

using nlohmann::json;
constexpr i64 length_bytes = 8;
constexpr i64 longest_header = 100'000'000;

struct TypeName {
    const char* name;
    Dtype type;
};
constexpr TypeName held_types[] = {
    {"F64", Dtype::fp64}, {"F32", Dtype::fp32}, {"F16", Dtype::fp16}, {"BF16", Dtype::bf16}};
// Types that are only passed over: their sizes are still checked.
struct OtherType {
    const char* name;
    i64 size;
};
constexpr OtherType other_types[] = {{"I64", 8}, {"U64", 8}, {"I32", 4},  {"U32", 4}, {"I16", 2},     {"U16", 2},
                                     {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"C64", 8}, {"F8_E5M2", 1}, {"F8_E4M3", 1}};

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
    fail(ExitCode::data, path + ": " + what);
}

i64 natural(const json& value, const std::string& path, const std::string& where) {
    if (!value.is_number_unsigned() || value.get<u64>() > static_cast<u64>(std::numeric_limits<i64>::max())) {
        refuse(path, where + " has " + json_text(value) + "; would be right: a whole number from 0 on");
    }
    return value.get<i64>();
}

i64 checked_product(i64 a, i64 b, const std::string& path, const std::string& where) {
    i64 product = 0;
    if (__builtin_mul_overflow(a, b, &product)) {
        refuse(path, where + ": the extents are beyond 64 bits");
    }
    return product;
}

SafeTensor parse_tensor(const std::string& name, const json& item, i64 room, const std::string& path) {
    const std::string where = "tensor " + quote(name);
    if (!item.is_object() || item.size() != 3 || !item.contains("dtype") || !item["dtype"].is_string() ||
        !item.contains("shape") || !item["shape"].is_array() || !item.contains("data_offsets") ||
        !item["data_offsets"].is_array() || item["data_offsets"].size() != 2) {
        refuse(path, where + " needs dtype, shape and data_offsets [begin, end], and nothing else");
    }
    SafeTensor tensor;
    tensor.type = item["dtype"].get<std::string>();
    i64 bytes = 0;
    for (const TypeName& held : held_types) {
        if (tensor.type == held.name) {
            tensor.held = held.type;
            bytes = size_of(held.type);
        }
    }
    for (const OtherType& other : other_types) {
        bytes = tensor.type == other.name ? other.size : bytes;
    }
    if (bytes == 0) {
        refuse(path, where + " has the dtype " + quote(tensor.type) + ", which is not known");
    }
    for (const json& extent : item["shape"]) {
        tensor.shape.push_back(natural(extent, path, where + ": shape"));
        bytes = checked_product(bytes, tensor.shape.back(), path, where);
    }
    const i64 begin = natural(item["data_offsets"][0], path, where + ": data_offsets");
    const i64 end = natural(item["data_offsets"][1], path, where + ": data_offsets");
    if (!fault_active("safetensors_bounds_unchecked") && (begin > end || end > room)) {
        refuse(path, fmt::format("{} lies at bytes {} to {} of {}", where, begin, end, room));
    }
    if (end - begin != bytes) {
        refuse(path, fmt::format("{} has {} bytes, its dtype and shape take {}", where, end - begin, bytes));
    }
    tensor.first = begin;
    tensor.bytes = bytes;
    return tensor;
}

void require_no_gaps(const std::map<std::string, SafeTensor>& tensors, i64 room, const std::string& path) {
    std::vector<std::pair<i64, i64>> ranges;
    ranges.reserve(tensors.size());
    for (const auto& [name, tensor] : tensors) {
        ranges.emplace_back(tensor.first, tensor.first + tensor.bytes);
    }
    std::sort(ranges.begin(), ranges.end());
    i64 at = 0;
    for (const auto& [first, last] : ranges) {
        if (first != at) {
            refuse(path, fmt::format("{} at byte {} of the values", first < at ? "tensors overlap" : "a hole",
                                     std::min(first, at)));
        }
        at = last;
    }
    if (at != room) {
        refuse(path, fmt::format("the tensors have {} bytes, the file has {}", at, room));
    }
}

template <class Stored, class T>
void widen(const char* from, i64 count, T* to) {
    for (i64 i = 0; i < count; ++i) {
        Stored value;
        std::memcpy(&value, from + i * static_cast<i64>(sizeof value), sizeof value);
        if constexpr (is_16_bit<Stored>) {
            to[i] = static_cast<T>(to_float(value));
        } else {
            to[i] = static_cast<T>(value);
        }
    }
}

}  // namespace

i64 SafeTensor::count() const {
    return held ? bytes / size_of(*held) : 0;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path), file_(path, MappedFile::Access::random) {
    u64 length = 0;
    if (file_.size() < length_bytes) {
        refuse(path, fmt::format("{} bytes are no safetensors file", file_.size()));
    }
    std::memcpy(&length, file_.data(), sizeof length);
    if (length > static_cast<u64>(std::min(longest_header, file_.size() - length_bytes))) {
        refuse(path, fmt::format("a header of {} bytes in a file of {}; at most {} are read", length, file_.size(),
                                 longest_header));
    }
    const i64 start = length_bytes + static_cast<i64>(length), room = file_.size() - start;
    const json header = parse_json<json>(file_.view().substr(length_bytes, length), path, ExitCode::data);
    if (!header.is_object()) {
        refuse(path, "the header is no object of tensors");
    }
    for (const auto& [name, item] : header.items()) {
        if (name != "__metadata__") {
            tensors_.emplace(name, parse_tensor(name, item, room, path));
            continue;
        }
        if (!item.is_object()) {
            refuse(path, "__metadata__ is no object of texts");
        }
        for (const auto& [key, value] : item.items()) {
            if (!value.is_string()) {
                refuse(path, "__metadata__ may hold texts alone");
            }
            metadata_.emplace(key, value.get<std::string>());
        }
    }
    require_no_gaps(tensors_, room, path);
    for (auto& [name, tensor] : tensors_) {
        tensor.first += start;
    }
}

template <class T>
void SafetensorsFile::read(const std::string& name, i64 first, i64 count, T* to) const {
    const SafeTensor& tensor = tensors_.at(name);
    if (!tensor.held || (*tensor.held == Dtype::fp64 && sizeof(T) < sizeof(double))) {
        refuse(path_,
               fmt::format("tensor {} is of dtype {}; F32, F16, BF16 and F64 are read", quote(name), tensor.type));
    }
    OGROM_ASSERT(first >= 0 && count >= 0 && count <= tensor.count() - first);
    const char* from = file_.data() + tensor.first + first * size_of(*tensor.held);
    switch (*tensor.held) {
        case Dtype::fp64:
            return widen<double>(from, count, to);
        case Dtype::bf16:
            return widen<Bf16>(from, count, to);
        case Dtype::fp16:
            return widen<Fp16>(from, count, to);
        default:
            return widen<float>(from, count, to);
    }
}
template void SafetensorsFile::read<float>(const std::string&, i64, i64, float*) const;
template void SafetensorsFile::read<double>(const std::string&, i64, i64, double*) const;

SafetensorsSet::SafetensorsSet(const std::string& folder) {
    const std::string single = join_path(folder, "model.safetensors"), index = single + ".index.json";
    if (file_exists(index)) {
        if (file_exists(single)) {
            refuse(folder, "holds model.safetensors and model.safetensors.index.json; keep the one that is meant");
        }
        open_shards(folder, index);
        return;
    }
    if (!file_exists(single)) {
        refuse(folder, "holds neither model.safetensors nor model.safetensors.index.json");
    }
    files_.emplace_back(single);
    for (const auto& [name, tensor] : files_[0].tensors()) {
        places_[name] = 0;
    }
}

void SafetensorsSet::open_shards(const std::string& folder, const std::string& index) {
    const json root = parse_json<json>(read_file(index, longest_header, ExitCode::data), index, ExitCode::data);
    if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object()) {
        refuse(index, "needs \"weight_map\": an object of tensors and files");
    }
    std::map<std::string, std::size_t> opened;
    for (const auto& [name, item] : root["weight_map"].items()) {
        const std::string file = item.is_string() ? item.get<std::string>() : "";
        if (file.empty() || file.find('/') != std::string::npos || file.find("..") != std::string::npos) {
            refuse(index,
                   fmt::format("tensor {}: {} is no name of a file in this folder", quote(name), json_text(item)));
        }
        const std::string path = join_path(folder, file);
        if (!opened.contains(file)) {
            if (!file_exists(path)) {
                refuse(index, fmt::format("names {}, which is missing", quote(file)));
            }
            opened[file] = files_.size();
            files_.emplace_back(path);
        }
        if (!files_[opened[file]].tensors().contains(name)) {
            refuse(path, fmt::format("has no tensor {}, which {} promises", quote(name), index));
        }
        places_[name] = opened[file];
    }
    for (const SafetensorsFile& file : files_) {
        for (const auto& [name, tensor] : file.tensors()) {
            if (!places_.contains(name) || shard(name).path() != file.path()) {
                refuse(file.path(), fmt::format("tensor {} is not listed for it in {}", quote(name), index));
            }
        }
    }
}

std::vector<std::string> SafetensorsSet::names() const {
    std::vector<std::string> all;
    for (const auto& [name, place] : places_) {
        all.push_back(name);
    }
    return all;
}

const SafeTensor* SafetensorsSet::find(const std::string& name) const {
    return places_.contains(name) ? &shard(name).tensors().at(name) : nullptr;
}

i64 SafeEntry::bytes() const {
    i64 all = size_of(type);
    for (const i64 extent : shape) {
        all *= extent;
    }
    return all;
}

std::string safetensors_header(const std::vector<SafeEntry>& entries) {
    nlohmann::ordered_json header;
    header["__metadata__"] = {{"format", "pt"}};  // without it transformers refuses the file
    i64 at = 0;
    for (const SafeEntry& entry : entries) {
        std::string type;
        for (const TypeName& held : held_types) {
            type = held.type == entry.type ? held.name : type;
        }
        OGROM_ASSERT(!type.empty());
        header[entry.name] = {{"dtype", type}, {"shape", entry.shape}, {"data_offsets", {at, at + entry.bytes()}}};
        at += entry.bytes();
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    std::string file(length_bytes, '\0');
    const u64 length = text.size();
    std::memcpy(file.data(), &length, sizeof length);
    return file + text;
}

template <class T>
std::vector<std::byte> narrowed(const T* values, i64 count, Dtype type, const std::string& tensor) {
    std::vector<std::byte> out(static_cast<std::size_t>(count * size_of(type)));
    const auto put = [&](i64 i, auto narrow, double back) {
        if (std::isinf(back) && !std::isinf(values[i])) {
            fail(ExitCode::checkpoint, fmt::format("{}: the value {} is beyond {}; would be right: another --dtype",
                                                   tensor, values[i], name_of(type)));
        }
        std::memcpy(out.data() + static_cast<std::size_t>(i) * sizeof narrow, &narrow, sizeof narrow);
    };
    for (i64 i = 0; i < count; ++i) {
        const float single = type == Dtype::fp32 || std::is_same_v<T, float>
                                 ? static_cast<float>(values[i])
                                 : odd_rounded(static_cast<double>(values[i]));
        if (type == Dtype::bf16) {
            put(i, to_bf16(single), to_float(to_bf16(single)));
        } else if (type == Dtype::fp16) {
            put(i, to_fp16(single), to_float(to_fp16(single)));
        } else if (type == Dtype::fp64) {
            put(i, static_cast<double>(values[i]), static_cast<double>(values[i]));
        } else {
            put(i, single, static_cast<double>(single));
        }
    }
    return out;
}
template std::vector<std::byte> narrowed(const float*, i64, Dtype, const std::string&);
template std::vector<std::byte> narrowed(const double*, i64, Dtype, const std::string&);

}  // namespace ogrom
