// The model: extents that are left out, and what the tensor axis must divide, with the nearest valid values (B49).
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "kernels/common/fault.h"

#include "src/config/near.h"
#include "src/config/resolve.h"

namespace ogrom {

namespace {

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
    const i64 tensor =
        r.sound({"parallel.tensor"}) && !fault_active("config_padding_of_one_rank") ? r.run.parallel.tensor : 1;
    m.padded_vocab = round_up(m.vocab, std::lcm(m.vocab_multiple, tensor));
    if (m.padded_vocab != m.vocab) {
        const std::string also = m.vocab_multiple % tensor != 0 ? fmt::format(" and of tensor {}", tensor) : "";
        r.note(fmt::format("vocabulary: {} tokens, stored as {} rows (multiple of {}{})", m.vocab, m.padded_vocab,
                           m.vocab_multiple, also));
    }
}

// What every tensor rank gets an equal part of. `common` = greatest common divisor of all that tensor must divide.
void check_tensor(Resolution& r, const char* whole_key, i64 whole, i64 common, const char* why) {
    const i64 tensor = r.run.parallel.tensor;
    if (r.sound({whole_key, "parallel.tensor"}) && whole % tensor != 0 && !fault_active("config_uneven_tensor")) {
        const std::string right = nearest_divisors(common, tensor);
        const std::string of_ranks = nearest_divisors(std::gcd(common, r.input.ranks), tensor);  // 0: not known yet
        r.fault("parallel.tensor",
                fmt::format("{} does not divide {} {} ({}); would be right: parallel.tensor {}, or {} {}{}", tensor,
                            whole_key, whole, why, right, whole_key, nearest_multiples(whole, tensor),
                            of_ranks == right ? std::string()
                                              : fmt::format("; with {} ranks: tensor {}", r.input.ranks, of_ranks)));
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
    if (r.sound({"model.heads", "model.kv_heads", "model.ffn_hidden"})) {
        const i64 common = std::gcd(std::gcd(m.heads, m.kv_heads), m.ffn_hidden);
        check_tensor(r, "model.heads", m.heads, common, "whole heads on each rank");
        if (m.kv_heads != m.heads) {
            check_tensor(r, "model.kv_heads", m.kv_heads, common, "whole heads on each rank");
        }
        check_tensor(r, "model.ffn_hidden", m.ffn_hidden, common, "equal columns on each rank");
    }
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

}  // namespace ogrom
