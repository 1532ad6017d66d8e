// What recomputation costs a layer, at a compute-bound shape: steps of a shallow and of a deep model, whose difference
// is layers alone (embedding, head and fixed costs drop out). One rank.
//   bench_recompute [SAMPLES] [THREADS]     prints rows as JSON
#include <array>
#include <cstdlib>
#include <fmt/format.h>

#include "tests/peers/layout_bench.h"

namespace ogrom::peers {
namespace {

constexpr i64 shallow = 2, deep = 6;
constexpr std::array<const char*, 3> modes = {"none", "selective", "full"};
constexpr std::array<double, 3> bars_percent = {0, 4, 30};

Json recompute(Session& session, const std::string& command, int samples, int threads) {
    require(session.size() == 1, ExitCode::usage, "bench_recompute runs on 1 rank");
    std::vector<std::unique_ptr<Contender>> contenders;  // [mode][depth]
    std::vector<std::function<double()>> steps;
    for (const char* const mode : modes) {
        for (const i64 layers : {shallow, deep}) {
            const BenchModel model{.layers = layers, .hidden = 768, .heads = 12, .sequence = 512, .micro_batch = 4};
            const std::string train = fmt::format("recompute = \"{}\"\n", mode);
            contenders.push_back(std::make_unique<Contender>(session, bench_run(model, train, "", 1), threads));
            steps.emplace_back([contender = contenders.back().get()] { return contender->step(); });
        }
    }
    const auto times = in_turn(steps, samples);
    for (std::size_t c = 2; c < contenders.size(); ++c) {
        require(contenders[c]->loss() == contenders[c % 2]->loss(), ExitCode::numerics,
                fmt::format("recompute {}: loss {}, not {}", modes[c / 2], contenders[c]->loss(),
                            contenders[c % 2]->loss()));
    }
    std::array<std::vector<double>, 3> layer;
    for (std::size_t mode = 0; mode < modes.size(); ++mode) {
        for (std::size_t i = 0; i < times[0].size(); ++i) {
            layer[mode].push_back((times[2 * mode + 1][i] - times[2 * mode][i]) / static_cast<double>(deep - shallow));
        }
    }
    Json rows = Json::array();
    for (std::size_t mode = 1; mode < modes.size(); ++mode) {
        std::vector<double> cost;
        for (const double ratio : ratios(layer[mode], layer[0])) {
            cost.push_back(100 * (ratio - 1));
        }
        const Json extra = {{"layer_s", layer[mode]},
                            {"layer_none_s", layer[0]},
                            {"depths", {shallow, deep}},
                            {"model", "C=768 T=512 B=4, 12 heads, fp32; forward, backward and update of a layer"}};
        rows.push_back(row_of({fmt::format("recompute {}, more time a layer", modes[mode]), "%", Better::lower, cost,
                               bars_percent[mode], fmt::format("at most {:.0f} %", bars_percent[mode]), extra},
                              command));
    }
    return rows;
}

}  // namespace
}  // namespace ogrom::peers

int main(int argc, char** argv) {
    using namespace ogrom::peers;
    const int samples = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
    const int threads = argc > 2 ? std::max(1, std::atoi(argv[2])) : 2;
    return run_bench(argc, argv, threads, [&](ogrom::Session& session, const std::string& command) {
        return recompute(session, command, samples, threads);
    });
}
