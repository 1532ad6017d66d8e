// ogrom sample: text from a checkpoint. Comes in: a checkpoint and a prompt. Goes out: text or JSON on the standard
// output, notes on stderr. One process, no MPI.
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "kernels/common/parallel.h"

#include "src/base/log.h"
#include "src/commands/arguments.h"
#include "src/commands/commands.h"
#include "src/commands/sample_logits.h"
#include "src/commands/whole_model.h"
#include "src/data/tokenizer.h"
#include "src/model/sampling.h"

namespace ogrom {
namespace {

struct SampleOptions {
    std::string checkpoint, prompt, tokenizer;
    std::string ids, logits;  // evaluation of given ids instead of a text
    i64 tokens = 100;
    SamplingOptions sampling{.temperature = 0.8};
    bool json = false;
};

enum class Finish { length, end_of_document };

struct Sampled {
    std::vector<std::int32_t> tokens;
    std::string text;
    Finish finish = Finish::length;
    i64 dropped = 0;
};

void print(std::string_view text) {
    const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    require(written, ExitCode::checkpoint, "sample: cannot write to the standard output");
}

// The tokenizer that the checkpoint was trained with; another one would give other ids for the same text.
Tokenizer load_tokenizer(const SampleOptions& options, const CheckpointHeader& header) {
    const std::string& name = options.tokenizer.empty() ? header.tokenizer_path : options.tokenizer;
    const bool there = name == "byte" || std::filesystem::exists(name);
    require(there, ExitCode::data,
            fmt::format("tokenizer \"{}\"{} does not exist here; give its place with --tokenizer", name,
                        options.tokenizer.empty() ? ", named by the checkpoint," : ""));
    Tokenizer tokenizer = Tokenizer::load(name);
    require(tokenizer.identity() == header.tokenizer, ExitCode::data,
            fmt::format("tokenizer \"{}\" has the identity {}, the checkpoint was trained with {}; give that one with "
                        "--tokenizer",
                        name, tokenizer.identity(), header.tokenizer));
    return tokenizer;
}

std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, const std::string& prompt) {
    if (!prompt.empty()) {
        return tokenizer.encode(prompt);
    }
    require(tokenizer.eod().has_value(), ExitCode::usage,
            "sample: the tokenizer has no end-of-document token to start a text with; give --prompt");
    return {*tokenizer.eod()};
}

// Ids of the model that have a text or end the document; others (gaps, a vocabulary larger than the tokenizer's) are
// never drawn.
std::vector<bool> drawable(const Tokenizer& tokenizer, i64 vocab) {
    std::vector<bool> allowed(static_cast<std::size_t>(vocab));
    for (std::size_t id = 0; id < allowed.size(); ++id) {
        const auto token = static_cast<std::int32_t>(id);
        allowed[id] = tokenizer.text_of(token).has_value() || tokenizer.eod() == token;
    }
    return allowed;
}

template <class T>
Sampled generate(const SampleOptions& options, const Tokenizer& tokenizer) {
    const WholeModel<T> whole(options.checkpoint);
    const ModelConfig& model = whole.model;
    Generator<T> generator(model, whole.layout, whole.weights, host_threads());
    Continuation<T> text(generator, model.sequence, encode_prompt(tokenizer, options.prompt));
    if (text.dropped() > 0) {
        log_warning("the prompt is {} tokens longer than the model's sequence of {}: only its end is used",
                    text.dropped(), model.sequence);
    }
    if (!options.json) {
        print(options.prompt);
    }
    const i64 prompt_dropped = text.dropped();
    const std::vector<bool> allowed = drawable(tokenizer, model.vocab);
    std::vector<double> logits(allowed.size());
    Sampled sampled;
    for (i64 n = 0; n < options.tokens; ++n) {
        const std::span<const T> raw = text.logits();
        for (std::size_t id = 0; id < logits.size(); ++id) {
            logits[id] = allowed[id] ? static_cast<double>(raw[id]) : -std::numeric_limits<double>::infinity();
        }
        const std::int32_t token = choose_token(logits, options.sampling, n);
        if (tokenizer.eod() == token) {
            sampled.finish = Finish::end_of_document;
            break;
        }
        text.append(token);
        sampled.tokens.push_back(token);
        const std::string piece = tokenizer.decode({&token, 1});
        sampled.text += piece;
        if (!options.json) {
            print(piece);
        }
    }
    sampled.dropped = text.dropped() - prompt_dropped;
    if (sampled.dropped > 0) {
        log_info("the text outgrew the model's sequence of {}: the older half left the window each time",
                 model.sequence);
    }
    return sampled;
}

void print_json(const SampleOptions& options, const CheckpointHeader& header, const Sampled& sampled) {
    const nlohmann::json json = {
        {"format", 1},
        {"checkpoint", options.checkpoint},
        {"step", header.step},
        {"prompt", options.prompt},
        {"text", sampled.text},
        {"tokens", sampled.tokens},
        {"finish", sampled.finish == Finish::length ? "length" : "end_of_document"},
        {"temperature", options.sampling.temperature},
        {"top_k", options.sampling.top_k},
        {"top_p", options.sampling.top_p},
        {"seed", options.sampling.seed},
        {"left_window", sampled.dropped},
    };
    // A text may end inside a UTF-8 character: shown as U+FFFD in JSON, exact in "tokens".
    print(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

int run_sample(const SampleOptions& options) {
    if (!options.logits.empty()) {
        return write_logits(options.checkpoint, options.ids, options.logits);
    }
    check(options.sampling);
    require(options.tokens >= 1, ExitCode::usage,
            fmt::format("--tokens {} is out of range: 1 or above", options.tokens));
    const CheckpointHeader header = read_header(options.checkpoint);
    const Tokenizer tokenizer = load_tokenizer(options, header);
    const Sampled sampled =
        with_weight_type(options.checkpoint, [&](auto value) { return generate<decltype(value)>(options, tokenizer); });
    if (options.json) {
        print_json(options, header, sampled);
    } else {
        print("\n");
    }
    return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_sample(CLI::App& app, Invocation& chosen) {
    CLI::App* command = app.add_subcommand("sample", "Generate text from a checkpoint");
    const auto options = std::make_shared<SampleOptions>();
    command
        ->add_option("CHECKPOINT", options->checkpoint,
                     "a step folder, a checkpoints folder or a run's folder (the newest complete one)")
        ->required();
    command->add_option("--prompt", options->prompt, "text to continue; empty: the start of a document");
    command->add_option("--tokens", options->tokens, "tokens to generate at most; ends earlier with the document")
        ->capture_default_str();
    command->add_option("--temperature", options->sampling.temperature, "0 = the likeliest token each time")
        ->capture_default_str();
    command->add_option("--top-k", options->sampling.top_k, "draw from the k likeliest tokens only; 0 = all")
        ->capture_default_str();
    command
        ->add_option("--top-p", options->sampling.top_p,
                     "draw from the fewest tokens whose probabilities reach this sum; 1 = all")
        ->capture_default_str();
    command->add_option("--seed", options->sampling.seed, "the same seed gives the same text")
        ->capture_default_str()
        ->transform(whole_number(0));
    command->add_option("--tokenizer", options->tokenizer,
                        "tokenizer file or folder, or \"byte\"; else where it was when the run was trained");
    command->add_flag("--json", options->json, "one JSON object with text and token ids");
    CLI::Option* const ids = command->add_option(
        "--ids", options->ids, "token ids with commas between them, for --logits; no text is generated");
    CLI::Option* const logits = command->add_option(
        "--logits", options->logits,
        "write the logits after each of --ids to this file: little-endian fp32 [number of ids, vocab]");
    ids->needs(logits);
    logits->needs(ids);
    for (const char* other : {"--prompt", "--tokens", "--temperature", "--top-k", "--top-p", "--seed", "--json"}) {
        logits->excludes(command->get_option(other));
    }
    command->footer("Example: ogrom sample results/runs/demo --prompt \"It was\" --tokens 200 --temperature 0.8");
    command->callback([options, &chosen] {
        chosen.needs_session = false;
        chosen.run = alone("sample", [options] { return run_sample(*options); });
    });
}

}  // namespace ogrom
