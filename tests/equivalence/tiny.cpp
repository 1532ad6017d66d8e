#include "tests/equivalence/tiny.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>
#include <unistd.h>

#include "kernels/common/hash.h"

#include "src/device/memory.h"

namespace ogrom::test {
namespace {

// Tensors below this share of the whole are compared with it instead: the key
// bias, whose exact gradient is 0. Its noise of 1e-6 x the whole gradient's
// rounding is made 20 times larger by AdamW's division.
constexpr double floor_share = 2e-5;
constexpr double infinite = std::numeric_limits<double>::infinity();

std::int32_t token_of(i64 sample, i64 place, i64 vocab) {
    // Skewed towards small ids, so that there is something to learn.
    const u64 word = mix64(static_cast<u64>(sample * 1000 + place) * 2654435761ULL + 17);
    const i64 wide = static_cast<i64>(word % static_cast<u64>(vocab));
    return static_cast<std::int32_t>(word % 3 == 0 ? wide : wide % 23);
}

void fill_row(const RunConfig& run, i64 sample, i64 row, MaskRule mask, Batch& batch) {
    const i64 T = batch.T;
    const i64 counted = mask(sample);
    for (i64 t = 0; t < T; ++t) {
        const auto at = static_cast<std::size_t>(row * T + t);
        batch.tokens[at] = token_of(sample, t, run.model.vocab);
        batch.targets[at] = token_of(sample, t + 1, run.model.vocab);
        batch.loss_mask[at] = t < counted ? 1 : 0;
        batch.unmasked += batch.loss_mask[at];
    }
    batch.sample_id[static_cast<std::size_t>(row)] = sample;
    batch.sample[static_cast<std::size_t>(row)] = sample % run.train.global_batch;
}

}  // namespace

std::string tiny_toml(const std::vector<std::string>& lines) {
    std::string text = R"([model]
layers = 3
hidden = 60
heads = 5
vocab = 509
sequence = 24
init_std = 0.08
[data]
train = "none"
tokenizer = ""
[train]
steps = 20
logits_rows = 17
seed = 7
[optimizer]
lr = 1e-3
warmup_steps = 3
clip_norm = 0.5
[numerics]
compute = "fp64"
deterministic = true
[run]
name = "tiny"
threads = 1
)";
    for (const std::string& line : lines) {
        text += line + "\n";
    }
    return text;
}

RunConfig tiny_run(i64 dp, const Cut& cut, const std::vector<std::string>& overrides) {
    ParseInput input;
    input.path = "tiny.toml";
    input.text = tiny_toml();
    input.ranks = dp;
    input.overrides = overrides;
    input.overrides.push_back(fmt::format("train.micro_batch={}", cut.micro_batch));
    input.overrides.push_back(fmt::format("train.accumulation={}", cut.accumulation));
    return parse_run(input);
}

i64 all_targets(i64) {
    return std::numeric_limits<i64>::max();
}

std::vector<Batch> make_batches(const RunConfig& run, i64 dp_rank, i64 step, MaskRule mask) {
    std::vector<Batch> batches;
    i64 sample = step * run.train.global_batch + dp_rank * run.train.micro_batch * run.train.accumulation;
    for (i64 m = 0; m < run.train.accumulation; ++m) {
        Batch batch = make_batch(run.train.micro_batch, run.train.sequence);
        for (i64 row = 0; row < run.train.micro_batch; ++row) {
            fill_row(run, sample++, row, mask, batch);
        }
        batches.push_back(std::move(batch));
    }
    return batches;
}

template <class T>
std::shared_ptr<Engine<T>> make_engine(Communicator& world, const RunConfig& run) {
    struct Held {
        Held(Communicator& comm, const RunConfig& run_) : mesh(make_mesh(comm, run_.parallel)) {
            const Decisions decisions = decide(run_, mesh.shape, mesh.place, 1);
            engine = std::make_unique<Engine<T>>(run_, decisions, make_ledger(run_, decisions), mesh);
        }
        Mesh mesh;
        std::unique_ptr<Engine<T>> engine;
    };
    const auto held = std::make_shared<Held>(world, run);
    return {held, held->engine.get()};
}

template <class T>
History<T> train_over(Communicator& world, const RunConfig& run, const Lesson& course) {
    const std::shared_ptr<Engine<T>> engine = make_engine<T>(world, run);
    const std::span<T> weights = weights_of(*engine);
    for (const LocalTensor& tensor : engine->layout.tensors()) {
        if (tensor.parameter->initial == Initial::ones) {
            for (T& w :
                 weights.subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.count))) {
                w *= static_cast<T>(course.gain);
            }
        }
    }
    History<T> history;
    history.before.assign(weights.begin(), weights.end());
    for (i64 step = 0; step < course.steps; ++step) {
        const std::vector<Batch> batches = make_batches(run, world.rank(), step, course.mask);
        const StepControl control = agree_control(engine->mesh, batches, Wish::go_on);
        const StepResult result = train_step<T>(*engine, batches, control.targets);
        history.losses.push_back(result.loss);
        history.norms.push_back(result.norm);
    }
    history.weights.assign(weights.begin(), weights.end());
    return history;
}

template <class T>
History<T> train_alone(const Cut& cut, const std::vector<std::string>& overrides, const Lesson& course) {
    const std::unique_ptr<Communicator> alone = make_single_communicator();
    const RunConfig run = tiny_run(1, cut, overrides);
    return train_over<T>(*alone, run, course);
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
    if (a.size() != b.size() || a.empty()) {
        return infinite;
    }
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double difference = std::abs(a[i] - b[i]) / std::abs(b[i]);
        largest = std::isfinite(difference) ? std::max(largest, difference) : infinite;
    }
    return largest;
}

template <class T>
double tensor_difference(const ParameterLayout& layout, const std::vector<T>& a, const std::vector<T>& b,
                         const std::vector<T>* before) {
    const auto reference = [&](std::size_t i) {
        return static_cast<double>(b[i]) - (before == nullptr ? 0 : static_cast<double>((*before)[i]));
    };
    double whole = 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
        whole += reference(i) * reference(i);
    }
    double largest = 0;
    for (const LocalTensor& tensor : layout.tensors()) {
        double difference = 0, norm = 0;
        for (i64 k = 0; k < tensor.parameter->count(); ++k) {
            const auto i = static_cast<std::size_t>(tensor.offset + k);
            const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
            difference += d * d;
            norm += reference(i) * reference(i);
        }
        const double ratio = std::sqrt(difference) / std::max(std::sqrt(norm), floor_share * std::sqrt(whole));
        largest = std::isfinite(ratio) ? std::max(largest, ratio) : infinite;
    }
    return largest;
}

TinyLayout::TinyLayout(const RunConfig& run)
    : table(make_parameters(run.model, run.numerics.compute)),
      layout(table, StageSpan{0, 0, 0, run.model.layers, true, true}) {}

SharedFolder::SharedFolder() {
    std::string mine;
    if (session().rank() == 0) {
        root_ = std::filesystem::temp_directory_path() /
                fmt::format("ogrom-equivalence-{}-{}", getpid(), static_cast<i64>(seconds_since_launch() * 1000));
        std::filesystem::create_directories(root_);
        mine = root_.string();
    }
    root_ = gather_text(session().world(), mine, "test folder")[0];
}

SharedFolder::~SharedFolder() {
    try {
        session().world().barrier("test folder").wait();  // another rank may still read there
    } catch (const Error&) {
        ADD_FAILURE() << "a rank has left the test before";
    }
    if (session().rank() == 0) {
        std::error_code ignored;
        std::filesystem::remove_all(root_, ignored);
    }
}

#define OGROM_INSTANCE(T)                                                                                      \
    template std::shared_ptr<Engine<T>> make_engine<T>(Communicator&, const RunConfig&);                       \
    template History<T> train_over<T>(Communicator&, const RunConfig&, const Lesson&);                         \
    template History<T> train_alone<T>(const Cut&, const std::vector<std::string>&, const Lesson&);            \
    template double tensor_difference<T>(const ParameterLayout&, const std::vector<T>&, const std::vector<T>&, \
                                         const std::vector<T>*);
OGROM_INSTANCE(float)
OGROM_INSTANCE(double)
#undef OGROM_INSTANCE

}  // namespace ogrom::test
