// ogrom inspect: what is in this file. Checkpoints, token sets, tokenizers, metrics, any HDF5 file.
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <optional>

#include "src/base/file.h"
#include "src/base/json.h"
#include "src/base/text.h"
#include "src/commands/arguments.h"
#include "src/commands/commands.h"
#include "src/data/token_set.h"
#include "src/io/checkpoint.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/describe.h"
#include "src/io/manifest.h"
#include "src/io/metrics.h"
#include "src/io/replay_trace.h"

namespace ogrom {

namespace {

using nlohmann::ordered_json;

constexpr i64 json_limit = i64{256} << 20;

struct InspectOptions {
    std::string path;
    std::optional<std::string> other;
    bool verify = false, json = false;
};

bool ends_in(const std::string& path, const char* ending) {
    return path.ends_with(ending);
}

void print(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        fail(ExitCode::checkpoint, "inspect: cannot write to the standard output");
    }
}

ordered_json entries_json(const std::vector<InspectEntry>& entries) {
    ordered_json list = ordered_json::array();
    for (const InspectEntry& entry : entries) {
        ordered_json item = {{"path", entry.path}, {"kind", entry.kind}};
        if (entry.kind == "dataset") {
            item["type"] = entry.type;
            item["shape"] = entry.shape;
            item["bytes"] = entry.bytes;
        }
        if (!entry.hash.empty()) {
            item["hash"] = entry.hash;
        }
        list.push_back(std::move(item));
    }
    return list;
}

std::string entries_text(const std::vector<InspectEntry>& entries) {
    std::string text;
    for (const InspectEntry& entry : entries) {
        if (entry.kind == "dataset") {
            text += fmt::format("  {:<48} {:<6} {:<16} {:>10}{}{}\n", entry.path, entry.type,
                                fmt::format("[{}]", fmt::join(entry.shape, ", ")), human_bytes(entry.bytes),
                                entry.hash.empty() ? "" : "  ", entry.hash);
        } else {
            text +=
                fmt::format("  {:<48} {}{}\n", entry.path, entry.kind, entry.kind == "link" ? " (not followed)" : "");
        }
    }
    return text;
}

// Top-level values of a JSON object as "key  value" lines (long ones cut), for records that others write.
std::string object_text(const ordered_json& object) {
    std::string text;
    for (const auto& [key, value] : object.items()) {
        if (value.is_structured() && value.size() > 8) {
            text += fmt::format("  {:<20} {} entries\n", key, value.size());
        } else {
            const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
            text += fmt::format("  {:<20} {}\n", key, shown.size() > 120 ? shown.substr(0, 117) + "..." : shown);
        }
    }
    return text;
}

// What `train --resume-verify` can make again; a damaged record is no fault of the checkpoint.
std::string recorded_steps(const std::string& folder) {
    try {
        const std::optional<std::string> text = read_replay_text(folder);
        if (!text) {
            return "none";
        }
        const std::vector<ReplayRow> rows = parse_replay(*text, join_path(folder, replay_trace_name)).rows;
        return fmt::format("{} to {} (train --resume-verify)", rows.front().step, rows.back().step);
    } catch (const Error& error) {
        return error.what();
    }
}

int inspect_checkpoint(const InspectOptions& options) {
    const std::string folder = resolve_checkpoint(options.path);
    if (options.verify) {
        verify_checkpoint(folder);
    }
    const CheckpointHeader header = read_header(folder);
    const ModelConfig model = read_model(folder);
    const std::string master = join_path(folder, master_name);
    std::vector<InspectEntry> entries = describe_file(master);
    i64 bytes = 0;
    ordered_json files = ordered_json::array();
    const Manifest manifest = read_manifest(folder);
    for (const FileRecord& record : manifest.files) {
        bytes += record.bytes;
        files.push_back({{"file", record.file}, {"bytes", record.bytes}});
    }
    if (options.verify) {
        hash_tensors(master, entries, bytes, manifest);
    }
    const std::string incomplete = incomplete_reason(folder);
    ordered_json root = {{"kind", "checkpoint"},
                         {"path", folder},
                         {"format", header.format},
                         {"step", header.step},
                         {"samples", header.cursor.total_samples},
                         {"seed", header.seed},
                         {"tokenizer", header.tokenizer},
                         {"tokenizer_path", header.tokenizer_path},
                         {"skipped_steps", header.skipped_steps},
                         {"weight_hash", fmt::format("{:016x}", header.weight_hash)},
                         {"model", fmt::format("{} layers, hidden {}, {} heads, vocabulary {}, sequence {}",
                                               model.layers, model.hidden, model.heads, model.vocab, model.sequence)},
                         {"complete", incomplete.empty() ? "yes" : incomplete},
                         {"verified", options.verify ? "manifest and weight hash agree" : "no (--verify)"},
                         {"bytes", bytes}};
    root["recorded_steps"] = recorded_steps(folder);
    root["best_valid_loss"] = std::isfinite(header.best_valid_loss) ? ordered_json(header.best_valid_loss) : nullptr;
    for (const auto& [name, value] : header.extra) {
        root["extra." + name] = value;
    }
    if (options.json) {
        root["files"] = std::move(files);
        root["entries"] = entries_json(entries);
        print(root.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    } else {
        print(object_text(root) + entries_text(entries));
    }
    return static_cast<int>(ExitCode::done);
}

int diff_checkpoints(const InspectOptions& options) {
    const std::string first = resolve_checkpoint(options.path), second = resolve_checkpoint(*options.other);
    if (options.verify) {
        verify_checkpoint(first);
        verify_checkpoint(second);
    }
    // Tensors of a part that is not there read as NaN, and would be equal.
    for (const std::string& folder : {first, second}) {
        const std::string reason = incomplete_reason(folder);
        require(reason.empty(), ExitCode::checkpoint,
                fmt::format("{} is not a complete checkpoint: {}", folder, reason));
    }
    ordered_json list = ordered_json::array();
    std::string text;
    i64 different = 0;
    const std::vector<Difference> differences = compare_checkpoints(first, second);
    for (const Difference& difference : differences) {
        const bool equal = difference.note.empty() && difference.unequal == 0;
        different += equal ? 0 : 1;
        const std::string shown = !difference.note.empty() ? difference.note
                                  : equal                  ? "equal bits"
                                          : fmt::format("{} elements differ, at most by {:.9g}", difference.unequal,
                                                        difference.max_difference);
        text += fmt::format("  {:<48} {}\n", difference.path, shown);
        list.push_back({{"path", difference.path},
                        {"equal", equal},
                        {"note", difference.note},
                        {"unequal", difference.unequal},
                        {"max_difference", difference.max_difference}});
    }
    text += fmt::format("{} of {} tensors differ\n", different, differences.size());
    const ordered_json root = {{"first", first}, {"second", second}, {"different", different}, {"tensors", list}};
    print(options.json ? root.dump(2) + "\n" : text);
    return different == 0 ? static_cast<int>(ExitCode::done) : 1;  // as diff(1) says it
}

bool has_hdf5_signature(const std::string& path) {
    constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
    std::ifstream file(path, std::ios::binary);
    std::string start(signature.size(), '\0');
    file.read(start.data(), static_cast<std::streamsize>(start.size()));
    return start == signature;
}

int inspect_hdf5(const InspectOptions& options) {
    require(has_hdf5_signature(options.path), ExitCode::checkpoint,
            options.path +
                ": not a file that inspect knows; would be right: a step, checkpoints or run folder, the "
                "prefix of a token set, a tokenizer.json, a metrics.csv, or an HDF5 file");
    std::vector<InspectEntry> entries = describe_file(options.path);
    if (options.verify) {
        hash_tensors(options.path, entries, file_size(options.path), {});
    }
    const ordered_json root = {{"kind", "hdf5"}, {"path", options.path}, {"entries", entries_json(entries)}};
    print(options.json ? root.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n"
                       : entries_text(entries));
    return static_cast<int>(ExitCode::done);
}

int inspect_metrics(const InspectOptions& options) {
    const std::vector<StepMetrics> rows = read_metrics_csv(options.path);
    ordered_json root = {{"kind", "metrics"}, {"path", options.path}, {"rows", rows.size()}};
    if (!rows.empty()) {
        root["first_step"] = rows.front().step;
        root["last_step"] = rows.back().step;
        root["first_loss"] = rows.front().loss;
        root["last_loss"] = rows.back().loss;
        root["tokens_per_s"] = rows.back().tokens_per_s;
        for (const StepMetrics& row : rows) {
            if (row.valid_loss) {
                root["last_valid_loss"] = *row.valid_loss;
            }
        }
    }
    print(options.json ? root.dump(2) + "\n" : object_text(root));
    return static_cast<int>(ExitCode::done);
}

// The record alone could tell of files that are no longer there, or are cut.
void require_whole_set(const std::string& record, const ordered_json& root) {
    const std::string prefix = record.substr(0, record.size() - std::string_view(".json").size());
    for (const auto& [ending, key] : {std::pair{".bin", "bytes"}, std::pair{".idx", "index_bytes"}}) {
        const std::string file = prefix + ending;
        require(file_exists(file), ExitCode::checkpoint,
                fmt::format("{}: does not exist; the record {} tells of it: make the set again with `ogrom data`", file,
                            record));
        const i64 bytes = file_size(file);
        require(root.contains(key) && root[key] == bytes, ExitCode::checkpoint,
                fmt::format("{}: {} bytes, the record {} says {}: cut, or written by another job; make the set again "
                            "with `ogrom data`",
                            file, bytes, record, root.contains(key) ? json_text(root[key]) : "nothing"));
    }
}

// The record of a token set, or a tokenizer.json: what the file says of itself.
int inspect_json(const InspectOptions& options, const std::string& path) {
    const ordered_json root =
        parse_json<ordered_json>(read_file(path, json_limit, ExitCode::data), path, ExitCode::data);
    const bool tokenizer = root.is_object() && root.contains("model") && root["model"].is_object();
    const std::string kind = tokenizer                                     ? "tokenizer"
                             : root.is_object() && root.contains("tokens") ? "token set"
                                                                           : "json";
    ordered_json shown = {{"kind", kind}, {"path", path}};
    if (tokenizer) {
        for (const char* part : {"vocab", "merges"}) {
            shown[part] = root["model"].contains(part) ? root["model"][part].size() : 0;
        }
        shown["type"] = root["model"].contains("type") ? root["model"]["type"] : ordered_json("unknown");
        shown["added_tokens"] = root.contains("added_tokens") ? root["added_tokens"].size() : 0;
    } else if (root.is_object()) {
        shown.update(root);
    }
    if (kind == "token set") {
        require_whole_set(path, root);
    }
    if (kind == "token set" && options.verify) {
        const TokenSet set(path.substr(0, path.size() - std::string_view(".json").size()), OpenCheck::counts);
        set.verify(0);
        shown["verified"] = "every id and hash is right";
    }
    print(options.json ? shown.dump(2) + "\n" : object_text(shown));
    return static_cast<int>(ExitCode::done);
}

// A pair of .bin and .idx that another program made: no record tells of it.
int inspect_bare_set(const InspectOptions& options, const std::string& prefix) {
    require(!options.verify, ExitCode::usage,
            fmt::format("{}: no record says what its ids and hashes should be; would be right: ogrom data --check {} "
                        "--vocab N",
                        prefix, prefix));
    const TokenSet set(prefix, OpenCheck::counts);
    const ordered_json root = {{"kind", "token set"},
                               {"path", prefix},
                               {"documents", set.documents()},
                               {"tokens", set.tokens()},
                               {"type", set.dtype() == Dtype::u16 ? "uint16" : "int32"},
                               {"record", "none: made by another program; its tokenizer is not known"}};
    print(options.json ? root.dump(2) + "\n" : object_text(root));
    return static_cast<int>(ExitCode::done);
}

// A token set by its prefix: the record, or the pair alone.
int inspect_set(const InspectOptions& options, const std::string& prefix) {
    return !file_exists(prefix + ".json") && file_exists(prefix + ".idx") ? inspect_bare_set(options, prefix)
                                                                          : inspect_json(options, prefix + ".json");
}

int run_inspect(const InspectOptions& options) {
    const std::string& path = options.path;
    require(!path.empty(), ExitCode::usage, "inspect: PATH is empty; see ogrom inspect --help");
    require(!is_special(path), ExitCode::checkpoint,
            fmt::format("{}: a pipe, socket or device; would be right: a file or a folder", path));
    if (options.other) {
        require(!options.other->empty(), ExitCode::usage, "inspect: the PATH after --diff is empty");
        return diff_checkpoints(options);
    }
    for (const char* ending : {".idx", ".bin"}) {
        if (ends_in(path, ending)) {
            return inspect_set(options, path.substr(0, path.size() - 4));
        }
    }
    if (!file_exists(path) && (file_exists(path + ".json") || file_exists(path + ".idx"))) {
        return inspect_set(options, path);
    }
    if (!file_exists(path)) {
        fail(ExitCode::checkpoint, fmt::format("{}: does not exist (nor {}.json, nor {}.idx)", path, path, path));
    }
    if (is_directory(path) && file_exists(join_path(path, "tokenizer.json"))) {
        return inspect_json(options, join_path(path, "tokenizer.json"));
    }
    if (is_directory(path) || ends_in(path, master_name) || path == "latest" || ends_in(path, "/latest")) {
        return inspect_checkpoint(options);
    }
    if (ends_in(path, ".csv")) {
        return inspect_metrics(options);
    }
    return ends_in(path, ".json") ? inspect_json(options, path) : inspect_hdf5(options);
}

}  // namespace

void add_inspect(CLI::App& app, Invocation& chosen) {
    CLI::App* command =
        app.add_subcommand("inspect", "What is in a checkpoint, token set, tokenizer, metrics or HDF5 file");
    const auto options = std::make_shared<InspectOptions>();
    command
        ->add_option("PATH", options->path,
                     "step, checkpoints or run folder; token set prefix; tokenizer.json; metrics.csv; any .h5")
        ->required();
    command->add_flag("--verify", options->verify, "read everything: manifest hashes, weight hash, a hash per tensor");
    command->add_option("--diff", options->other,
                        "a second checkpoint: compare tensor by tensor; exit code 0 equal, 1 different");
    command->add_flag("--json", options->json, "as JSON");
    command->footer("Example: ogrom inspect results/runs/demo --verify");
    command->callback([options, &chosen] {
        chosen.needs_session = false;
        chosen.run = alone("inspect", [options] { return run_inspect(*options); });
    });
}

}  // namespace ogrom
