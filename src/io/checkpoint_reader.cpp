#include "src/io/checkpoint_reader.h"

#include <algorithm>
#include <fmt/format.h>

#include "src/base/file.h"
#include "src/base/text.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_load.h"
#include "src/io/checkpoint_type.h"
#include "src/io/io_thread.h"

namespace ogrom {
namespace {

constexpr std::size_t listed_differences = 200;

// The model of the header sizes the table: not beyond what the files can hold.
void require_plausible(const ModelConfig& model, i64 tensors, i64 bytes, const std::string& file) {
    require(model.layers >= 0 && model.layers <= tensors, ExitCode::checkpoint,
            fmt::format("{}: {} layers in the header, {} tensors in the file", file, model.layers, tensors));
    for (const i64 extent : {model.hidden, model.vocab, model.padded_vocab, model.sequence, model.ffn_hidden,
                             model.heads, model.kv_heads, model.head_dim}) {
        require(extent >= 0 && extent <= bytes, ExitCode::checkpoint,
                fmt::format("{}: the model of the header has an extent of {}, the files have {} bytes", file, extent,
                            bytes));
    }
}

void refuse(const Match& match, const std::string& file) {
    std::vector<std::string> lines = match.lines();
    const std::size_t all = lines.size();
    lines.resize(std::min(all, listed_differences));
    fail(ExitCode::checkpoint, fmt::format("{}: {} tensors are not those of its model:\n  {}{}", file, all,
                                           join(lines, "\n  "), all > lines.size() ? "\n  ..." : ""));
}

}  // namespace

CheckpointReader::CheckpointReader(const std::string& checkpoint, Kept kept)
    : folder_(resolve_checkpoint(checkpoint)), file_(join_path(folder_, master_name)) {
    const std::string damage = damage_of(*make_single_communicator(), folder_);
    require(damage.empty(), ExitCode::checkpoint, damage);
    manifest_ = read_manifest(folder_);
    header_ = read_header(folder_);
    require(
        header_.step == manifest_.step, ExitCode::checkpoint,
        fmt::format("{}: step {} in {}, {} in {}", folder_, header_.step, master_name, manifest_.step, manifest_name));
    model_ = read_model(folder_);
    type_ = read_weight_type(folder_);
    on_io_thread([&] { open(kept); });
}

CheckpointReader::~CheckpointReader() {
    on_io_thread([&] { handle_.reset(); });
}

void CheckpointReader::open(Kept kept) {
    h5::File file = h5::open_read(file_);
    i64 bytes = 0;
    for (const FileRecord& record : manifest_.files) {
        bytes += record.bytes;
    }
    const h5::Group weights = h5::open_group(file.get(), "/weights", file_);
    require_plausible(model_, static_cast<i64>(h5::list(weights.get(), file_).size()), bytes, file_);
    table_ = make_parameters(model_, type_);
    LoadTarget target{type_, {}, kept == Kept::everything};
    for (const h5::Object& object : h5::list(file.get(), file_)) {
        const bool state = holds_state(object.name) && object.kind == h5::ObjectKind::group;
        if (state && (kept == Kept::everything || object.name == "weights")) {
            groups_.push_back(object.name);
            target.groups.push_back({object.name, {}});
        }
    }
    const Match match = match_tensors(file.get(), file_, table_.rows(), target, manifest_);
    if (!match.exact()) {
        refuse(match, file_);
    }
    handle_ = std::move(file);
}

void CheckpointReader::read(const std::string& group, const Parameter& tensor, i64 first, i64 count,
                            std::byte* to) const {
    on_io_thread([&] {
        const std::string item = "/" + group + "/" + tensor.name;
        const h5::Dataset dataset = h5::open_dataset(handle_.get(), item, file_);
        for (const TensorPiece& piece : row_blocks(extent_of(tensor).cols, first, first + count)) {
            read_piece(dataset.get(), file_, item, tensor, piece, type_, to + piece.source * size_of(type_));
        }
    });
}

}  // namespace ogrom
