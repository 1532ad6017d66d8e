// Which tokens make up global sample n of a run: a pure function of (seed, epoch, n), independent of layout. The cursor
// is a count of samples per source, so a run resumed under any layout reads on where the other stopped.
// The non-empty documents of an epoch are concatenated in shuffled order (one end-of-document token closes each);
// sample i of the epoch is tokens i*T .. i*T + T of that line, T inputs and the T tokens after them, so that every
// token but the first is predicted once; samples of an epoch are then shuffled (data/permutation.h). The last, shorter
// piece of an epoch is dropped and counted. The held-out part is in file order, not shuffled, the same in every epoch.
// Documents are held out of data.train by a hash of their number, whatever data.seed is.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/config/run.h"
#include "src/data/batch.h"

namespace ogrom {

struct CursorSource {
    std::string id;  // content hash of the token set
    double weight = 1;
    i64 epoch = 0;
    i64 consumed = 0;  // samples of this epoch already used
};
struct Cursor {
    int version = 1;
    u64 seed = 0;
    std::vector<CursorSource> sources;
    i64 total_samples = 0;  // samples consumed since step 0
};

enum class SplitPart { train, valid };

class Sampler {
public:
    // Opens and checks the token set (header, sizes against the file, identity of the tokenizer), builds the index of
    // one epoch. Throws Error(data). `vocab` bounds every id.
    Sampler(const DataConfig& data, i64 sequence, i64 vocab, SplitPart part);
    ~Sampler();
    [[nodiscard]] i64 samples_per_epoch() const;
    [[nodiscard]] i64 tokens() const;
    [[nodiscard]] i64 documents() const;
    [[nodiscard]] std::vector<std::string> report() const;  // what was dropped, counted, repeated: lines for the log
    // How often a run of `steps` x `global_batch` samples reads the set: one line for the log.
    [[nodiscard]] std::string coverage(i64 steps, i64 global_batch) const;
    // Fills row `row` of the batch (made by make_batch) with global sample n (n counts from 0 over epochs): tokens,
    // targets, mask, positions, sample_id; keeps `unmasked` true. Any thread.
    void fill(i64 n, Batch& batch, i64 row) const;
    // Global sample n as T+1 ids. Any thread.
    void read(i64 n, std::vector<std::int32_t>& ids) const;
    // Cursor after `total_samples` samples; and the check that a saved cursor belongs to this set, seed and sequence.
    [[nodiscard]] Cursor cursor(i64 total_samples) const;
    void check(const Cursor& saved) const;
    // Entropy of the unigram distribution of the targets of samples 0 .. `samples` - 1, in nats: what a model that
    // knows only how frequent each token is would reach on exactly these targets.
    [[nodiscard]] double unigram_entropy(i64 samples) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Reads ahead: a thread that makes the micro-batches of the coming steps. Sample s of the global batch of step k is
// global sample first_sample + (k - first_step) * global_batch + s; rank d of dp takes samples [d * micro *
// accumulation, ...), micro-batch after micro-batch.
class Prefetch {
public:
    // `first_sample`: how many samples were read before first_step, first_step * global_batch where it is left out (a
    // run whose batch was changed has read another number).
    Prefetch(const Sampler& sampler, const TrainConfig& train, i64 dp_rank, i64 first_step,
             std::optional<i64> first_sample = {}, i64 depth = 2);
    ~Prefetch();
    // The `accumulation` micro-batches of this rank for `step` (steps in ascending order). Rethrows the thread's Error.
    std::vector<Batch> next(i64 step);
    [[nodiscard]] double waited_s() const;  // time the trainer has waited for data

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ogrom
