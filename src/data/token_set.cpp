#include "src/data/token_set.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <string_view>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

#include "src/base/file.h"
#include "src/data/content_hash.h"

namespace ogrom {

namespace {

constexpr std::string_view magic{"MMIDIDX\0\0", 9};
constexpr i64 record_limit_bytes = 1 << 20;

template <class T>
T load(const char* bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

[[noreturn]] void refuse(const std::string& prefix, const std::string& what) {
    fail(ExitCode::data, prefix + ".idx: " + what);
}

// What to do about a set that is not there: most often the name of one of its files, or a text, was given.
std::string no_set(const std::string& prefix) {
    for (const std::string_view ending : {".idx", ".bin", ".json"}) {
        const std::string shorter = prefix.substr(0, prefix.size() - std::min(ending.size(), prefix.size()));
        if (prefix.ends_with(ending) && file_exists(shorter + ".idx")) {
            return fmt::format("{}.idx does not exist; give the prefix of the token set without the ending: {}", prefix,
                               shorter);
        }
    }
    return fmt::format(
        "{}.idx does not exist: no token set has this prefix; make one: ogrom data --input TEXT... "
        "--tokenizer byte --out PREFIX",
        prefix);
}

}  // namespace

void fail_bad_id(const std::string& prefix, i64 document, i64 position, i64 id, i64 vocab) {
    fail(ExitCode::data,
         fmt::format("{}.bin: document {}, position {}: id {} is outside the vocabulary of {} (0 .. {}); the token set "
                     "was made with another tokenizer, or is damaged",
                     prefix, document, position, id, vocab, vocab - 1));
}

std::string token_sample_hash(std::string_view ids) {
    constexpr std::size_t small = 1 << 20, end_bytes = 64 << 10, piece_bytes = 4 << 10, pieces = 64;
    if (ids.size() <= small) {
        return content_hash(ids);
    }
    ContentHasher hasher;
    hasher.add(ids.substr(0, end_bytes));
    const std::size_t stride = (ids.size() - 2 * end_bytes) / pieces;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
        hasher.add(ids.substr(end_bytes + piece * stride, piece_bytes));
    }
    hasher.add(ids.substr(ids.size() - end_bytes));
    return hasher.value();
}

TokenSet::TokenSet(const std::string& prefix, OpenCheck check) : prefix_(prefix) {
    if (!file_exists(prefix + ".idx")) {
        fail(ExitCode::data, no_set(prefix));
    }
    index_ = MappedFile(prefix + ".idx", MappedFile::Access::sequential);
    ids_ = MappedFile(prefix + ".bin", MappedFile::Access::random);
    read_header();
    check_sequences();
    check_documents();
    read_record();
    if (record_ && check == OpenCheck::sampled && !fault_active("set_hashes_not_compared")) {
        compare_hashes();
    }
}

void TokenSet::compare_hashes() const {
    const auto compare = [&](const char* ending, const std::string& found, const std::string& wanted) {
        require(
            found == wanted, ExitCode::data,
            fmt::format("{0}{1}: content hash is {2}, the record {0}.json says {3}: the file is damaged, or another "
                        "job wrote over it; `ogrom data --check {0}` reads the whole set, `ogrom data --input` "
                        "makes it again",
                        prefix_, ending, found, wanted));
    };
    compare(".idx", content_hash(index_.view()), record_->index_hash);
    if (!record_->sample_hash.empty()) {
        compare(".bin", token_sample_hash(ids_.view()), record_->sample_hash);
    }
}

void TokenSet::read_header() {
    const i64 size = index_.size();
    if (size < token_index_header_bytes || index_.view().substr(0, magic.size()) != magic) {
        refuse(prefix_, fmt::format("not an index: {} bytes, and the first nine are not \"MMIDIDX\\0\\0\"", size));
    }
    const char* at = index_.data() + magic.size();
    const auto version = load<u64>(at);
    if (version != 1) {
        refuse(prefix_, fmt::format("version {} is not known; this program reads version 1", version));
    }
    const auto code = load<std::uint8_t>(at + 8);
    if (code != token_type_int32 && code != token_type_uint16) {
        refuse(prefix_, fmt::format("type code {} is not known; 4 (int32) and 8 (uint16) are", code));
    }
    dtype_ = code == token_type_uint16 ? Dtype::u16 : Dtype::i32;
    const auto sequences = load<u64>(at + 9);
    const auto entries = load<u64>(at + 17);
    // Bounded by the file before they are multiplied or believed.
    const u64 body = static_cast<u64>(size - token_index_header_bytes);
    if (sequences > body / 12 || entries > body / 8 || sequences * 12 + entries * 8 != body) {
        refuse(prefix_, fmt::format("{} sequences and {} document entries do not make a file of {} bytes "
                                    "({} + 12 x sequences + 8 x entries)",
                                    sequences, entries, size, token_index_header_bytes));
    }
    sequences_ = static_cast<i64>(sequences);
    table_entries_ = static_cast<i64>(entries);
}

i64 TokenSet::length(i64 sequence) const {
    return load<std::int32_t>(index_.data() + token_index_header_bytes + 4 * sequence);
}
i64 TokenSet::pointer(i64 sequence) const {
    return load<i64>(index_.data() + token_index_header_bytes + 4 * sequences_ + 8 * sequence);
}
i64 TokenSet::table(i64 entry) const {
    return load<i64>(index_.data() + token_index_header_bytes + 12 * sequences_ + 8 * entry);
}

void TokenSet::check_sequences() {
    const i64 width = size_of(dtype_);
    for (i64 s = 0; s < sequences_; ++s) {
        const i64 ids = length(s);
        const i64 first = pointer(s);
        if (ids < 0) {
            refuse(prefix_, fmt::format("length[{}] = {} is negative", s, ids));
        }
        if (first < 0 || first > ids_.size() || ids > (ids_.size() - first) / width) {
            refuse(prefix_, fmt::format("sequence {}: {} ids of {} bytes from byte {} pass the end of the .bin file "
                                        "({} bytes)",
                                        s, ids, width, first, ids_.size()));
        }
        tokens_ += ids;
    }
    if (tokens_ == 0) {
        refuse(prefix_, fmt::format("no tokens: {} sequences, all empty", sequences_));
    }
}

void TokenSet::check_documents() const {
    if (table_entries_ < 2 || table(0) != 0) {
        refuse(prefix_, fmt::format("document[0] must be 0 and {} sequences need at least two entries; there are {}",
                                    sequences_, table_entries_));
    }
    for (i64 d = 1; d < table_entries_; ++d) {
        if (table(d) < table(d - 1) || table(d) > sequences_) {
            refuse(prefix_, fmt::format("document[{}] = {} is not between document[{}] = {} and the number of "
                                        "sequences, {}",
                                        d, table(d), d - 1, table(d - 1), sequences_));
        }
    }
    if (table(table_entries_ - 1) != sequences_) {
        refuse(prefix_, fmt::format("document[{}] = {}, the last entry, must be the number of sequences, {}",
                                    table_entries_ - 1, table(table_entries_ - 1), sequences_));
    }
}

void TokenSet::read_record() {
    documents_ = table_entries_ - 1;
    const std::string path = prefix_ + ".json";
    if (!file_exists(path)) {
        require(
            !file_exists(prefix_ + ".lock"), ExitCode::data,
            fmt::format("{0}: its record {0}.json is absent and {0}.lock is there: a job is just writing the set, or "
                        "was stopped while it put the files in place; wait for it, or make the set again with "
                        "`ogrom data`",
                        prefix_));
        return;
    }
    TokenSetRecord record;
    try {
        const auto json = nlohmann::json::parse(read_file(path, record_limit_bytes, ExitCode::data));
        const int format = json.at("format").get<int>();
        require(
            format == token_set_format, ExitCode::data,
            fmt::format("{}: format {} is not known; this program reads format {}", path, format, token_set_format));
        const auto& tokenizer = json.at("tokenizer");
        record.tokenizer = tokenizer.at("identity").get<std::string>();
        record.tokenizer_path = tokenizer.at("path").get<std::string>();
        record.vocab = tokenizer.at("vocab").get<i64>();
        record.eod = tokenizer.at("eod").get<i64>();
        record.documents = json.at("documents").get<i64>();
        record.tokens = json.at("tokens").get<i64>();
        record.empty_documents = json.at("empty_documents").get<i64>();
        record.replaced = json.at("replaced").get<i64>();
        record.skipped = json.at("skipped").get<i64>();
        record.hash = json.at("hash").get<std::string>();
        record.index_hash = json.at("index_hash").get<std::string>();
        record.sample_hash = json.value("sample_hash", std::string());
        record.bytes = json.at("bytes").get<i64>();
        record.index_bytes = json.at("index_bytes").get<i64>();
    } catch (const nlohmann::json::exception& error) {
        fail(ExitCode::data,
             fmt::format("{}: not the record of a token set ({}); make the set again with `ogrom data`, "
                         "or give a prefix whose .json does not exist",
                         path, error.what()));
    }
    if (record.documents != documents_ || record.tokens != tokens_ || record.bytes != ids_.size() ||
        record.index_bytes != index_.size()) {
        fail(ExitCode::data,
             fmt::format("{} belongs to another token set: it tells of {} documents, {} tokens, {} and {} bytes; the "
                         ".idx and .bin files have {}, {}, {} and {}; `ogrom data --check {}` reads the whole set",
                         path, record.documents, record.tokens, record.index_bytes, record.bytes, documents_, tokens_,
                         index_.size(), ids_.size(), prefix_));
    }
    record_ = record;
}

i64 TokenSet::tokens_of(i64 document) const {
    i64 sum = 0;
    for (i64 s = table(document); s < table(document + 1); ++s) {
        sum += length(s);
    }
    return sum;
}

void TokenSet::read(i64 document, i64 first, i64 count, std::int32_t* out) const {
    for (i64 s = table(document); count > 0; ++s) {
        OGROM_ASSERT(s < table(document + 1));
        const i64 ids = length(s);
        if (first >= ids) {
            first -= ids;
            continue;
        }
        const i64 take = std::min(count, ids - first);
        const char* from = ids_.data() + pointer(s) + first * size_of(dtype_);
        if (dtype_ == Dtype::i32) {
            std::memcpy(out, from, static_cast<std::size_t>(take) * sizeof *out);
        } else {
            for (i64 i = 0; i < take; ++i) {
                out[i] = load<std::uint16_t>(from + 2 * i);
            }
        }
        out += take;
        count -= take;
        first = 0;
    }
}

std::string TokenSet::id() const {
    ContentHasher hasher;
    if (record_) {
        hasher.add(record_->hash);
        hasher.add(record_->index_hash);
        return hasher.value();
    }
    constexpr i64 sampled = 1 << 20;
    const auto end = static_cast<std::size_t>(std::min(sampled, ids_.size()));
    hasher.add(index_.view());
    hasher.add(ids_.view().substr(0, end));
    hasher.add(ids_.view().substr(ids_.view().size() - end));
    return hasher.value();
}

void TokenSet::verify(i64 vocab) const {
    if (record_) {
        const auto check = [](const std::string& path, const MappedFile& file, const std::string& hash) {
            const std::string found = content_hash(file.view());
            require(found == hash, ExitCode::data,
                    fmt::format("{}: content hash is {}, the record says {}: the file is damaged", path, found, hash));
        };
        check(prefix_ + ".idx", index_, record_->index_hash);
        check(prefix_ + ".bin", ids_, record_->hash);
        vocab = vocab == 0 ? record_->vocab : vocab;
    }
    require(vocab > 0, ExitCode::usage,
            prefix_ + ": the set has no .json record, so the vocabulary that bounds its ids must be given");
    std::array<std::int32_t, 4096> block{};
    for (i64 d = 0; d < documents_; ++d) {
        const i64 ids = tokens_of(d);
        for (i64 first = 0; first < ids; first += static_cast<i64>(block.size())) {
            const i64 count = std::min<i64>(static_cast<i64>(block.size()), ids - first);
            read(d, first, count, block.data());
            for (i64 i = 0; i < count; ++i) {
                if (block[i] < 0 || block[i] >= vocab) {
                    fail_bad_id(prefix_, d, first + i, block[i], vocab);
                }
            }
        }
    }
}

}  // namespace ogrom
