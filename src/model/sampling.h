// Choosing the next token, and a text that may outgrow the model's sequence.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/common/extents.h"

#include "src/model/stage.h"

namespace ogrom {

struct SamplingOptions {
    double temperature = 1;  // 0: the largest logit (the lowest id of equals)
    i64 top_k = 0;           // only the k largest logits; 0: all
    double top_p = 1;        // only the fewest tokens whose probabilities reach this sum
    u64 seed = 0;
};
// Throws Error(usage) naming the option that is out of range.
void check(const SamplingOptions& options);

// Token number `index` of a text: a function of the logits, the options and the index only (counter-based numbers,
// kernels/common/rng.h, domain "sampling"). -infinity = never. Throws Error(numerics) on NaN or when nothing is
// allowed.
std::int32_t choose_token(std::span<const double> logits, const SamplingOptions& options, i64 index);

// A growing text in front of a Generator. Once it fills the model's sequence, the older half leaves the window and the
// rest is fed anew, at positions from 0.
template <class T>
class Continuation {
public:
    // Keeps the tail of a prompt that is longer than the sequence. Prompt not empty; the generator outlives this.
    Continuation(Generator<T>& generator, i64 sequence, std::vector<std::int32_t> prompt);
    // Logits [vocab] of the token after the text; valid until the next call.
    std::span<const T> logits();
    void append(std::int32_t token) { window_.push_back(token); }
    [[nodiscard]] i64 dropped() const { return dropped_; }  // tokens that left the window so far

private:
    void drop(i64 n);
    Generator<T>& generator_;
    i64 sequence_;
    std::vector<std::int32_t> window_;
    i64 fed_ = 0;  // of the window's tokens
    i64 dropped_ = 0;
};

}  // namespace ogrom
