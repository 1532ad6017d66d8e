#include "src/train/resume.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <numeric>

#include "src/base/log.h"
#include "src/base/text.h"
#include "src/config/resume.h"
#include "src/device/blas.h"
#include "src/train/run_folder.h"

namespace ogrom {
namespace {

constexpr const char* consecutive_key = "consecutive_skips";
constexpr const char* kernels_key = "kernels";

// The run file, data and tokenizer of a checkpoint against this run's.
void check_fits(const CheckpointHeader& header, const RunConfig& run, const Sampler& sampler, const SavedTexts& texts,
                const std::string& checkpoint, int rank) {
    require(!header.run_toml.empty(), ExitCode::checkpoint,
            fmt::format("{}: was not written by a run (converted from another form): it holds weights alone, and no "
                        "run can go on from it; would be right: --init-from {}, which starts a new run with them",
                        checkpoint, checkpoint));
    std::vector<std::string> refused;
    bool other_order = false;
    for (const ResumeChange& change : resume_changes(header.run_toml, run)) {
        other_order = other_order || change.key == "data.seed";
        if (!change.allowed) {
            refused.push_back(change.text);
        } else if (rank == 0) {
            log_info("resume: {}", change.text);
        }
    }
    if (!refused.empty()) {
        fail(ExitCode::usage,
             fmt::format("{} was trained with other settings:\n  {}", checkpoint, join(refused, "\n  ")));
    }
    if (!header.tokenizer.empty() && !texts.tokenizer.empty() && header.tokenizer != texts.tokenizer) {
        fail(ExitCode::checkpoint, fmt::format("{} was trained with tokenizer {}, the token set {} was made by {}",
                                               checkpoint, header.tokenizer, run.data.train, texts.tokenizer));
    }
    Cursor position = header.cursor;
    if (other_order) {  // by permission: the count of samples goes on in the order of the new seed
        position.seed = run.data.seed;
    }
    sampler.check(position);
}

}  // namespace

template <class T>
CheckpointHeader make_header(const Engine<T>& engine, const Sampler& sampler, const SavedTexts& texts,
                             double best_valid_loss) {
    CheckpointHeader header;
    header.step = engine.step;
    header.cursor = sampler.cursor(engine.samples_read());
    header.seed = engine.run.train.seed;
    header.tokenizer = texts.tokenizer;
    header.tokenizer_path = texts.tokenizer_path;
    header.run_toml = engine.run.resolved_toml;
    header.provenance_json = texts.provenance_json;
    header.weight_hash = engine.model_hash();
    header.skipped_steps = engine.skipped;
    header.best_valid_loss = best_valid_loss;
    header.extra.insert(texts.origin.begin(), texts.origin.end());
    header.extra[kernels_key] = kernel_choice(texts.gpu);
    engine.scaling.save(header.extra);
    header.extra[consecutive_key] = std::to_string(engine.consecutive_skips);
    return header;
}

namespace {

// What each rank took from the files beside its share of their hashes. Collective.
void tell_bytes_read(Communicator& world, i64 mine) {
    const std::vector<std::string> texts = gather_text(world, std::to_string(mine), "bytes read");
    std::vector<i64> bytes(texts.size());
    std::transform(texts.begin(), texts.end(), bytes.begin(),
                   [](const std::string& text) { return parse_integer(text).value_or(0); });
    const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    if (world.rank() != 0) {
        return;
    }
    if (world.size() == 1) {
        log_info("resume: read {}", human_bytes(mine));
        return;
    }
    log_info("resume: read {} (rank {}) to {} (rank {}), {} on {} ranks", human_bytes(*least), least - bytes.begin(),
             human_bytes(*most), most - bytes.begin(), human_bytes(std::accumulate(bytes.begin(), bytes.end(), i64{0})),
             world.size());
}

// Checkpoints that will stand in the run's folder at a time beyond those that stand there now, at most.
i64 more_at_once(const RunConfig& run, i64 step) {
    const CheckpointConfig& keys = run.checkpoint;
    const i64 interval = keys.interval_steps, last = run.train.steps;
    const bool ends_apart = keys.at_end && (interval == 0 || last % interval != 0);
    const i64 saves = (interval > 0 ? last / interval - step / interval : 0) + (ends_apart ? 1 : 0);
    i64 kept = 0;  // by keep_every
    if (i64 apart = 0;
        interval > 0 && keys.keep_every > 0 &&
        !__builtin_mul_overflow(interval / std::gcd(interval, keys.keep_every), keys.keep_every, &apart)) {
        kept = last / apart - step / apart;
    }
    std::vector<std::string> passed_over;
    const i64 there = static_cast<i64>(complete_checkpoints(checkpoints_of(run), passed_over).size());
    return std::min(saves, keys.keep_last + 1 - std::min(there, keys.keep_last) + kept);
}

}  // namespace

template <class T>
void require_room_to_save(const Engine<T>& engine, const Sampler& sampler, const SavedTexts& texts) {
    const RunConfig& run = engine.run;
    const i64 interval = run.checkpoint.interval_steps, steps = run.train.steps;
    const bool at_interval = interval > 0 && steps / interval > engine.step / interval;
    if (engine.step < steps && (at_interval || run.checkpoint.at_end)) {
        constexpr double never_evaluated = std::numeric_limits<double>::quiet_NaN();
        const CheckpointHeader header = make_header(engine, sampler, texts, never_evaluated);
        const std::vector<StateGroup<const GradientOf<T>>> groups = engine.groups_to_write();
        require_room<GradientOf<T>>(engine.world, run.run.output, header, engine.layout, run.model, groups,
                                    [&] { return more_at_once(run, engine.step); });
    }
}

CheckpointHeader open_checkpoint(Communicator& world, const RunConfig& run, const Sampler& sampler,
                                 const SavedTexts& texts, const std::string& checkpoint) {
    CheckpointHeader header = read_header(checkpoint);
    check_fits(header, run, sampler, texts, checkpoint, world.rank());
    return header;
}

template <class T>
void resume_from(Engine<T>& engine, const CheckpointHeader& header, const SavedTexts& texts,
                 const std::string& checkpoint) {
    std::vector<std::string> left_out;
    if (!engine.run.checkpoint.strict) {
        (void)engine.weights_on_host();  // on a GPU: what is left out is sent back as it was
    }
    const std::vector<StateGroup<GradientOf<T>>> wanted = engine.groups_to_load();
    const LoadReport report = load_checkpoint<GradientOf<T>>(
        engine.world, checkpoint, engine.layout, wanted, engine.run.checkpoint.strict, left_out, Hashes::were_checked);
    engine.adopt_loaded();
    tell_bytes_read(engine.world, report.bytes_read);
    if (!left_out.empty() && engine.world.rank() == 0) {  // the same list on every rank
        log_warning(
            "resume: checkpoint.strict = false: {} tensors or groups were not loaded; the run goes on with the "
            "initial values where the checkpoint had none that fit",
            left_out.size());
        for (const std::string& line : left_out) {
            log_warning("resume: {}", line);
        }
    }
    const auto kernels = header.extra.find(kernels_key);
    if (kernels != header.extra.end() && kernels->second != kernel_choice(texts.gpu) && engine.world.rank() == 0) {
        log_warning(
            "resume: saved with {}, this processor runs {}: the run goes "
            "on, but not bit for bit as before",
            kernels->second, kernel_choice(texts.gpu));
    }
    engine.step = engine.resumed_at = header.step;
    engine.samples_before = header.cursor.total_samples;
    engine.skipped = header.skipped_steps;
    engine.scaling.load(header.extra);
    const auto consecutive = header.extra.find(consecutive_key);
    engine.consecutive_skips = consecutive == header.extra.end() ? 0 : parse_integer(consecutive->second).value_or(0);
}

#define OGROM_INSTANTIATE(T)                                                                               \
    template CheckpointHeader make_header<T>(const Engine<T>&, const Sampler&, const SavedTexts&, double); \
    template void require_room_to_save<T>(const Engine<T>&, const Sampler&, const SavedTexts&);            \
    template void resume_from<T>(Engine<T>&, const CheckpointHeader&, const SavedTexts&, const std::string&)
OGROM_INSTANTIATE(float);
OGROM_INSTANTIATE(double);
OGROM_INSTANTIATE(Bf16);
OGROM_INSTANTIATE(Fp16);
#undef OGROM_INSTANTIATE

}  // namespace ogrom
