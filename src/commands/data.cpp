// ogrom data: text files, folders and JSON Lines to token sets, and the full check of a token set.
#include <cstdio>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "kernels/common/error.h"

#include "src/base/log.h"
#include "src/base/progress.h"
#include "src/base/text.h"
#include "src/base/timer.h"
#include "src/commands/arguments.h"
#include "src/commands/commands.h"
#include "src/data/ingest.h"

namespace ogrom {

namespace {

struct DataOptions {
    IngestOptions ingest;
    std::string check_prefix;
    i64 check_vocab = 0;
    bool parse_specials = false;
    bool json = false;
};

nlohmann::ordered_json record_json(const std::string& prefix, const TokenSetRecord& record) {
    return {{"prefix", prefix},        {"documents", record.documents},
            {"tokens", record.tokens}, {"empty_documents", record.empty_documents},
            {"bytes", record.bytes},   {"hash", record.hash}};
}

std::string set_line(const std::string& prefix, const TokenSetRecord& record) {
    return fmt::format("{}: {} documents, {} tokens, {}{}\n", prefix, group_digits(record.documents),
                       group_digits(record.tokens), human_bytes(record.bytes),
                       record.empty_documents > 0
                           ? fmt::format("; {} empty documents left out", group_digits(record.empty_documents))
                           : "");
}

void print_report(const DataOptions& options, const IngestReport& report, double seconds) {
    const std::string valid_prefix =
        options.ingest.valid_prefix.empty() ? options.ingest.prefix + "-valid" : options.ingest.valid_prefix;
    const double rate = static_cast<double>(report.bytes) / 1e6 / seconds;
    if (options.json) {
        nlohmann::ordered_json json = {{"files", report.files},
                                       {"names_left_out", report.names_left_out},
                                       {"input_bytes", report.bytes},
                                       {"seconds", seconds},
                                       {"mb_per_s", rate},
                                       {"replaced", report.train.replaced},
                                       {"skipped", report.train.skipped},
                                       {"train", record_json(options.ingest.prefix, report.train)}};
        if (report.valid) {
            json["valid"] = record_json(valid_prefix, *report.valid);
        }
        fmt::print("{}\n", json.dump(1));
        return;
    }
    fmt::print("read {} from {} files in {:.2f} s ({:.1f} MB/s)\n", human_bytes(report.bytes), report.files, seconds,
               rate);
    if (report.names_left_out > 0) {
        fmt::print("{} links or repeated names of these files left out: each text counts once\n",
                   report.names_left_out);
    }
    fmt::print("{}", set_line(options.ingest.prefix, report.train));
    if (report.valid) {
        fmt::print("{}", set_line(valid_prefix, *report.valid));
    }
    if (report.train.replaced > 0) {
        fmt::print("{} invalid characters replaced by U+FFFD\n", group_digits(report.train.replaced));
    }
}

int run_ingest(const DataOptions& options) {
    const Timer timer;
    std::unique_ptr<Progress> bar;
    const auto report = ingest(options.ingest, [&](i64 done, i64 total) {
        if (!bar) {
            bar = std::make_unique<Progress>("data", total >> 10, "KiB");
        }
        bar->update(done >> 10);
    });
    if (bar) {
        bar->clear();
    }
    for (const auto& note : report.notes) {
        log_warning("{}", note);
    }
    for (const auto& message : report.skip_messages) {
        log_warning("skipped: {}", message);
    }
    print_report(options, report, timer.seconds());
    return finish_code(report.train.skipped);
}

int run_check(const DataOptions& options) {
    const TokenSet set(options.check_prefix, OpenCheck::counts);
    set.verify(options.check_vocab);
    if (options.json) {
        const nlohmann::ordered_json json = {{"prefix", set.prefix()}, {"documents", set.documents()},
                                             {"tokens", set.tokens()}, {"type", name_of(set.dtype())},
                                             {"id", set.id()},         {"good", true}};
        fmt::print("{}\n", json.dump(1));
    } else {
        fmt::print("{}: {} documents, {} tokens: every id and hash is right\n", set.prefix(),
                   group_digits(set.documents()), group_digits(set.tokens()));
    }
    return static_cast<int>(ExitCode::done);
}

int run_data(const DataOptions& options) {
    if (!options.check_prefix.empty()) {
        return run_check(options);
    }
    require(!options.ingest.inputs.empty() && !options.ingest.prefix.empty() && !options.ingest.tokenizer.empty(),
            ExitCode::usage,
            "data: --input, --tokenizer and --out are needed (or --check PREFIX); see ogrom data --help");
    return run_ingest(options);
}

void add_text_options(CLI::App& command, DataOptions& options) {
    auto& documents = options.ingest.documents;
    const std::map<std::string, SplitBy> splits = {
        {"file", SplitBy::file}, {"blank-lines", SplitBy::blank_lines}, {"form-feed", SplitBy::form_feed}};
    CLI::Option* split =
        command
            .add_option("--split-documents", documents.split, "where a document of a text file ends (default: file)")
            ->transform(one_of(splits))
            ->type_name("file|blank-lines|form-feed");
    command
        .add_option("--document-separator", documents.separator,
                    "a text file is cut at lines equal to this, as % in fortune files")
        ->excludes(split);
    const std::map<std::string, InputFormat> formats = {
        {"auto", InputFormat::automatic}, {"text", InputFormat::text}, {"jsonl", InputFormat::jsonl}};
    command.add_option("--format", documents.format, "of the input (default: auto, .jsonl and .ndjson by name)")
        ->transform(one_of(formats))
        ->type_name("auto|text|jsonl");
    command.add_option("--jsonl-key", documents.member, "member of each JSON Lines object that holds the text")
        ->capture_default_str();
    add_invalid_option(command, documents);
}

}  // namespace

void add_data(CLI::App& app, Invocation& chosen) {
    CLI::App* command = app.add_subcommand("data", "Turn text files, folders and JSON Lines into a token set");
    const auto options = std::make_shared<DataOptions>();
    auto& ingest = options->ingest;
    CLI::Option* input =
        command
            ->add_option(
                "--input", ingest.inputs,
                "files and folders, in order, each file once however many links lead to it; a dangling link, pipe "
                "or device in them is an error")
            ->type_name("PATH...");
    command->add_option("--tokenizer", ingest.tokenizer,
                        "byte, a tokenizer.json, or a folder with encoder.json + vocab.bpe");
    command->add_option("--out", ingest.prefix, "the set becomes PREFIX.bin, PREFIX.idx, PREFIX.json")
        ->type_name("PREFIX");
    CLI::Option* fraction = command->add_option("--valid-fraction", ingest.valid_fraction,
                                                "fraction of documents held out, chosen by a hash of (seed, text)");
    command->add_option("--valid-out", ingest.valid_prefix, "where held-out documents go (default: PREFIX-valid)")
        ->type_name("PREFIX")
        ->needs(fraction);
    command->add_option("--seed", ingest.seed, "of the choice of held-out documents")
        ->capture_default_str()
        ->transform(whole_number(0));
    add_text_options(*command, *options);
    command->add_flag("--parse-specials", options->parse_specials,
                      "take the text <|endoftext|> inside documents as the end of a document (default: plain text)");
    command->add_option("--threads", ingest.threads, "0 = all (default)")->check(CLI::Range(0, 1024));
    CLI::Option* check =
        command->add_option("--check", options->check_prefix, "read a whole token set and check every id and hash")
            ->type_name("PREFIX")
            ->excludes(input);
    command
        ->add_option("--vocab", options->check_vocab, "with --check: bound of the ids (default: the set's tokenizer)")
        ->transform(whole_number(0))
        ->needs(check);
    command->add_flag("--json", options->json, "report as JSON");
    command->footer("Example: ogrom data --input books/ --tokenizer byte --valid-fraction 0.05 --out results/books");
    command->callback([options, &chosen] {
        if (!options->ingest.documents.separator.empty()) {
            options->ingest.documents.split = SplitBy::line;
        }
        options->ingest.specials = options->parse_specials ? Specials::parse : Specials::as_text;
        chosen.needs_session = false;
        chosen.run = alone("data", [options] { return run_data(*options); });
    });
}

}  // namespace ogrom
