// Corpus in, token sets out: reads documents, encodes them on several threads in order, holds some out, writes.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/data/documents.h"
#include "src/data/token_set.h"
#include "src/data/tokenizer.h"

namespace ogrom {

struct IngestOptions {
    std::vector<std::string> inputs;
    DocumentOptions documents;
    std::string tokenizer;  // Tokenizer::load
    std::string prefix;
    double valid_fraction = 0;  // of documents, chosen by a hash of (seed, text): equal texts stay on one side
    std::string valid_prefix;   // empty: prefix + "-valid"
    u64 seed = 0;
    int threads = 0;  // 0 = as many as OpenMP would use
    Specials specials = Specials::as_text;
};

struct IngestReport {
    TokenSetRecord train;
    std::optional<TokenSetRecord> valid;
    i64 files = 0, bytes = 0;
    i64 names_left_out = 0;  // links and repeats of files that are read anyway
    std::vector<std::string> skip_messages;
    std::vector<std::string> notes;
};

// `progress` (may be empty) is called with bytes read and their total. Memory: 8 MiB of text a thread, or one longer
// document, and its ids.
IngestReport ingest(const IngestOptions& options, const std::function<void(i64, i64)>& progress);

}  // namespace ogrom
