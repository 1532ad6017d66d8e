// Loss on held-out samples: each of them once, whatever the number of ranks and
// the micro-batch.
#pragma once
#include <optional>

#include "src/data/sampler.h"
#include "src/train/engine.h"
#include "src/train/stop_vote.h"

namespace ogrom {

struct Evaluation {
    double loss = 0;        // sum of unmasked losses / their number, nats
    double perplexity = 0;  // exp(loss)
    i64 samples = 0, targets = 0;
};

// Held-out samples of one evaluation: `wanted`, or all of them when it is 0 or
// more than there are.
i64 evaluation_samples(const Sampler& valid, i64 wanted);

// Samples [first, last) that `rank` of `ranks` evaluates; the parts cover [0,
// samples) once.
struct SamplePart {
    i64 first = 0, last = 0;
};
SamplePart evaluation_part(i64 samples, int ranks, int rank);

// Collective over the world; no dropout, nothing is changed. Equal on all
// ranks; none when they agreed to stop on the way.
template <class T>
std::optional<Evaluation> evaluate(Engine<T>& engine, const Sampler& valid, i64 wanted_samples, StopVote& vote);

}  // namespace ogrom
