#include "tests/fuzz/small_checkpoint.h"

#include <filesystem>

#include "src/base/file.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/checkpoint_reader.h"
#include "src/io/checkpoint_type.h"
#include "src/io/describe.h"
#include "src/io/hdf5.h"
#include "src/io/io_thread.h"
#include "src/io/manifest.h"

#include "tests/fuzz/support.h"

namespace ogrom::fuzz {

namespace {

constexpr i64 step_of_all = 2;

struct State {
    ModelConfig model = small_model();
    ParameterTable table = make_parameters(model, Dtype::fp32);
    ParameterLayout layout{table, StageSpan{0, 0, 0, model.layers, true, true}};
    std::vector<float> weights = std::vector<float>(static_cast<std::size_t>(layout.size()), 0.5F);
    std::vector<float> moment1 = weights;
};

}  // namespace

ModelConfig small_model() {
    ModelConfig model;
    model.layers = 1;
    model.hidden = 4;
    model.heads = model.kv_heads = 2;
    model.head_dim = 2;
    model.ffn_hidden = 6;
    model.vocab = 5;
    model.padded_vocab = 8;
    model.sequence = 3;
    return model;
}

std::string save_small_checkpoint(const std::string& directory) {
    const State state;
    CheckpointHeader header;
    header.step = step_of_all;
    header.cursor = {1, 7, {{"set", 1.0, 0, 5}}, 16};
    header.tokenizer = "byte:1";
    header.run_toml = "[run]\nname = \"small\"\n";
    header.provenance_json = "{}";
    header.extra = {{"loss_scale", "65536"}};
    header.weight_hash = weight_hash(std::span<const float>(state.weights), state.layout);
    save_checkpoint<float>(*make_single_communicator(), directory, header, state.layout, state.model,
                           {state.weights, state.moment1, {}}, 0);
    return small_step(directory);
}

std::string small_step(const std::string& directory) {
    return join_path(directory, step_name(step_of_all));
}

void agree_manifest(const std::string& step) {
    Manifest manifest{1, step_of_all, {}};
    for (const std::string& name : list_directory(step)) {
        if (name.ends_with(".h5")) {
            const std::string bytes = read_file(join_path(step, name), i64{1} << 24);
            BlockHasher hasher;
            hasher.add(std::as_bytes(std::span(bytes)));
            manifest.files.push_back({name, static_cast<i64>(bytes.size()), hasher.finish()});
        }
    }
    put_bytes(join_path(step, manifest_name), to_text(manifest));
}

void read_everything(const std::string& step) {
    const std::string master = join_path(step, master_name);
    accept([&] { (void)describe_file(master); });
    accept([&] { (void)read_header(step); });
    accept([&] { (void)read_model(step); });
    accept([&] { (void)read_weight_type(step); });
    accept([&] {
        State state;
        std::vector<std::string> skipped;
        load_checkpoint<float>(*make_single_communicator(), step, state.layout, {state.weights, state.moment1, {}},
                               false, skipped);
    });
    accept([&] { verify_checkpoint(step); });
    accept([&] {
        std::vector<InspectEntry> entries = describe_file(master);
        hash_tensors(master, entries, file_size(master) + file_size(join_path(step, part_name(0))),
                     read_manifest(step));
    });
    accept([&] { (void)compare_checkpoints(step, step); });
    accept([&] {
        const CheckpointReader reader(step, Kept::everything);
        for (const Parameter& tensor : reader.table().rows()) {
            if (tensor.tie.empty()) {
                std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.count() * size_of(reader.type())));
                reader.read("weights", tensor, 0, tensor.count(), bytes.data());
            }
        }
    });
}

}  // namespace ogrom::fuzz
