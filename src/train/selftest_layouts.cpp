#include "src/train/selftest_layouts.h"

#include <array>
#include <fmt/format.h>
#include <set>

#include "kernels/common/hash.h"

#include "src/pipeline/actions.h"

namespace ogrom {
namespace {

std::string_view text_of(Recompute recompute) {
    switch (recompute) {
        case Recompute::none:
            return "none";
        case Recompute::selective:
            return "selective";
        case Recompute::full:
            return "full";
    }
    return "";
}

// A factor is a number of values and what each of them sets.
struct Factor {
    int levels;
    void (*set)(SelftestLayout&, int level);
};

const std::array<Factor, 9>& factors() {
    static const std::array<Factor, 9> all = {{
        {4,
         [](SelftestLayout& l, int level) {
             l.recompute = level == 0 ? Recompute::none : level == 1 ? Recompute::selective : Recompute::full;
             l.recompute_interval = level == 3 ? 2 : 1;
         }},
        {2, [](SelftestLayout& l, int level) { l.sequence_parallel = l.tensor > 1 && level == 0; }},
        {2, [](SelftestLayout& l, int level) { l.replicas = l.zero > 0 && l.data % 2 == 0 && level == 1; }},
        {2, [](SelftestLayout& l, int level) { l.small_buckets = l.data > 1 && level == 1; }},
        {2, [](SelftestLayout& l, int level) { l.overlap = level == 0; }},
        {2, [](SelftestLayout& l, int level) { l.regather_once = l.zero == 3 && level == 1; }},
        {2, [](SelftestLayout& l, int level) { l.deterministic = level == 0; }},
        {4,
         [](SelftestLayout& l, int level) {
             l.dropout = level % 2 == 1;
             l.tied = level < 2;
         }},
        {2,
         [](SelftestLayout& l, int level) {
             const i64 two = l.sizes().batch / l.data % 2 == 0 ? 2 : 1;
             l.micro_batch = level == 0 ? 1 : two;
         }},
    }};
    return all;
}

using Levels = std::array<int, 9>;

// Every choice of levels, as digits of a number.
Levels levels_of(i64 number) {
    Levels levels{};
    for (std::size_t f = 0; f < levels.size(); ++f) {
        levels[f] = static_cast<int>(number % factors()[f].levels);
        number /= factors()[f].levels;
    }
    return levels;
}

i64 choices() {
    i64 n = 1;
    for (const Factor& factor : factors()) {
        n *= factor.levels;
    }
    return n;
}

using Pair = std::array<int, 4>;  // factor, level, factor, level

// Whether a factor changes anything under a mesh; in the order of factors().
std::array<bool, 9> effective_factors(const SelftestLayout& mesh) {
    const bool data = mesh.data > 1;
    return {true,
            mesh.tensor > 1,
            mesh.zero > 0 && data && mesh.data % 2 == 0,
            data,
            data,
            mesh.zero == 3 && data,
            true,
            true,
            mesh.sizes().batch / mesh.data % 2 == 0};
}

// Of a choice under a mesh, without factors that have no effect there; its ZeRO stage, schedule and what is split count
// as factors too.
std::vector<Pair> pairs_of(const SelftestLayout& mesh, const Levels& levels) {
    constexpr int zero = 100, schedule = 101, split = 102;
    const int axes = (mesh.pipeline > 1 ? 1 : 0) + (mesh.data > 1 ? 2 : 0) + (mesh.tensor > 1 ? 4 : 0);
    const std::array<bool, 9> effective = effective_factors(mesh);
    std::vector<Pair> pairs;
    for (std::size_t a = 0; a < levels.size(); ++a) {
        if (!effective[a]) {
            continue;
        }
        const int f = static_cast<int>(a);
        pairs.push_back({zero, static_cast<int>(mesh.zero), f, levels[a]});
        pairs.push_back({split, axes + 8 * static_cast<int>(mesh.model), f, levels[a]});
        if (mesh.pipeline > 1) {
            pairs.push_back({schedule, static_cast<int>(mesh.schedule), f, levels[a]});
        }
        for (std::size_t b = a + 1; b < levels.size(); ++b) {
            if (effective[b]) {
                pairs.push_back({f, levels[a], static_cast<int>(b), levels[b]});
            }
        }
    }
    return pairs;
}

// Gives each layout in turn the choice with the most pairs that no earlier one had; ties fall by a hash of its number,
// so that layouts that come after all pairs are covered still differ in everything.
class Pairwise {
public:
    Levels next(const SelftestLayout& mesh) {
        i64 best = 0;
        std::size_t best_new = 0;
        const i64 n = choices();
        const i64 start = static_cast<i64>(mix64(++count_) % static_cast<u64>(n));
        for (i64 k = 0; k < n; ++k) {
            const i64 number = (start + k) % n;
            std::size_t fresh = 0;
            for (const Pair& pair : pairs_of(mesh, levels_of(number))) {
                fresh += covered_.contains(pair) ? 0 : 1;
            }
            if (k == 0 || fresh > best_new) {
                best = number;
                best_new = fresh;
            }
        }
        const Levels levels = levels_of(best);
        for (const Pair& pair : pairs_of(mesh, levels)) {
            covered_.insert(pair);
        }
        return levels;
    }

private:
    u64 count_ = 0;
    std::set<Pair> covered_;
};

void set_factors(SelftestLayout& layout, const Levels& levels) {
    for (std::size_t f = 0; f < levels.size(); ++f) {
        factors()[f].set(layout, levels[f]);
    }
}

// Meshes of the ranks, each with every ZeRO stage and schedule.
std::vector<SelftestLayout> meshes(i64 ranks) {
    std::vector<SelftestLayout> all;
    for (i64 model = 0; model < static_cast<i64>(selftest_models().size()); ++model) {
        for (i64 pipeline = 1; pipeline <= ranks; ++pipeline) {
            for (i64 tensor = 1; tensor * pipeline <= ranks; ++tensor) {
                if (ranks % (pipeline * tensor) != 0) {
                    continue;
                }
                for (i64 zero = 0; zero <= 3; ++zero) {
                    for (int schedule = 0; schedule < (pipeline > 1 ? 4 : 1); ++schedule) {
                        SelftestLayout layout;
                        layout.model = model;
                        layout.pipeline = pipeline;
                        layout.tensor = tensor;
                        layout.data = ranks / (pipeline * tensor);
                        layout.zero = zero;
                        layout.schedule = pipeline > 1 ? static_cast<PipelineSchedule>(schedule) : layout.schedule;
                        all.push_back(layout);
                    }
                }
            }
        }
    }
    return all;
}

}  // namespace

const std::vector<SelftestModel>& selftest_models() {
    static const std::vector<SelftestModel> models = {{"odd", 3, 60, 6, 509, 12, 12}, {"even", 16, 64, 8, 512, 8, 16}};
    return models;
}

std::string SelftestLayout::name() const {
    std::string text = fmt::format("{} pp{} dp{} tp{} zero{}", sizes().name, pipeline, data, tensor, zero);
    const auto add = [&](bool holds, const std::string& word) { text += holds ? " " + word : std::string(); };
    add(pipeline > 1, std::string(name_of(schedule)));
    add(replicas, "replicas=2");
    add(sequence_parallel, "sp");
    add(recompute != Recompute::none, fmt::format("recompute={}", text_of(recompute)));
    add(recompute_interval > 1, fmt::format("every={}", recompute_interval));
    add(small_buckets, "small-buckets");
    add(!overlap && data > 1, "no-overlap");
    add(regather_once, "regather=step");
    add(deterministic, "deterministic");
    add(dropout, "dropout");
    add(!tied, "untied");
    add(true, fmt::format("micro={}", micro_batch));
    return text;
}

std::string SelftestLayout::bit_key() const {
    if (!deterministic || replicas) {
        return {};
    }
    return fmt::format("{} tp{} {} dp{} micro{}", reference(), tensor, sequence_parallel ? "sp" : "whole", data,
                       micro_batch);
}

// Keys without an effect in a layout are left out: the run file refuses them.
std::string SelftestLayout::run_text() const {
    const SelftestModel& m = sizes();
    const double p = dropout ? 0.1 : 0.0;
    std::string text = fmt::format(
        "[model]\nlayers = {}\nhidden = {}\nheads = {}\nvocab = {}\nvocab_multiple = 8\nsequence = {}\ntied = {}\n"
        "init_std = 0.08\ndropout_embedding = {:.1f}\ndropout_attention = {:.1f}\ndropout_residual = {:.1f}\n",
        m.layers, m.hidden, m.heads, m.vocab, m.sequence, tied, p, p, p);
    const auto line = [&](bool holds, const std::string& key) { text += holds ? key + "\n" : std::string(); };
    text += fmt::format("[parallel]\npipeline = {}\ndata = {}\ntensor = {}\nzero = {}\n", pipeline, data, tensor, zero);
    line(tensor > 1, fmt::format("sequence_parallel = {}", sequence_parallel));
    line(pipeline > 1, fmt::format("schedule = \"{}\"", name_of(schedule)));
    line(pipeline > 1 && schedule == PipelineSchedule::interleaved, "virtual_stages = 2");
    line(replicas, fmt::format("zero_group = {}", data / 2));
    line(zero == 3 && regather_once, "zero_regather = \"step\"");
    text += fmt::format(
        "[data]\ntrain = \"none\"\ntokenizer = \"\"\n[train]\nsteps = {}\nlogits_rows = 7\nseed = 7\n"
        "micro_batch = {}\nglobal_batch = {}\nrecompute = \"{}\"\n",
        steps, micro_batch, m.batch, text_of(recompute));
    line(recompute == Recompute::full, fmt::format("recompute_interval = {}", recompute_interval));
    text +=
        plain_sgd
            ? "[optimizer]\nkind = \"sgd\"\nlr = 1.0\nschedule = \"constant\"\nclip_norm = 0.0\nweight_decay = 0.0\n"
            : "[optimizer]\nlr = 1e-3\nwarmup_steps = 2\nclip_norm = 0.5\n";
    line(data > 1, "[comm]");
    line(data > 1, fmt::format("bucket_mib = {}", small_buckets ? "0.001" : "1.0"));
    line(data > 1, fmt::format("overlap = {}", overlap));
    text += fmt::format("[numerics]\ncompute = \"{}\"\ndeterministic = {}\n[run]\nname = \"selftest\"\nthreads = 1\n",
                        name_of(compute), deterministic);
    return text;
}

SelftestLayout selftest_serial(i64 reference) {
    SelftestLayout layout;
    layout.model = reference / 4;
    layout.dropout = reference % 4 >= 2;
    layout.tied = reference % 2 == 1;
    layout.micro_batch = layout.sizes().batch;
    return layout;
}

std::vector<SelftestLayout> selftest_layouts(i64 ranks, Coverage coverage) {
    std::vector<SelftestLayout> layouts;
    Pairwise pairwise;
    for (const SelftestLayout& mesh : meshes(ranks)) {
        if (coverage == Coverage::pairwise) {
            layouts.push_back(mesh);
            set_factors(layouts.back(), pairwise.next(mesh));
            continue;
        }
        std::set<std::string> seen;  // levels that change nothing in this mesh give the same layout
        for (i64 number = 0; number < choices(); ++number) {
            SelftestLayout layout = mesh;
            set_factors(layout, levels_of(number));
            if (seen.insert(layout.name()).second) {
                layouts.push_back(layout);
            }
        }
    }
    return layouts;
}

}  // namespace ogrom
