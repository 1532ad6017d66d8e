// Model and mesh: extents that are left out, divisibility with the nearest valid values (B49), and ranks (B50).
#include <algorithm>
#include <fmt/format.h>

#include "kernels/common/fault.h"

#include "src/config/resolve.h"

namespace ogrom {

namespace {

// "12 or 16": the divisors of `whole` on both sides of `value`.
std::string nearest_divisors(i64 whole, i64 value) {
    i64 low = std::min(value, whole);
    while (low > 1 && whole % low != 0) {
        --low;
    }
    i64 high = value;
    while (high < whole && whole % high != 0) {
        ++high;
    }
    return high > low && high <= whole ? fmt::format("{} or {}", low, high) : fmt::format("{}", low);
}

// "60 or 64": the multiples of `step` on both sides of `value`.
std::string nearest_multiples(i64 value, i64 step) {
    const i64 low = value / step * step;
    return low > 0 ? fmt::format("{} or {}", low, low + step) : fmt::format("{}", low + step);
}

// Saturates: a mesh beyond 2^62 ranks is refused like any other that does not match.
i64 product_of(std::initializer_list<i64> factors) {
    i64 result = 1;
    for (const i64 factor : factors) {
        if (__builtin_mul_overflow(result, factor, &result)) {
            return i64{1} << 62;
        }
    }
    return result;
}

void derive_heads(Resolution& r) {
    ModelConfig& m = r.run.model;
    if (!r.given("model.kv_heads")) {
        m.kv_heads = m.heads;
        r.derived["model.kv_heads"] = "= heads";
    } else if (r.sound({"model.kv_heads", "model.heads"}) && m.kv_heads != m.heads) {
        if (m.kv_heads > m.heads || m.heads % m.kv_heads != 0) {
            r.fault("model.kv_heads", fmt::format("{} does not divide model.heads {}; would be right: {}", m.kv_heads,
                                                  m.heads, nearest_divisors(m.heads, m.kv_heads)));
        } else {
            r.fault("model.kv_heads", fmt::format("{} differs from model.heads {}: grouped heads are not built yet; "
                                                  "would be right: {}",
                                                  m.kv_heads, m.heads, m.heads));
        }
    }
    if (!r.sound({"model.hidden", "model.heads", "model.head_dim"})) {
        return;
    }
    const bool divides = m.hidden % m.heads == 0;
    if (!r.given("model.head_dim")) {
        if (!divides) {
            r.fault("model.heads",
                    fmt::format("{} does not divide model.hidden {}; would be right: heads {}, or hidden {}", m.heads,
                                m.hidden, nearest_divisors(m.hidden, m.heads), nearest_multiples(m.hidden, m.heads)));
            return;
        }
        m.head_dim = m.hidden / m.heads;
        r.derived["model.head_dim"] = "= hidden / heads";
        if (m.head_dim > 256) {
            r.fault("model.heads",
                    fmt::format("hidden {} / heads {} = {} channels a head; would be right: at most 256, "
                                "so at least {} heads",
                                m.hidden, m.heads, m.head_dim, ceil_div(m.hidden, 256)));
        }
    } else if (m.head_dim * m.heads != m.hidden) {
        r.fault(
            "model.head_dim",
            fmt::format("{} x model.heads {} = {} differs from model.hidden {}: not built yet; would be right: {}",
                        m.head_dim, m.heads, m.head_dim * m.heads, m.hidden,
                        divides ? fmt::format("{}", m.hidden / m.heads)
                                : fmt::format("heads that divide hidden, as {}", nearest_divisors(m.hidden, m.heads))));
    }
}

void derive_vocab(Resolution& r) {
    ModelConfig& m = r.run.model;
    const i64 tokenizer = r.input.tokenizer_vocab;
    if (!r.sound({"model.vocab", "model.vocab_multiple"})) {
        return;
    }
    if (m.vocab == 0) {
        m.vocab = tokenizer;
        r.derived["model.vocab"] = tokenizer > 0 ? "size of the tokenizer" : "size of the tokenizer, not yet opened";
    } else if (tokenizer > m.vocab) {
        r.fault("model.vocab",
                fmt::format("{} is less than the tokenizer's {} entries ({}); would be right: {}, or 0 = "
                            "take it from the tokenizer",
                            m.vocab, tokenizer, r.run.data.tokenizer, tokenizer));
    } else if (tokenizer > 0 && tokenizer < m.vocab) {
        r.note(fmt::format("model.vocab {} is more than the tokenizer's {} entries: ids from {} on never occur",
                           m.vocab, tokenizer, tokenizer));
    }
    m.padded_vocab = round_up(m.vocab, m.vocab_multiple);
    if (m.padded_vocab != m.vocab) {
        r.note(fmt::format("vocabulary: {} tokens, stored as {} rows (multiple of {})", m.vocab, m.padded_vocab,
                           m.vocab_multiple));
    }
}

void check_divides(Resolution& r, const char* whole_key, i64 whole, const char* parts_key, i64 parts, const char* why) {
    if (r.sound({whole_key, parts_key}) && parts > 0 && whole % parts != 0) {
        r.fault(parts_key, fmt::format("{} does not divide {} {} ({}); would be right: {} {}, or {} {}", parts,
                                       whole_key, whole, why, parts_key, nearest_divisors(whole, parts), whole_key,
                                       nearest_multiples(whole, parts)));
    }
}

}  // namespace

void resolve_model(Resolution& r) {
    ModelConfig& m = r.run.model;
    derive_heads(r);
    if (!r.given("model.ffn_hidden")) {
        m.ffn_hidden = 4 * m.hidden;
        r.derived["model.ffn_hidden"] = "= 4 x hidden";
    }
    derive_vocab(r);
    const ParallelConfig& p = r.run.parallel;
    if (r.sound({"model.layers", "parallel.pipeline"}) && p.pipeline > m.layers) {
        r.fault("parallel.pipeline", fmt::format("{} stages for model.layers {}: a stage would have no layer; would be "
                                                 "right: at most {}",
                                                 p.pipeline, m.layers, m.layers));
    } else {
        check_divides(r, "model.layers", m.layers, "parallel.pipeline", p.pipeline, "stages of equal size");
    }
    check_divides(r, "model.heads", m.heads, "parallel.tensor", p.tensor, "whole heads on each rank");
    check_divides(r, "model.ffn_hidden", m.ffn_hidden, "parallel.tensor", p.tensor, "equal columns on each rank");
}

void resolve_size(Resolution& r) {
    const ModelConfig& m = r.run.model;
    const TrainConfig& t = r.run.train;
    if (!r.sound({"model.layers", "model.hidden", "model.ffn_hidden", "model.vocab", "model.vocab_multiple",
                  "model.sequence", "train.micro_batch", "train.sequence", "train.logits_rows"})) {
        return;
    }
    const auto f = [](i64 extent) { return static_cast<double>(extent); };
    const double block = 4 * f(m.hidden) * f(m.hidden) + 2 * f(m.hidden) * f(m.ffn_hidden);
    const double weights = f(m.layers) * block + f(m.hidden) * (2 * f(m.padded_vocab) + f(m.sequence));
    const double kept = f(m.layers) * f(t.micro_batch) * f(t.sequence) * (20 * f(m.hidden) + 4 * f(m.ffn_hidden));
    // Weight, gradient and two moments in fp64 are 32 bytes; the ledger adds such lines in 64 bits.
    constexpr double most = 1e18 / 32;
    if (weights > most) {
        r.fault("model.hidden", fmt::format("layers {}, hidden {}, ffn_hidden {} and vocab {} make {:.3g} parameters, "
                                            "more than 64-bit sizes can count; would be right: at most {:.3g}",
                                            m.layers, m.hidden, m.ffn_hidden, m.vocab, weights, most));
    }
    if (kept > most || f(t.logits_rows) * f(m.padded_vocab) > most) {
        r.fault("train.micro_batch",
                fmt::format("micro_batch {} x sequence {} in {} layers of hidden {} (or logits_rows {} x vocab {}) are "
                            "more numbers than 64-bit sizes can count; would be right: smaller extents",
                            t.micro_batch, t.sequence, m.layers, m.hidden, t.logits_rows, m.vocab));
    }
}

void resolve_mesh(Resolution& r) {
    ParallelConfig& p = r.run.parallel;
    if (!r.sound({"parallel.pipeline", "parallel.data", "parallel.context", "parallel.expert", "parallel.tensor"})) {
        r.assigned.bad.insert("parallel.data");
        return;
    }
    const i64 ranks = fault_active("config_idle_ranks") ? 0 : r.input.ranks;
    const i64 others = product_of({p.pipeline, p.context, p.expert, p.tensor});
    const std::string product =
        fmt::format("pipeline {} x context {} x expert {} x tensor {}", p.pipeline, p.context, p.expert, p.tensor);
    if (!r.given("parallel.data")) {
        if (ranks > 0 && ranks % others != 0) {
            r.fault("parallel", fmt::format("{} = {} does not divide the {} ranks that were started, {} would stand "
                                            "idle; would be right: start {} ranks, or change the mesh",
                                            product, others, ranks, ranks % others, nearest_multiples(ranks, others)));
            r.assigned.bad.insert("parallel.data");
            return;
        }
        p.data = std::max<i64>(ranks / others, 1);
        r.derived["parallel.data"] = ranks > 0 ? fmt::format("{} ranks / ({})", ranks, product) : "ranks not known yet";
    } else if (const i64 wanted = product_of({others, p.data}); ranks > 0 && wanted != ranks) {
        r.fault(
            "parallel.data",
            fmt::format("{} x data {} = {}, but {} ranks were started{}; would be right: {}start {} ranks", product,
                        p.data, wanted, ranks,
                        wanted < ranks ? fmt::format(", {} would stand idle", ranks - wanted) : std::string(),
                        ranks % others == 0 ? fmt::format("data = {}, or ", ranks / others) : std::string(), wanted));
        r.assigned.bad.insert("parallel.data");
    }
}

}  // namespace ogrom
