// Writes a token set document after document with memory for one document: ids go straight to PREFIX.bin under a
// temporary name, lengths to a spool beside it; finish() makes the index and the record, syncs, and renames all three
// (the record last: it carries the hashes of the others). A writer destroyed before finish() leaves nothing. While it
// lives it holds PREFIX.lock; temporary files of a job that was killed go when the next one has the lock.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "src/data/token_set.h"
#include "src/data/tokenizer.h"

namespace ogrom {

class TokenSetWriter {
public:
    // The id type follows the tokenizer's largest id: uint16 up to 65535, int32 above. A document of more than
    // `max_sequence` ids is stored as several sequences of one document (lengths in the index are 32 bits wide).
    // Throws Error(data) where the tokenizer has no end-of-document token, Error(usage) that names the holder while
    // another job writes the prefix, Error(checkpoint) where the files cannot be made.
    TokenSetWriter(const std::string& prefix, const Tokenizer& tokenizer, const std::string& tokenizer_path,
                   i64 max_sequence = 0x7FFFFFFF);
    ~TokenSetWriter();
    TokenSetWriter(const TokenSetWriter&) = delete;
    TokenSetWriter& operator=(const TokenSetWriter&) = delete;

    // One document; the end-of-document id is put behind it, exactly once. Where the ids contain that id already (text
    // read with Specials::parse), the document ends there and another begins. A document without ids is dropped and
    // counted. Throws Error(data) with document number and id for an id outside the vocabulary.
    void add(std::span<const std::int32_t> ids);
    [[nodiscard]] const std::string& replaced() const;  // a line about a job that ended holding the lock, or empty
    [[nodiscard]] i64 documents() const;
    [[nodiscard]] i64 tokens() const;  // end-of-document ids included

    struct InputFaults {
        i64 replaced = 0, skipped = 0;  // see TokenSetRecord
    };
    // Throws Error(data) "no tokens" where no document had any.
    TokenSetRecord finish(const InputFaults& faults);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ogrom
