// The chosen layouts of the self-test (src/train/selftest_chosen.h) do what is said of them: the calls of each axis as
// its communicator counted them, over all ranks, against axis_calls. Runs the layouts of as many ranks as there are.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>

#include "src/model/tensor_traffic.h"
#include "src/optim/traffic.h"
#include "src/pipeline/execute.h"
#include "src/train/layout_trial.h"
#include "src/train/selftest_chosen.h"

#include "tests/equivalence/tiny.h"

namespace ogrom::test {
namespace {

std::string_view collective_of(std::string_view label) {
    static const std::map<std::string_view, std::string_view> collectives = {
        {tensor_sum_label, "all_reduce"},
        {tensor_gather_label, "all_gather_batched"},
        {tensor_scatter_label, "reduce_scatter_batched"},
        {activation_label, "send"},
        {gradient_label, "send"},
        {labels::gradient_all_reduce, "all_reduce"},
        {labels::gradient_reduce, "reduce"},
        {labels::gradient_broadcast, "broadcast"},
        {labels::replica_gradient, "all_reduce"},
        {labels::tied_gradient, "all_reduce"},
        {labels::replicated_gradient, "all_reduce"},
        {labels::parameter_broadcast, "broadcast"},
        {labels::parameter_gather, "broadcast"},
    };
    const auto found = collectives.find(label);
    return found == collectives.end() ? std::string_view{} : found->second;
}

// Of this rank, a line each; control values have labels of their own.
std::string calls_of(const Mesh& mesh) {
    std::string text;
    for (const Communicator* axis : {mesh.tp.get(), mesh.shard.get(), mesh.replica.get(), mesh.pp_forward.get(),
                                     mesh.pp_backward.get(), mesh.tie.get()}) {
        if (axis == nullptr || axis->size() == 1) {
            continue;
        }
        for (const auto& [label, bytes] : axis->bytes_by_label()) {
            if (bytes > 0 && !collective_of(label).empty()) {
                text += fmt::format("{}: {}\n", axis->name(), collective_of(label));
            }
        }
    }
    return text;
}

std::set<std::string> lines_of(const std::vector<std::string>& texts) {
    std::set<std::string> lines;
    for (const std::string& text : texts) {
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t end = text.find('\n', at);
            lines.insert(text.substr(at, end - at));
            at = end + 1;
        }
    }
    return lines;
}

// The order is not in the counts.
std::set<std::string> without_order(const std::set<std::string>& calls) {
    std::set<std::string> plain;
    for (const std::string& call : calls) {
        plain.insert(call.substr(0, call.find(',')));
    }
    return plain;
}

TEST(Chosen, LayoutsCallWhatIsSaidOfThem) {
    for (const ChosenLayout& chosen : selftest_chosen(session().size())) {
        const RunConfig run = parse_layout(chosen.layout, session().size());
        Mesh mesh = make_mesh(session().world(), run.parallel);
        const auto engine = make_trial<double>(run, mesh);
        run_trial(*engine);
        const auto seen = lines_of(gather_text(session().world(), calls_of(mesh), "t.calls"));
        EXPECT_EQ(seen, without_order(axis_calls(chosen.layout))) << chosen.layout.name();
    }
}

}  // namespace
}  // namespace ogrom::test
