#include "src/io/hf_folder.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <set>

#include "kernels/common/fault.h"

#include "src/base/text.h"
#include "src/io/checkpoint_load.h"
#include "src/io/checkpoint_shared.h"
#include "src/io/hf_gpt2.h"

namespace ogrom {
namespace {

constexpr const char* prefix = "transformer.";
constexpr const char* table_name = "wte.weight";
constexpr const char* head_name = "lm_head.weight";

// Masks that old files carry along; nothing is learned in them.
bool is_mask(const std::string& name) {
    return name.starts_with("h.") && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

std::string config_of(const std::string& folder) {
    const std::string path = join_path(folder, "config.json");
    require(file_exists(path), ExitCode::data, folder + ": holds no config.json; not a folder of Hugging Face's form");
    return path;
}

}  // namespace

bool is_hf_folder(const std::string& path) {
    return file_exists(join_path(path, "config.json"));
}

HfFolder::HfFolder(const std::string& path)
    : path_(path), model_(parse_hf_config(config_of(path), unused_)), set_(path) {
    const i64 tensors = static_cast<i64>(set_.names().size());
    require(model_.layers <= tensors, ExitCode::data,
            fmt::format("{}: n_layer = {}, the files hold {} tensors", config_of(path), model_.layers, tensors));
}

HfFolder::Stored HfFolder::stored_names() const {
    Stored stored;
    for (const std::string& full : set_.names()) {
        const std::string name = full.starts_with(prefix) ? full.substr(std::strlen(prefix)) : full;
        if (!is_mask(name) && !stored.emplace(name, full).second) {
            fail(ExitCode::data,
                 fmt::format("{}: tensor {} stands with and without \"{}\"", path_, quote(name), prefix));
        }
    }
    return stored;
}

// A tied head: either of the two names, or both with the same values.
void HfFolder::choose_table(Stored& stored, HfTensor& table) {
    const auto head = stored.find(head_name);
    if (head == stored.end()) {
        return;
    }
    const auto own = stored.find(table_name);
    if (own == stored.end()) {
        table.name = head_name;
        return;
    }
    twins_.emplace(own->second, head->second);
    stored.erase(head);
}

void HfFolder::require_equal_twins(int share, int shares) const {
    if (!twins_) {
        return;
    }
    const auto& [own, head] = *twins_;
    const SafeTensor &a = *set_.find(own), &b = *set_.find(head);
    bool same = a.shape == b.shape;
    constexpr i64 piece = i64{1} << 20;
    std::vector<double> left(static_cast<std::size_t>(piece)), right(left.size());
    const FlatRange range = writer_range(a.count(), share, shares);
    for (i64 first = range.first; same && first < range.last; first += piece) {
        const i64 count = std::min(piece, range.last - first);
        set_.read(own, first, count, left.data());
        set_.read(head, first, count, right.data());
        same = std::memcmp(left.data(), right.data(), static_cast<std::size_t>(count) * sizeof(double)) == 0;
    }
    require(same, ExitCode::data,
            fmt::format("{}: {} and {} differ, but tie_word_embeddings is true or absent in config.json; would be "
                        "right: false, or one of the two tensors alone",
                        path_, quote(own), quote(head)));
}

std::vector<std::string> HfFolder::match(const ModelConfig& model, const std::string& by) {
    places_.clear();
    twins_.reset();
    type_ = Dtype::fp32;
    Stored stored = stored_names();
    std::vector<HfTensor> wanted = hf_tensors(model);
    if (model.tied && model_.tied) {
        choose_table(stored, wanted.front());
    }
    std::vector<std::string> misfits;
    for (const HfTensor& tensor : wanted) {
        const auto found = stored.find(tensor.name);
        if (found == stored.end()) {
            misfits.push_back("missing: " + tensor.name);
            continue;
        }
        const std::string full = found->second;
        stored.erase(found);
        const SafeTensor& there = *set_.find(full);
        if (there.shape != tensor.shape) {
            misfits.push_back(fmt::format("does not fit: {}: shape {} in the file, {} {}", full,
                                          h5::shape_text(there.shape), h5::shape_text(tensor.shape), by));
            continue;
        }
        if (!there.held) {
            misfits.push_back(
                fmt::format("does not fit: {}: dtype {}; F32, F16, BF16 and F64 are read", full, there.type));
            continue;
        }
        type_ = there.held == Dtype::fp64 ? Dtype::fp64 : type_;
        for (std::size_t part = 0; part < tensor.rows.size(); ++part) {
            places_[tensor.rows[part]] = {tensor, full, static_cast<i64>(part)};
        }
    }
    for (const auto& [name, full] : stored) {
        misfits.push_back("unexpected: " + full);
    }
    return misfits;
}

std::optional<Dtype> HfFolder::stored_type() const {
    std::set<Dtype> types;
    for (const auto& [row, place] : places_) {
        types.insert(*set_.find(place.stored)->held);
    }
    return types.size() == 1 ? std::optional(*types.begin()) : std::nullopt;
}

template <class T>
void HfFolder::read(const Parameter& row, const TensorPiece& piece, T* to) const {
    const Place& place = places_.at(row.name);
    const i64 parts = static_cast<i64>(place.tensor.rows.size());
    const i64 part = fault_active("hf_qkv_order") ? parts - 1 - place.part : place.part;
    const TensorExtent extent = extent_of(row);
    if (!place.tensor.conv1d) {
        const i64 stretch = piece.cols == extent.cols ? piece.count() : piece.cols;  // in one piece in the file
        const i64 start = (part * extent.rows + piece.row) * extent.cols + piece.col;
        for (i64 done = 0; done < piece.count(); done += stretch) {
            set_.read(place.stored, start + done / piece.cols * extent.cols, stretch, to + done);
        }
        return;
    }
    // A column of ours is a stretch of theirs. Several at a time, so that each line of `to` is written once.
    constexpr i64 most = 16;
    const i64 out = extent.rows, first = part * out + piece.row;
    const i64 from = fault_active("hf_column_ignored") ? 0 : piece.col;
    std::vector<T> columns(static_cast<std::size_t>(std::min(most, piece.cols) * piece.rows));
    for (i64 col = 0; col < piece.cols; col += most) {
        const i64 count = std::min(most, piece.cols - col);
        for (i64 c = 0; c < count; ++c) {
            set_.read(place.stored, (from + col + c) * parts * out + first, piece.rows,
                      columns.data() + c * piece.rows);
        }
        for (i64 r = 0; r < piece.rows; ++r) {
            for (i64 c = 0; c < count; ++c) {
                const bool turned = !fault_active("conv1d_not_transposed");
                to[turned ? r * piece.cols + col + c : (col + c) * piece.rows + r] =
                    columns[static_cast<std::size_t>(c * piece.rows + r)];
            }
        }
    }
}
template void HfFolder::read<float>(const Parameter&, const TensorPiece&, float*) const;
template void HfFolder::read<double>(const Parameter&, const TensorPiece&, double*) const;

bool HfFolder::has_tokenizer() const {
    const auto there = [&](const char* name) { return file_exists(join_path(path_, name)); };
    return there("tokenizer.json") || there("vocab.json") || there("encoder.json");
}

Tokenizer HfFolder::tokenizer() const {
    return Tokenizer::load(path_);
}

template <class T>
LoadReport load_weights(Communicator& world, const HfFolder& folder, const ParameterLayout& layout,
                        const std::vector<HeldRange<T>>& ranges) {
    LoadReport report;
    std::vector<bool> usable;
    for (const Parameter& row : layout.table()) {
        usable.push_back(folder.holds(row.name));
    }
    share_result(world, "hf.read", [&] {
        folder.require_equal_twins(world.rank(), world.size());
        for (const HeldRange<T>& range : ranges) {
            const HeldRange<std::byte> bytes{range.flat, reinterpret_cast<std::byte*>(range.data)};
            report.bytes_read += fill_range(layout, bytes, usable, dtype_of<T>(),
                                            [&](const Parameter& row, const TensorPiece& piece, std::byte* to) {
                                                folder.read(row, piece, reinterpret_cast<T*>(to));
                                            });
        }
        return std::string();
    });
    return report;
}
template LoadReport load_weights<float>(Communicator&, const HfFolder&, const ParameterLayout&,
                                        const std::vector<HeldRange<float>>&);
template LoadReport load_weights<double>(Communicator&, const HfFolder&, const ParameterLayout&,
                                         const std::vector<HeldRange<double>>&);

}  // namespace ogrom
