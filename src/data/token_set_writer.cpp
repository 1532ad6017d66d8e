#include "src/data/token_set_writer.h"

#include <algorithm>
#include <cstring>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"

#include "src/base/file.h"
#include "src/comm/lock_file.h"
#include "src/data/content_hash.h"

namespace ogrom {

namespace {

constexpr std::size_t buffer_bytes = 1 << 20;
constexpr i64 largest_uint16 = 65535;

// A file under a temporary name, buffered and hashed as it is written.
class HashedFile {
public:
    explicit HashedFile(const std::string& path) : file_(path, Create::exclusive) { buffer_.reserve(buffer_bytes); }
    template <class T>
    void put(T value) {
        char bytes[sizeof value];
        std::memcpy(bytes, &value, sizeof value);
        put_bytes({bytes, sizeof value});
    }
    void put_bytes(std::string_view bytes) {
        buffer_.append(bytes);
        if (buffer_.size() >= buffer_bytes) {
            flush();
        }
    }
    void flush() {
        hasher_.add(buffer_);
        file_.write(buffer_);
        buffer_.clear();
    }
    void close() {
        flush();
        file_.sync();
        file_.close();
    }
    [[nodiscard]] std::string hash() const { return hasher_.value(); }
    [[nodiscard]] i64 bytes() const { return file_.written(); }

private:
    FileWriter file_;
    ContentHasher hasher_;
    std::string buffer_;
};

std::string record_text(const TokenSetRecord& record, Dtype type) {
    const nlohmann::ordered_json json = {{"format", token_set_format},
                                         {"tokenizer",
                                          {{"identity", record.tokenizer},
                                           {"path", record.tokenizer_path},
                                           {"vocab", record.vocab},
                                           {"eod", record.eod}}},
                                         {"documents", record.documents},
                                         {"tokens", record.tokens},
                                         {"type", type == Dtype::u16 ? "uint16" : "int32"},
                                         {"empty_documents", record.empty_documents},
                                         {"replaced", record.replaced},
                                         {"skipped", record.skipped},
                                         {"bytes", record.bytes},
                                         {"index_bytes", record.index_bytes},
                                         {"hash", record.hash},
                                         {"index_hash", record.index_hash},
                                         {"sample_hash", record.sample_hash}};
    return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Under the lock, so what bears these names was left by a job that was killed.
void remove_temporary(const std::string& prefix) {
    for (const char* name : {".bin.tmp", ".idx.lengths.tmp", ".idx.tmp"}) {
        remove_file(prefix + name);
    }
    remove_left_over(prefix + ".json");
}

// A set that could not be put in place is refused before hours of encoding, not after.
const std::string& writable(const std::string& prefix) {
    for (const char* ending : {".bin", ".idx", ".json"}) {
        require(!is_directory(prefix + ending), ExitCode::checkpoint,
                fmt::format("{}{}: is a folder; a file of the token set would stand there: give another --out", prefix,
                            ending));
    }
    make_directories(parent_path(prefix));
    return prefix;
}

}  // namespace

struct TokenSetWriter::Impl {
    explicit Impl(const std::string& name)
        : prefix(writable(name)),
          lock(name + ".lock", {name,
                                "two jobs cannot write one token set; wait for that job or end it, or give another "
                                "prefix",
                                "--out must be a prefix in a folder that this user may write to"}),
          bin((remove_temporary(name), name + ".bin.tmp")),
          lengths(name + ".idx.lengths.tmp") {}
    ~Impl();
    void add_document(std::span<const std::int32_t> ids);
    void put_ids(std::span<const std::int32_t> ids);
    void write_index();

    std::string prefix;
    LockFile lock;  // held until the temporary files are gone
    HashedFile bin, lengths;
    TokenSetRecord record;
    Dtype type = Dtype::u16;
    i64 max_sequence = 0, sequences = 0;
    struct Long {
        i64 document, sequences;
    };
    std::vector<Long> longs;  // documents of more than one sequence
};

TokenSetWriter::Impl::~Impl() {
    try {
        remove_temporary(prefix);
    } catch (const Error&) {
        // Nothing to be done about a temporary file here; the fault that led here is the one to report.
    }
}

void TokenSetWriter::Impl::put_ids(std::span<const std::int32_t> ids) {
    for (const std::int32_t id : ids) {
        if (id < 0 || id >= record.vocab) {
            fail(ExitCode::data, fmt::format("{}: document {}: id {} is outside the tokenizer's vocabulary of {}",
                                             prefix, record.documents, id, record.vocab));
        }
    }
    if (type == Dtype::i32) {
        bin.put_bytes({reinterpret_cast<const char*>(ids.data()), ids.size_bytes()});
        return;
    }
    std::uint16_t block[4096];
    for (std::size_t at = 0; at < ids.size(); at += std::size(block)) {
        const auto part = ids.subspan(at, std::min(std::size(block), ids.size() - at));
        std::transform(part.begin(), part.end(), block, [](std::int32_t id) { return static_cast<std::uint16_t>(id); });
        bin.put_bytes({reinterpret_cast<const char*>(block), part.size() * sizeof *block});
    }
}

void TokenSetWriter::Impl::add_document(std::span<const std::int32_t> ids) {
    put_ids(ids);
    auto left = static_cast<i64>(ids.size());
    if (!fault_active("eod_missing")) {
        const auto eod = static_cast<std::int32_t>(record.eod);
        put_ids({&eod, 1});
        ++left;
    }
    record.tokens += left;
    const i64 pieces = ceil_div(left, max_sequence);
    if (pieces > 1) {
        longs.push_back({record.documents, pieces});
    }
    for (; left > 0; left -= max_sequence) {
        lengths.put(static_cast<std::int32_t>(std::min(left, max_sequence)));
    }
    sequences += pieces;
    ++record.documents;
}

void TokenSetWriter::Impl::write_index() {
    lengths.flush();
    const MappedFile spool(prefix + ".idx.lengths.tmp", MappedFile::Access::sequential);
    HashedFile index(prefix + ".idx.tmp");
    index.put_bytes({"MMIDIDX\0\0", 9});
    index.put(u64{1});
    index.put(type == Dtype::u16 ? token_type_uint16 : token_type_int32);
    index.put(static_cast<u64>(sequences));
    index.put(static_cast<u64>(record.documents + 1));
    index.put_bytes(spool.view());
    i64 pointer = 0;
    for (i64 s = 0; s < sequences; ++s) {
        std::int32_t length;
        std::memcpy(&length, spool.data() + 4 * s, sizeof length);
        index.put(pointer);
        pointer += length * size_of(type);
    }
    i64 sequence = 0;
    auto next_long = longs.begin();
    for (i64 d = 0; d < record.documents; ++d) {
        index.put(sequence);
        const bool is_long = next_long != longs.end() && next_long->document == d;
        sequence += is_long ? next_long->sequences : 1;
        next_long += is_long ? 1 : 0;
    }
    index.put(sequence);
    index.close();
    record.index_hash = index.hash();
    record.index_bytes = index.bytes();
}

TokenSetWriter::TokenSetWriter(const std::string& prefix, const Tokenizer& tokenizer, const std::string& tokenizer_path,
                               i64 max_sequence) {
    require(tokenizer.eod().has_value(), ExitCode::data,
            tokenizer_path + ": the tokenizer has no end-of-document token; add <|endoftext|> to its added_tokens");
    impl_ = std::make_unique<Impl>(prefix);
    impl_->max_sequence = max_sequence;
    impl_->record.tokenizer = tokenizer.identity();
    impl_->record.tokenizer_path = tokenizer_path;
    impl_->record.vocab = tokenizer.vocab_size();
    impl_->record.eod = *tokenizer.eod();
    impl_->type = tokenizer.vocab_size() - 1 <= largest_uint16 ? Dtype::u16 : Dtype::i32;
}
TokenSetWriter::~TokenSetWriter() = default;

const std::string& TokenSetWriter::replaced() const {
    return impl_->lock.replaced();
}
i64 TokenSetWriter::documents() const {
    return impl_->record.documents;
}
i64 TokenSetWriter::tokens() const {
    return impl_->record.tokens;
}

void TokenSetWriter::add(std::span<const std::int32_t> ids) {
    const auto eod = static_cast<std::int32_t>(impl_->record.eod);
    const i64 before = impl_->record.documents;
    while (!ids.empty()) {
        const auto end = std::find(ids.begin(), ids.end(), eod);
        const auto length = static_cast<std::size_t>(end - ids.begin());
        if (length > 0) {
            impl_->add_document(ids.first(length));
        }
        ids = ids.subspan(std::min(length + 1, ids.size()));
    }
    if (impl_->record.documents == before) {
        ++impl_->record.empty_documents;
    }
}

TokenSetRecord TokenSetWriter::finish(const InputFaults& faults) {
    TokenSetRecord& record = impl_->record;
    require(record.documents > 0, ExitCode::data,
            fmt::format("{}: no tokens: {} documents were empty and {} were skipped", impl_->prefix,
                        record.empty_documents, faults.skipped));
    record.replaced = faults.replaced;
    record.skipped = faults.skipped;
    impl_->bin.close();
    record.hash = impl_->bin.hash();
    record.bytes = impl_->bin.bytes();
    record.sample_hash = token_sample_hash(MappedFile(impl_->prefix + ".bin.tmp", MappedFile::Access::random).view());
    impl_->write_index();
    // Without the old record first, a stop between the renames could leave old and new parts that look like one set.
    remove_file(impl_->prefix + ".json");
    rename_durable(impl_->prefix + ".bin.tmp", impl_->prefix + ".bin");
    rename_durable(impl_->prefix + ".idx.tmp", impl_->prefix + ".idx");
    write_file_atomic(impl_->prefix + ".json", record_text(record, impl_->type));
    return record;
}

}  // namespace ogrom
