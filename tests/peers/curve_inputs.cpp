// curve_inputs RUN.toml FOLDER: what a peer needs to train the run of a run file step by step with us.
//   FOLDER/inputs.json   model, steps, rows of a step, sequence, tensors [{name, shape}] in the order of weights.bin
//   FOLDER/weights.bin   initial weights, little-endian fp32, tensors one after another, no padding
//   FOLDER/tokens.bin    little-endian int32 [steps, rows, sequence + 1]: the samples of each step in their order;
//   inputs
//                        are the first `sequence` of a row, targets the last
// One rank; the weights are those that the trainer draws, the samples those that its sampler reads.
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/config/run.h"
#include "src/data/sampler.h"
#include "src/model/parameters.h"

namespace {

using namespace ogrom;

std::ofstream open(const std::string& path) {
    std::ofstream out(path, std::ios::binary);
    out.exceptions(std::ios::badbit | std::ios::failbit);
    return out;
}

template <class T>
void write(std::ofstream& out, const T* values, i64 count) {
    out.write(reinterpret_cast<const char*>(values), count * static_cast<i64>(sizeof(T)));
}

nlohmann::json write_weights(const RunConfig& run, const std::string& path) {
    const ParameterTable table = make_parameters(run.model, Dtype::fp32);
    const ParameterLayout layout(table, StageSpan{0, 0, 0, run.model.layers, true, true});
    std::vector<float> flat(static_cast<std::size_t>(layout.size()));
    initialise<float>(flat, layout, run.train.seed);
    nlohmann::json tensors = nlohmann::json::array();
    std::ofstream out = open(path);
    for (const LocalTensor& tensor : layout.tensors()) {
        if (tensor.parameter->tie.empty()) {
            tensors.push_back({{"name", tensor.parameter->name}, {"shape", tensor.parameter->shape}});
            write(out, flat.data() + tensor.offset, tensor.logical);
        }
    }
    return tensors;
}

void write_tokens(const RunConfig& run, const std::string& path) {
    const Sampler sampler(run.data, run.train.sequence, run.model.vocab, SplitPart::train);
    std::ofstream out = open(path);
    std::vector<std::int32_t> ids;
    for (i64 n = 0; n < run.train.steps * run.train.global_batch; ++n) {
        sampler.read(n, ids);
        write(out, ids.data(), static_cast<i64>(ids.size()));
    }
}

void run(const std::string& file, const std::string& folder) {
    ParseInput input;
    input.path = file;
    const RunConfig run = parse_run(input);
    const nlohmann::json tensors = write_weights(run, folder + "/weights.bin");
    write_tokens(run, folder + "/tokens.bin");
    const ModelConfig& m = run.model;
    const nlohmann::json inputs = {{"steps", run.train.steps},
                                   {"rows", run.train.global_batch},
                                   {"sequence", run.train.sequence},
                                   {"layers", m.layers},
                                   {"hidden", m.hidden},
                                   {"heads", m.heads},
                                   {"vocab", m.vocab},
                                   {"norm_epsilon", m.norm_epsilon},
                                   {"beta1", run.optimizer.beta1},
                                   {"beta2", run.optimizer.beta2},
                                   {"epsilon", run.optimizer.epsilon},
                                   {"weight_decay", run.optimizer.weight_decay},
                                   {"clip_norm", run.optimizer.clip_norm},
                                   {"tensors", tensors}};
    open(folder + "/inputs.json") << inputs.dump(1) << '\n';
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) {
        std::fprintf(stderr, "curve_inputs RUN.toml FOLDER\n");
        return 2;
    }
    try {
        run(arguments[1], arguments[2]);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "curve_inputs: %s\n", error.what());
        return 1;
    }
    return 0;
}
