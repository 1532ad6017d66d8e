#include "src/io/checkpoint_header.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels/common/fault.h"

#include "src/base/file.h"
#include "src/base/json.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/io_thread.h"
#include "src/io/manifest.h"

namespace ogrom {

using nlohmann::json;

namespace {

constexpr i64 known_format = 1;
constexpr const char* header_group = "header";
constexpr const char* extra_group = "extra";
constexpr const char* model_group = "model";

h5::Group open_group(hid_t file_id, const char* name, const std::string& file) {
    if (!h5::has_link(file_id, name)) {
        fail(ExitCode::checkpoint,
             fmt::format("{}: group '{}' is missing: not a checkpoint of this program", file, name));
    }
    return h5::open_group(file_id, name, file);
}

// Names of the enumerators, in their order.
constexpr const char* norm_names[] = {"layer", "rms"};
constexpr const char* position_names[] = {"learned", "rope", "none"};
constexpr const char* mlp_names[] = {"gelu", "swiglu"};
constexpr const char* head_names[] = {"language"};

template <class Kind, std::size_t n>
std::string kind_name(Kind kind, const char* const (&names)[n]) {
    return names[static_cast<std::size_t>(kind)];
}
template <class Kind, std::size_t n>
Kind kind_of(const std::string& name, const char* const (&names)[n], const std::string& file) {
    for (std::size_t i = 0; i < n; ++i) {
        if (name == names[i]) {
            return static_cast<Kind>(i);
        }
    }
    fail(ExitCode::checkpoint, fmt::format("{}: /model has the unknown kind '{}'", file, name));
}

// One list of the plain fields for writing and reading.
template <class Model, class Visit>
void visit_fields(Model& model, Visit visit) {
    visit("layers", model.layers);
    visit("hidden", model.hidden);
    visit("heads", model.heads);
    visit("kv_heads", model.kv_heads);
    visit("head_dim", model.head_dim);
    visit("ffn_hidden", model.ffn_hidden);
    visit("vocab", model.vocab);
    visit("padded_vocab", model.padded_vocab);
    visit("sequence", model.sequence);
    visit("tied", model.tied);
    visit("bias", model.bias);
    visit("norm_epsilon", model.norm_epsilon);
    visit("dropout_embedding", model.dropout_embedding);
    visit("dropout_attention", model.dropout_attention);
    visit("dropout_residual", model.dropout_residual);
    visit("init_std", model.init_std);
}

void put_field(hid_t group, const char* name, i64 value, const std::string& file) {
    h5::put(group, name, value, file);
}
void put_field(hid_t group, const char* name, double value, const std::string& file) {
    h5::put(group, name, value, file);
}
void put_field(hid_t group, const char* name, bool value, const std::string& file) {
    h5::put(group, name, i64{value ? 1 : 0}, file);
}
void get_field(hid_t group, const char* name, i64& value, const std::string& file) {
    value = h5::get_i64(group, name, file);
}
void get_field(hid_t group, const char* name, double& value, const std::string& file) {
    value = h5::get_double(group, name, file);
}
void get_field(hid_t group, const char* name, bool& value, const std::string& file) {
    value = h5::get_i64(group, name, file) != 0;
}

}  // namespace

void put_header(hid_t file_id, const CheckpointHeader& header, const std::string& file) {
    h5::put(file_id, "format", i64{header.format}, file);
    h5::put(file_id, "step", header.step, file);
    h5::put(file_id, "seed", header.seed, file);
    h5::put(file_id, "tokenizer", header.tokenizer, file);
    h5::put(file_id, "tokenizer_path", header.tokenizer_path, file);
    h5::put(file_id, "weight_hash", header.weight_hash, file);
    h5::put(file_id, "skipped_steps", header.skipped_steps, file);
    h5::put(file_id, "best_valid_loss", header.best_valid_loss, file);
    const h5::Group texts = h5::make_group(file_id, header_group, file);
    h5::put_text(texts.get(), "run_toml", header.run_toml, file);
    h5::put_text(texts.get(), "provenance", header.provenance_json, file);
    h5::put_text(texts.get(), "cursor", cursor_json(header.cursor), file);
    const h5::Group extra = h5::make_group(file_id, extra_group, file);
    for (const auto& [name, value] : header.extra) {
        h5::put(extra.get(), name, value, file);
    }
}

CheckpointHeader get_header(hid_t file_id, const std::string& file) {
    CheckpointHeader header;
    const i64 format = h5::get_i64(file_id, "format", file);
    if (format != known_format) {
        fail(ExitCode::checkpoint,
             fmt::format("{}: format {} is not known; this program reads format {}", file, format, known_format));
    }
    header.step = h5::get_i64(file_id, "step", file);
    header.seed = h5::get_u64(file_id, "seed", file);
    header.tokenizer = h5::get_string(file_id, "tokenizer", file);
    header.tokenizer_path = h5::get_string(file_id, "tokenizer_path", file);
    header.weight_hash = h5::get_u64(file_id, "weight_hash", file);
    header.skipped_steps = h5::get_i64(file_id, "skipped_steps", file);
    header.best_valid_loss = h5::get_double(file_id, "best_valid_loss", file);
    const h5::Group texts = open_group(file_id, header_group, file);
    header.run_toml = h5::get_text(texts.get(), "run_toml", file);
    header.provenance_json = h5::get_text(texts.get(), "provenance", file);
    header.cursor = parse_cursor(h5::get_text(texts.get(), "cursor", file), file);
    const h5::Group extra = open_group(file_id, extra_group, file);
    for (const std::string& name : h5::attribute_names(extra.get(), file)) {
        header.extra[name] = h5::get_string(extra.get(), name, file);
    }
    return header;
}

void put_model(hid_t file_id, const ModelConfig& model, const std::string& file) {
    const h5::Group group = h5::make_group(file_id, model_group, file);
    visit_fields(model, [&](const char* name, auto value) { put_field(group.get(), name, value, file); });
    h5::put(group.get(), "norm", kind_name(model.norm, norm_names), file);
    h5::put(group.get(), "position", kind_name(model.position, position_names), file);
    h5::put(group.get(), "mlp", kind_name(model.mlp, mlp_names), file);
    h5::put(group.get(), "head", kind_name(model.head, head_names), file);
}

ModelConfig get_model(hid_t file_id, const std::string& file) {
    ModelConfig model;
    const h5::Group group = open_group(file_id, model_group, file);
    visit_fields(model, [&](const char* name, auto& value) { get_field(group.get(), name, value, file); });
    const auto text = [&](const char* name) { return h5::get_string(group.get(), name, file); };
    model.norm = kind_of<NormKind>(text("norm"), norm_names, file);
    model.position = kind_of<PositionKind>(text("position"), position_names, file);
    model.mlp = kind_of<MlpKind>(text("mlp"), mlp_names, file);
    model.head = kind_of<HeadKind>(text("head"), head_names, file);
    // Extents size memory: a damaged or hostile file must not choose them freely.
    constexpr i64 limit = i64{1} << 31;
    for (const i64 extent : {model.layers, model.hidden, model.heads, model.kv_heads, model.head_dim, model.ffn_hidden,
                             model.vocab, model.padded_vocab, model.sequence}) {
        require(extent > 0 && extent < limit, ExitCode::checkpoint,
                fmt::format("{}: /model has an extent of {}; extents lie between 1 and 2^31", file, extent));
    }
    return model;
}

std::string cursor_json(const Cursor& cursor) {
    json sources = json::array();
    for (const CursorSource& source : cursor.sources) {
        sources.push_back(
            {{"id", source.id}, {"weight", source.weight}, {"epoch", source.epoch}, {"consumed", source.consumed}});
    }
    return json{{"version", cursor.version},
                {"seed", cursor.seed},
                {"sources", std::move(sources)},
                {"total_samples", cursor.total_samples}}
        .dump();
}

Cursor parse_cursor(const std::string& text, const std::string& file) {
    Cursor cursor;
    try {
        const json root = parse_json<json>(text, file + ": /header/cursor", ExitCode::checkpoint);
        cursor.version = root.at("version").get<int>();
        cursor.seed = root.at("seed").get<u64>();
        cursor.total_samples = root.at("total_samples").get<i64>();
        for (const json& source : root.at("sources")) {
            cursor.sources.push_back({source.at("id").get<std::string>(), source.at("weight").get<double>(),
                                      source.at("epoch").get<i64>(), source.at("consumed").get<i64>()});
        }
    } catch (const json::exception& error) {
        fail(ExitCode::checkpoint, fmt::format("{}: /header/cursor: {}", file, error.what()));
    }
    return cursor;
}

std::optional<i64> newer_format(const std::string& folder) {
    const std::optional<i64> format = named_format(folder);
    if (!format || *format <= known_format || fault_active("newer_format_passed_over")) {
        return std::nullopt;
    }
    try {
        const std::string master = join_path(folder, master_name);
        const i64 inside = on_io_thread([&] { return h5::get_i64(h5::open_read(master).get(), "format", master); });
        return inside == *format ? format : std::nullopt;
    } catch (const Error&) {
        return std::nullopt;
    }
}

CheckpointHeader read_header(const std::string& checkpoint) {
    const std::string path = verified_master(resolve_checkpoint(checkpoint));
    return on_io_thread([&] { return get_header(h5::open_read(path).get(), path); });
}

ModelConfig read_model(const std::string& checkpoint) {
    const std::string path = verified_master(resolve_checkpoint(checkpoint));
    return on_io_thread([&] { return get_model(h5::open_read(path).get(), path); });
}

}  // namespace ogrom
