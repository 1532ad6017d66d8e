#include "src/base/text.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <limits>
#include <set>
#include <vector>

#include "src/plan/decide.h"

namespace ogrom {
namespace {

std::string schedule_text(const RunConfig& run) {
    const OptimizerConfig& o = run.optimizer;
    std::string text = o.warmup_steps > 0 ? fmt::format("warm-up over optimizer steps 1..{}, lr {} at step {}",
                                                        o.warmup_steps, o.lr, o.warmup_steps)
                                          : fmt::format("no warm-up, lr {} at step 1", o.lr);
    switch (o.schedule) {
        case ScheduleKind::cosine:
            return text + fmt::format("; cosine to {} at step {}", o.min_lr, o.decay_steps);
        case ScheduleKind::linear:
            return text + fmt::format("; linear to {} at step {}", o.min_lr, o.decay_steps);
        case ScheduleKind::constant:
            return text + "; constant";
        case ScheduleKind::wsd:
            return text + fmt::format("; constant until step {}, linear to {} at step {}",
                                      std::max(o.warmup_steps, run.train.steps - o.decay_steps), o.min_lr,
                                      run.train.steps);
    }
    return text;
}

std::string every(i64 interval, const char* what) {
    return interval > 0 ? fmt::format("{} every {} steps and at the end", what, interval)
                        : fmt::format("{} at the end", what);
}

// The words of the formulas without digits at their ends: "2K" and "S0" (chunk 0) are K and S.
std::set<std::string> formula_words(const Ledger& ledger) {
    std::set<std::string> words;
    for (const LedgerLine& line : ledger.lines()) {
        std::string word;
        for (const char c : line.formula + " ") {
            const auto byte = static_cast<unsigned char>(c);
            if (std::isalpha(byte) != 0 || c == '_') {  // logits_rows is a name, no letter
                word += c;
            } else if (std::isdigit(byte) == 0 || word.empty()) {
                words.insert(word);
                word.clear();
            }
        }
    }
    return words;
}

// What the letters of the ledger's formulas stand for, of those that occur.
std::string letters_line(const RunConfig& run, const MeshShape& mesh, const Ledger& ledger) {
    const ModelConfig& m = run.model;
    const std::pair<std::string_view, std::string> letters[] = {
        {"P", "weights of this rank"},
        {"G", "gradients of this rank"},
        {"S", "micro-batches whose activations are kept at once"},
        {"L", "layers of this stage (S0, L0: of its chunk 0)"},
        {"Lk", "those of them that are not made again in backward"},
        {"W", "micro-batches that wait for the weights' half of backward"},
        {"B", fmt::format("micro-batch {}", run.train.micro_batch)},
        {"T", fmt::format("sequence {}", run.train.sequence)},
        {"C", fmt::format("hidden {}", m.hidden)},
        {"H", fmt::format("heads {}", m.heads)},
        {"K", fmt::format("key and value heads {}", m.kv_heads)},
        {"D", fmt::format("head size {}", m.head_dim)},
        {"F", fmt::format("inner width of the MLP {}", m.ffn_hidden)},
        {"V", fmt::format("vocabulary {}", m.vocab)},
        {"tp", fmt::format("tensor ranks {}", mesh.tp)},
        {"cp", fmt::format("context ranks {}", mesh.cp)}};
    const std::set<std::string> used = formula_words(ledger);
    std::vector<std::string> parts;
    for (const auto& [letter, meaning] : letters) {
        if (used.contains(std::string(letter))) {
            parts.push_back(fmt::format("{} {}", letter, meaning));
        }
    }
    return parts.empty() ? std::string() : fmt::format("letters: {}\n", join(parts, ", "));
}

}  // namespace

std::string plan_text(const RunConfig& run, const MeshShape& mesh, const Decisions& decisions, const Ledger& ledger) {
    const TrainConfig& t = run.train;
    const ModelConfig& m = run.model;
    const i64 parameters = make_parameters(m, run.numerics.compute).count();
    std::string out = "plan\n";
    out += fmt::format(
        "  model     {} layers, hidden {}, {} heads of {}, ffn {}, vocabulary {} (stored {}), {} head: {} "
        "parameters\n",
        m.layers, m.hidden, m.heads, m.head_dim, m.ffn_hidden, m.vocab, m.padded_vocab, m.tied ? "tied" : "untied",
        group_digits(parameters));
    out += fmt::format("  mesh      pp {} x dp {} x cp {} x ep {} x tp {} = {} rank{}\n", mesh.pp, mesh.dp, mesh.cp,
                       mesh.ep, mesh.tp, mesh.size(), mesh.size() == 1 ? "" : "s");
    out += fmt::format("  batch     global {} = micro {} x accumulation {} x dp {}; {} tokens a step, {} in all\n",
                       t.global_batch, t.micro_batch, t.accumulation, mesh.dp,
                       group_digits(t.global_batch * t.sequence), group_digits(t.global_batch * t.sequence * t.steps));
    out += fmt::format("  schedule  {} steps; {}; {}; {}\n", t.steps, schedule_text(run),
                       every(t.eval_interval_steps, "evaluation"), every(run.checkpoint.interval_steps, "checkpoint"));
    for (const std::string& reason : decisions.reasons) {
        out += "  choice    " + reason + "\n";
    }
    for (const std::string& note : run.notes) {
        out += "  derived   " + note + "\n";
    }
    return out + ledger.table() + letters_line(run, mesh, ledger);
}

std::string verdict_text(const PlannedNeed& need, i64 free_bytes) {
    const bool fits = need.each <= free_bytes / need.ranks;
    const bool refused = need.cut > free_bytes / need.ranks;  // what train compares before it takes any memory
    i64 all = 0;
    if (__builtin_mul_overflow(need.each, need.ranks, &all)) {
        all = std::numeric_limits<i64>::max();
    }
    const std::string who = need.ranks == 1 ? "1 rank" : fmt::format("all {} ranks on this machine", need.ranks);
    const std::string amount =
        need.ranks == 1 ? human_bytes(need.each)
                        : fmt::format("{} ({} x at most {})", human_bytes(all), need.ranks, human_bytes(need.each));
    std::string text =
        fits
            ? fmt::format("fits: {} in {} need{} {}, free {}", who, name_of(need.compute), need.ranks == 1 ? "s" : "",
                          amount, human_bytes(free_bytes))
            : fmt::format("does not fit on this machine: {} in {} need{} {}, free {} ({})", who, name_of(need.compute),
                          need.ranks == 1 ? "s" : "", amount, human_bytes(free_bytes),
                          refused ? "train would end with exit code 7" : "train would start, then run short of memory");
    if (!fits && need.ranks > 1) {
        text += "; spread over several machines each needs memory for its own ranks only";
    }
    return text + "\n";
}

}  // namespace ogrom
