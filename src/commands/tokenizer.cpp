// ogrom tokenizer: train, encode, decode, info.
#include <cstdio>
#include <fmt/format.h>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "kernels/common/error.h"

#include "src/base/file.h"
#include "src/base/log.h"
#include "src/base/progress.h"
#include "src/base/text.h"
#include "src/base/timer.h"
#include "src/comm/lock_file.h"
#include "src/commands/arguments.h"
#include "src/commands/commands.h"
#include "src/data/documents.h"
#include "src/data/tokenizer_file.h"
#include "src/data/train_bpe.h"

namespace ogrom {

namespace {

struct TokenizerOptions {
    std::vector<std::string> inputs;
    std::string out, tokenizer, text;
    DocumentOptions documents;
    i64 vocab = 0, min_count = 2;
    bool has_text = false, parse_specials = false, json = false;
};

void print_all(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        fail(ExitCode::checkpoint, "tokenizer: cannot write to the standard output");
    }
}

std::string standard_input() {
    return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

// PATH.json is the file itself; anything else is a folder that gets a tokenizer.json.
std::string target_of(const std::string& out) {
    return out.ends_with(".json") ? out : join_path(out, "tokenizer.json");
}

struct Counted {
    WordCounts words;
    i64 skipped = 0;
};

Counted count_words(const TokenizerOptions& options) {
    i64 again = 0;
    auto files = list_inputs(options.inputs, options.documents.format, &again);
    if (again > 0) {
        log_info("{} links or repeated names of files left out: each text counts once", again);
    }
    i64 total = 0;
    for (const auto& file : files) {
        total += file.bytes;
    }
    Progress bar("words", total >> 10, "KiB");
    DocumentReader reader(std::move(files), options.documents);
    Counted counted;
    for (std::string text; reader.next(text);) {
        counted.words.add(text);
        bar.update(reader.bytes_read() >> 10);
    }
    bar.clear();
    counted.skipped = reader.skipped();
    for (const auto& message : reader.skip_messages()) {
        log_warning("skipped: {}", message);
    }
    return counted;
}

// Before the text is read: who may write the result, and whether it can stand there at all.
LockFile lock_target(const std::string& path) {
    require(!is_directory(path), ExitCode::checkpoint, fmt::format("{}: is a folder; give another --out", path));
    make_directories(parent_path(path));
    return {path + ".lock",
            {path, "two jobs cannot write one tokenizer; wait for that job or end it, or give another --out",
             "--out must stand in a folder that this user may write to"}};
}

int run_train(const TokenizerOptions& options) {
    const Timer timer;
    check_vocab_size(options.vocab);
    refuse_output_over_input(list_inputs(options.inputs, options.documents.format), {target_of(options.out)});
    const LockFile lock = lock_target(target_of(options.out));
    remove_left_over(target_of(options.out));
    if (!lock.replaced().empty()) {
        log_warning("{}", lock.replaced());
    }
    const auto [words, skipped] = count_words(options);
    Progress bar("merges", options.vocab - 257, "merges");
    const TrainedBpe trained = train_bpe(words, options.vocab, options.min_count, [&](i64 done) { bar.update(done); });
    bar.clear();
    const std::string path = target_of(options.out);
    write_file_atomic(path, tokenizer_json(trained.texts, trained.merges, trained.added));
    const Tokenizer tokenizer = Tokenizer::load(path);
    if (tokenizer.vocab_size() < options.vocab) {
        log_warning("the text gives only {} entries of the {} asked for (no further pair occurs {} times)",
                    tokenizer.vocab_size(), options.vocab, options.min_count);
    }
    if (options.json) {
        const nlohmann::ordered_json json = {{"path", path},
                                             {"vocab", tokenizer.vocab_size()},
                                             {"merges", trained.merges.size()},
                                             {"eod", tokenizer.eod().value()},
                                             {"identity", tokenizer.identity()},
                                             {"seconds", timer.seconds()}};
        print_all(json.dump(1) + "\n");
    } else {
        print_all(fmt::format("{}: {} entries, identity {}, {:.1f} s\n", path, tokenizer.vocab_size(),
                              tokenizer.identity(), timer.seconds()));
    }
    return finish_code(skipped);
}

int run_encode(const TokenizerOptions& options) {
    const Tokenizer tokenizer = Tokenizer::load(options.tokenizer);
    const std::string text = options.has_text ? options.text : standard_input();
    const auto ids = tokenizer.encode(text, options.parse_specials ? Specials::parse : Specials::as_text);
    if (options.json) {
        print_all(nlohmann::ordered_json{{"ids", ids}, {"identity", tokenizer.identity()}}.dump() + "\n");
    } else {
        print_all(fmt::format("{}\n", fmt::join(ids, " ")));
    }
    return static_cast<int>(ExitCode::done);
}

int run_decode(const TokenizerOptions& options) {
    const Tokenizer tokenizer = Tokenizer::load(options.tokenizer);
    std::string input = options.has_text ? options.text : standard_input();
    for (char& c : input) {
        c = c == '\n' || c == '\r' || c == '\t' || c == ',' ? ' ' : c;
    }
    std::vector<std::int32_t> ids;
    for (const auto& part : split(input, ' ')) {
        if (part.empty()) {
            continue;
        }
        const auto id = parse_integer(part);
        require(id && *id >= 0 && *id < tokenizer.vocab_size(), ExitCode::usage,
                fmt::format("decode: '{}' is no id of this tokenizer (0 .. {})", part, tokenizer.vocab_size() - 1));
        ids.push_back(static_cast<std::int32_t>(*id));
    }
    const std::string text = tokenizer.decode(ids);
    if (options.json) {
        // Ids may end inside a character; JSON has no bytes, so those become U+FFFD there (not in the plain form).
        using Json = nlohmann::ordered_json;
        print_all(Json{{"text", text}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    } else {
        print_all(text);
    }
    return static_cast<int>(ExitCode::done);
}

int run_info(const TokenizerOptions& options) {
    const Tokenizer tokenizer = Tokenizer::load(options.tokenizer);
    const auto eod = tokenizer.eod();
    if (options.json) {
        nlohmann::ordered_json json = {{"vocab", tokenizer.vocab_size()}, {"identity", tokenizer.identity()}};
        json["eod"] = eod ? nlohmann::ordered_json(*eod) : nlohmann::ordered_json();
        json["notes"] = tokenizer.report();
        print_all(json.dump(1) + "\n");
        return static_cast<int>(ExitCode::done);
    }
    print_all(fmt::format("{}: vocabulary {}, end of document {}, identity {}\n", options.tokenizer,
                          tokenizer.vocab_size(), eod ? std::to_string(*eod) : "none", tokenizer.identity()));
    for (const auto& note : tokenizer.report()) {
        print_all(note + "\n");
    }
    return static_cast<int>(ExitCode::done);
}

using Options = std::shared_ptr<TokenizerOptions>;

void set_run(CLI::App* command, const Options& options, Invocation& chosen, int (*run)(const TokenizerOptions&)) {
    command->add_flag("--json", options->json, "report as JSON");
    command->callback([options, &chosen, run] {
        chosen.needs_session = false;
        chosen.run = alone("tokenizer", [options, run] { return run(*options); });
    });
}

void add_learn(CLI::App& tokenizer, const Options& options, Invocation& chosen) {
    CLI::App* command = tokenizer.add_subcommand("train", "Learn a byte-level BPE from text");
    command->add_option("--input", options->inputs, "files and folders (text, JSON Lines)")
        ->required()
        ->type_name("PATH...");
    command->add_option("--vocab", options->vocab, "entries, the 256 bytes and <|endoftext|> included")->required();
    command->add_option("--out", options->out, "a .json file, or a folder that gets tokenizer.json")->required();
    command->add_option("--min-count", options->min_count, "a pair must occur this often to be merged")
        ->capture_default_str()
        ->transform(whole_number(1));
    command->add_option("--jsonl-key", options->documents.member, "member of JSON Lines objects that holds the text")
        ->capture_default_str();
    add_invalid_option(*command, options->documents);
    command->footer("Example: ogrom tokenizer train --input books/ --vocab 4096 --out results/books-bpe");
    set_run(command, options, chosen, run_train);
}

void add_tokenizer_option(CLI::App& command, const Options& options) {
    command.add_option("--tokenizer", options->tokenizer, "byte, a tokenizer.json, or a folder")->required();
}

}  // namespace

void add_tokenizer(CLI::App& app, Invocation& chosen) {
    CLI::App* command = app.add_subcommand("tokenizer", "Learn a tokenizer; encode and decode text");
    command->require_subcommand(1);
    command->footer("Example: echo 'Hello world' | ogrom tokenizer encode --tokenizer results/books-bpe");
    const auto options = std::make_shared<TokenizerOptions>();
    add_learn(*command, options, chosen);

    CLI::App* encode = command->add_subcommand("encode", "Text (standard input, byte for byte) to ids");
    add_tokenizer_option(*encode, options);
    encode->add_option_function<std::string>(
        "--text", [options](const std::string& text) { options->text = text, options->has_text = true; },
        "the text, instead of standard input");
    encode->add_flag("--parse-specials", options->parse_specials,
                     "take <|endoftext|> in the text as the special token");
    set_run(encode, options, chosen, run_encode);

    CLI::App* decode = command->add_subcommand("decode", "Ids (standard input, separated by blanks or commas) to text");
    add_tokenizer_option(*decode, options);
    decode->add_option_function<std::string>(
        "--ids", [options](const std::string& ids) { options->text = ids, options->has_text = true; },
        "the ids in one argument, instead of standard input");
    decode->footer("Example: echo '72 101 108 108 111' | ogrom tokenizer decode --tokenizer byte");
    set_run(decode, options, chosen, run_decode);

    CLI::App* info = command->add_subcommand("info", "Vocabulary, end-of-document id and identity of a tokenizer");
    add_tokenizer_option(*info, options);
    info->footer("Example: ogrom tokenizer info --tokenizer results/books-bpe");
    set_run(info, options, chosen, run_info);
}

}  // namespace ogrom
