// In: global sample number n. Out: tokens and targets [T] of one row of a batch, host memory, ids checked.
// Next: data/prefetch.cpp.
#include "src/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

#include "src/base/text.h"
#include "src/data/document_line.h"
#include "src/data/permutation.h"
#include "src/data/tokenizer.h"

namespace ogrom {

namespace {

constexpr int cursor_version = 1;

struct Source {
    std::string prefix;
    PartRule rule;
};

Source source_of(const DataConfig& data, SplitPart part) {
    if (part == SplitPart::valid) {
        if (!data.valid.empty()) {
            return {data.valid, {}};
        }
        require(data.valid_fraction > 0, ExitCode::usage,
                "no held-out data: give data.valid (a token set) or data.valid_fraction (of data.train's documents)");
        return {data.train, {PartRule::Keep::held_out, data.valid_fraction}};
    }
    if (data.valid.empty() && data.valid_fraction > 0) {
        return {data.train, {PartRule::Keep::rest, data.valid_fraction}};
    }
    return {data.train, {}};
}

}  // namespace

struct Sampler::Impl {
    Impl(const Source& source, const DataConfig& data, i64 sequence, i64 vocabulary, SplitPart which)
        : line(source.prefix, source.rule, which == SplitPart::train ? LineOrder::shuffled : LineOrder::file,
               data.seed),
          rule(source.rule),
          seed(data.seed),
          T(sequence),
          vocab(vocabulary),
          part(which),
          set_id(line.set().id()) {}

    void check_tokenizer(const std::string& tokenizer);
    void check_size() const;
    [[nodiscard]] Permutation samples_of(i64 epoch) const {
        return {samples, fault_active("sampler_epoch_not_shuffled_by_seed") ? 0 : seed, epoch,
                Permutation::Use::samples};
    }
    [[nodiscard]] i64 place_of(i64 n) const;

    DocumentLine line;
    PartRule rule;
    u64 seed;
    i64 T, vocab;
    SplitPart part;
    std::string set_id;
    i64 samples = 0;
    std::vector<std::string> notes;
    mutable std::mutex lock;
    mutable std::shared_ptr<const Permutation> shuffle;  // of the epoch in use
    mutable i64 shuffle_epoch = -1;
};

void Sampler::Impl::check_tokenizer(const std::string& tokenizer) {
    const auto& record = line.set().record();
    const std::string& prefix = line.set().prefix();
    if (!record) {
        notes.push_back(prefix + ": no .json record; tokenizer and hashes cannot be compared, ids are checked as read");
        return;
    }
    // The tokenizer first: where it differs, a larger vocabulary of the model would mend nothing.
    if (!tokenizer.empty()) {
        const Tokenizer expected = Tokenizer::load(tokenizer);
        require(expected.identity() == record->tokenizer, ExitCode::data,
                fmt::format("{}: made by tokenizer {} ({}), but data.tokenizer = \"{}\" is {}; name the tokenizer that "
                            "made the set, or make the set again with `ogrom data`",
                            prefix, record->tokenizer, record->tokenizer_path, tokenizer, expected.identity()));
    }
    require(record->vocab <= vocab, ExitCode::data,
            fmt::format("{}: made by a tokenizer of {} entries, but the model's vocabulary is {}; set "
                        "model.vocab to at least {}",
                        prefix, record->vocab, vocab, record->vocab));
}

void Sampler::Impl::check_size() const {
    const char* name = part == SplitPart::train ? "training" : "held-out";
    require(
        samples > 0, ExitCode::data,
        fmt::format("{}: the {} part has {} documents with {} tokens; one sample needs {} (train.sequence + 1): give "
                    "more text or a shorter sequence{}",
                    line.set().prefix(), name, line.documents(), line.tokens(), T + 1,
                    rule.keep == PartRule::Keep::all
                        ? std::string()
                        : fmt::format(" or another data.valid_fraction than {}; whole documents are held out, and "
                                      "`ogrom data --split-documents blank-lines` makes more of a plain text",
                                      rule.fraction)));
}

i64 Sampler::Impl::place_of(i64 n) const {
    const i64 epoch = n / samples;
    const i64 index = n % samples;
    if (part == SplitPart::valid) {
        return index;
    }
    std::shared_ptr<const Permutation> current;
    {
        const std::lock_guard guard(lock);
        if (shuffle_epoch != epoch) {
            shuffle = std::make_shared<const Permutation>(samples_of(epoch));
            shuffle_epoch = epoch;
        }
        current = shuffle;
    }
    return (*current)(index);
}

Sampler::Sampler(const DataConfig& data, i64 sequence, i64 vocab, SplitPart part) {
    OGROM_ASSERT(sequence > 0 && vocab > 0);
    impl_ = std::make_unique<Impl>(source_of(data, part), data, sequence, vocab, part);
    impl_->check_tokenizer(data.tokenizer);
    impl_->samples = std::max<i64>(0, (impl_->line.tokens() - 1) / sequence);
    impl_->check_size();
}
Sampler::~Sampler() = default;

i64 Sampler::samples_per_epoch() const {
    return impl_->samples;
}
i64 Sampler::tokens() const {
    return impl_->line.tokens();
}
i64 Sampler::documents() const {
    return impl_->line.documents();
}

std::vector<std::string> Sampler::report() const {
    const DocumentLine& line = impl_->line;
    const i64 used = impl_->samples * impl_->T + 1;
    std::vector<std::string> lines = impl_->notes;
    lines.push_back(fmt::format(
        "{} ({}): {} documents, {} tokens, {} samples of {} tokens per epoch{}", line.set().prefix(),
        impl_->part == SplitPart::train ? "training" : "held out", group_digits(line.documents()),
        group_digits(line.tokens()), group_digits(impl_->samples), impl_->T,
        used < line.tokens() ? fmt::format(" (the last {} tokens of an epoch fill no sample)", line.tokens() - used)
                             : ""));
    if (line.empty() > 0) {
        lines.push_back(fmt::format("{}: {} empty documents left out", line.set().prefix(), line.empty()));
    }
    lines.push_back(
        fmt::format("{}: index of an epoch takes {}", line.set().prefix(), human_bytes(line.index_bytes())));
    return lines;
}

std::string Sampler::coverage(i64 steps, i64 global_batch) const {
    const double wanted = static_cast<double>(steps) * static_cast<double>(global_batch);
    std::string text = fmt::format("{} steps x {} samples read the set {:.2f} times", group_digits(steps), global_batch,
                                   wanted / static_cast<double>(impl_->samples));
    if (impl_->samples < global_batch) {
        text += fmt::format("; an epoch has only {} samples, so samples repeat within a step", impl_->samples);
    }
    return text;
}

void Sampler::read(i64 n, std::vector<std::int32_t>& ids) const {
    OGROM_ASSERT(n >= 0);
    ids.resize(static_cast<std::size_t>(impl_->T + 1));
    impl_->line.read(n / impl_->samples, impl_->place_of(n) * impl_->T, impl_->T + 1, impl_->vocab, ids.data());
}

void Sampler::fill(i64 n, Batch& batch, i64 row) const {
    const i64 T = impl_->T;
    OGROM_ASSERT(batch.T == T && row >= 0 && row < batch.B);
    OGROM_ASSERT(static_cast<i64>(batch.tokens.size()) == batch.B * T);
    std::vector<std::int32_t> ids;
    read(n, ids);
    const i64 shift = fault_active("targets_shifted") ? 0 : 1;
    std::copy_n(ids.begin(), T, batch.tokens.begin() + row * T);
    std::copy_n(ids.begin() + shift, T, batch.targets.begin() + row * T);
    const auto mask = batch.loss_mask.begin() + row * T;
    batch.unmasked += T - std::count(mask, mask + T, std::uint8_t{1});
    std::fill_n(mask, T, std::uint8_t{1});
    batch.sample_id[row] = n;
}

Cursor Sampler::cursor(i64 total_samples) const {
    Cursor cursor;
    cursor.version = cursor_version;
    cursor.seed = impl_->seed;
    cursor.total_samples = total_samples;
    cursor.sources.push_back({impl_->set_id, 1.0, total_samples / impl_->samples, total_samples % impl_->samples});
    return cursor;
}

void Sampler::check(const Cursor& saved) const {
    const std::string& prefix = impl_->line.set().prefix();
    const auto refuse = [&](const std::string& what) {
        fail(ExitCode::checkpoint, fmt::format("the saved data position does not fit {}: {}; the run would read other "
                                               "samples than the saved one had left",
                                               prefix, what));
    };
    if (saved.version != cursor_version) {
        refuse(fmt::format("cursor version {}, this program writes {}", saved.version, cursor_version));
    }
    if (saved.seed != impl_->seed) {
        refuse(fmt::format("data.seed was {}, now {}", saved.seed, impl_->seed));
    }
    if (saved.sources.size() != 1) {
        refuse(fmt::format("{} sources were saved, this run has 1", saved.sources.size()));
    }
    const CursorSource& source = saved.sources.front();
    if (source.id != impl_->set_id) {
        refuse(fmt::format("it was saved for token set {}, this is {}", source.id, impl_->set_id));
    }
    const Cursor here = cursor(std::max<i64>(0, saved.total_samples));
    if (here.total_samples != saved.total_samples || here.sources[0].epoch != source.epoch ||
        here.sources[0].consumed != source.consumed) {
        refuse(fmt::format(
            "{} samples were epoch {}, sample {}, and would now be epoch {}, sample {} (another "
            "train.sequence or data.valid_fraction?)",
            saved.total_samples, source.epoch, source.consumed, here.sources[0].epoch, here.sources[0].consumed));
    }
}

double Sampler::unigram_entropy(i64 samples) const {
    OGROM_ASSERT(samples > 0 && samples <= impl_->samples);
    std::vector<i64> counts(static_cast<std::size_t>(impl_->vocab));
    std::vector<std::int32_t> ids;
    for (i64 n = 0; n < samples; ++n) {
        read(n, ids);
        for (i64 t = 1; t <= impl_->T; ++t) {
            ++counts[ids[t]];
        }
    }
    const auto total = static_cast<double>(samples * impl_->T);
    double entropy = 0;
    for (const i64 count : counts) {
        if (count > 0) {
            const double p = static_cast<double>(count) / total;
            entropy -= p * std::log(p);
        }
    }
    return entropy;
}

}  // namespace ogrom
