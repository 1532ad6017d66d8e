#include "src/model/sampling.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>

#include "kernels/common/error.h"
#include "kernels/common/rng.h"

namespace ogrom {
namespace {

constexpr double never = -std::numeric_limits<double>::infinity();

// Allowed tokens, largest logit first, lower id first among equals: the order in which top-k, top-p and the draw go.
std::vector<std::int32_t> ranked(std::span<const double> logits, i64 top_k) {
    std::vector<std::int32_t> ids;
    for (std::size_t v = 0; v < logits.size(); ++v) {
        require(!std::isnan(logits[v]), ExitCode::numerics,
                fmt::format("the logit of token {} is not a number: the checkpoint's weights are damaged", v));
        if (logits[v] != never) {
            ids.push_back(static_cast<std::int32_t>(v));
        }
    }
    require(!ids.empty(), ExitCode::numerics, "no token has a logit above -infinity");
    const auto before = [&](std::int32_t a, std::int32_t b) {
        const double za = logits[static_cast<std::size_t>(a)];
        const double zb = logits[static_cast<std::size_t>(b)];
        return za != zb ? za > zb : a < b;
    };
    const i64 size = static_cast<i64>(ids.size());
    const i64 kept = top_k > 0 ? std::min(top_k, size) : size;
    std::partial_sort(ids.begin(), ids.begin() + kept, ids.end(), before);
    ids.resize(static_cast<std::size_t>(kept));
    return ids;
}

}  // namespace

void check(const SamplingOptions& options) {
    require(std::isfinite(options.temperature) && options.temperature >= 0, ExitCode::usage,
            fmt::format("temperature {} is out of range: 0 (greedy) or above", options.temperature));
    require(options.top_k >= 0, ExitCode::usage,
            fmt::format("top-k {} is out of range: 0 (all) or above", options.top_k));
    require(options.top_p > 0 && options.top_p <= 1, ExitCode::usage,
            fmt::format("top-p {} is out of range: above 0, up to 1", options.top_p));
}

std::int32_t choose_token(std::span<const double> logits, const SamplingOptions& options, i64 index) {
    const bool greedy = options.temperature == 0;
    const std::vector<std::int32_t> ids = ranked(logits, greedy ? 1 : options.top_k);
    const double largest = logits[static_cast<std::size_t>(ids[0])];
    if (greedy || std::isinf(largest)) {
        return ids[0];
    }
    // p_v = exp((z_v - z_max) / temperature) / sum
    std::vector<double> weights(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
        weights[i] = std::exp((logits[static_cast<std::size_t>(ids[i])] - largest) / options.temperature);
    }
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::size_t kept = 0;
    double kept_sum = 0;
    while (kept < weights.size() && (kept == 0 || kept_sum < options.top_p * total)) {
        kept_sum += weights[kept++];
    }
    const u32 word = random_word(options.seed, 0, rng_domain_sampling, static_cast<u64>(index));
    const double draw = uniform(word) * kept_sum;
    double sum = 0;
    for (std::size_t i = 0; i < kept; ++i) {
        sum += weights[i];
        if (draw < sum) {
            return ids[i];
        }
    }
    return ids[kept - 1];  // rounding of the last sum
}

template <class T>
Continuation<T>::Continuation(Generator<T>& generator, i64 sequence, std::vector<std::int32_t> prompt)
    : generator_(generator), sequence_(sequence), window_(std::move(prompt)) {
    OGROM_ASSERT(!window_.empty() && sequence_ >= 1);
    generator_.reset();
    drop(std::max<i64>(0, static_cast<i64>(window_.size()) - sequence_));
}

template <class T>
void Continuation<T>::drop(i64 n) {
    window_.erase(window_.begin(), window_.begin() + n);
    dropped_ += n;
}

template <class T>
std::span<const T> Continuation<T>::logits() {
    const i64 size = static_cast<i64>(window_.size());
    if (size > sequence_) {
        drop(size - std::max<i64>(1, sequence_ / 2));
        generator_.reset();
        fed_ = 0;
    }
    const std::span<const std::int32_t> fresh = std::span(window_).subspan(static_cast<std::size_t>(fed_));
    OGROM_ASSERT(!fresh.empty());
    fed_ = static_cast<i64>(window_.size());
    return generator_.feed(fresh);
}

template class Continuation<float>;
template class Continuation<double>;

}  // namespace ogrom
