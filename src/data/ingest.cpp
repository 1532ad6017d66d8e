#include "src/data/ingest.h"

#include <algorithm>
#include <exception>
#include <fmt/core.h>
#include <memory>
#include <omp.h>

#include "kernels/common/error.h"

#include "src/base/file.h"
#include "src/data/content_hash.h"
#include "src/data/token_set_writer.h"

namespace ogrom {

namespace {

constexpr std::size_t batch_bytes_per_thread = 8 << 20;
constexpr std::size_t kept_capacity = 1 << 20;  // of one document's buffers, between batches

// Documents encoded together; buffers are used again.
class Batcher {
public:
    Batcher(const Tokenizer& tokenizer, Specials specials, int threads) : specials_(specials), threads_(threads) {
        for (int i = 0; i < threads; ++i) {
            encoders_.emplace_back(tokenizer);
        }
    }

    // Reads documents up to the batch's size; false when there was none.
    bool read(DocumentReader& reader) {
        count_ = 0;
        for (std::size_t bytes = 0; bytes < batch_bytes_per_thread * static_cast<std::size_t>(threads_);) {
            if (count_ == texts_.size()) {
                texts_.emplace_back();
                ids_.emplace_back();
            }
            if (!reader.next(texts_[count_])) {
                break;
            }
            bytes += texts_[count_++].size() + sizeof(std::string);
        }
        return count_ > 0;
    }

    void encode() {
        std::exception_ptr fault;
        const auto documents = static_cast<i64>(count_);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_)
        for (i64 i = 0; i < documents; ++i) {
            try {
                ids_[i].clear();
                encoders_[omp_get_thread_num()].encode(texts_[i], specials_, ids_[i]);
            } catch (...) {
#pragma omp critical(ogrom_ingest_fault)
                fault = std::current_exception();
            }
        }
        if (fault) {
            std::rethrow_exception(fault);
        }
    }

    template <class Visit>
    void each(Visit visit) {
        for (std::size_t i = 0; i < count_; ++i) {
            visit(texts_[i], ids_[i]);
            if (texts_[i].capacity() > kept_capacity) {
                texts_[i] = std::string();
            }
            if (ids_[i].capacity() * sizeof(std::int32_t) > kept_capacity) {
                ids_[i] = std::vector<std::int32_t>();
            }
        }
    }

private:
    Specials specials_;
    int threads_;
    std::vector<Encoder> encoders_;
    std::vector<std::string> texts_;
    std::vector<std::vector<std::int32_t>> ids_;
    std::size_t count_ = 0;
};

bool held_out(const IngestOptions& options, const std::string& text) {
    return static_cast<double>(seeded_hash(text, options.seed) >> 11) * 0x1p-53 < options.valid_fraction;
}

void check(const IngestOptions& options) {
    require(options.valid_fraction >= 0 && options.valid_fraction < 1, ExitCode::usage,
            fmt::format("--valid-fraction {}: must be at least 0 and below 1", options.valid_fraction));
    for (const auto& prefix : {options.prefix, options.valid_prefix}) {
        require(!prefix.ends_with('/'), ExitCode::usage,
                fmt::format("{} names a folder; give the prefix of the files in it, as in {}text", prefix, prefix));
    }
    require(options.valid_prefix.empty() || !same_place(options.valid_prefix + ".lock", options.prefix + ".lock"),
            ExitCode::usage,
            fmt::format("--valid-out {} and --out {} are the same prefix; give two different ones",
                        options.valid_prefix, options.prefix));
}

}  // namespace

IngestReport ingest(const IngestOptions& options, const std::function<void(i64, i64)>& progress) {
    check(options);
    const Tokenizer tokenizer = Tokenizer::load(options.tokenizer);
    IngestReport report;
    auto files = list_inputs(options.inputs, options.documents.format, &report.names_left_out);
    const std::string valid_prefix = options.valid_prefix.empty() ? options.prefix + "-valid" : options.valid_prefix;
    for (const auto* ending : {".bin", ".idx", ".json"}) {
        refuse_output_over_input(files, {options.prefix + ending});
        if (options.valid_fraction > 0) {
            refuse_output_over_input(files, {valid_prefix + ending});
        }
    }
    report.notes = tokenizer.report();
    report.files = static_cast<i64>(files.size());
    for (const auto& file : files) {
        report.bytes += file.bytes;
    }
    const int threads = options.threads > 0 ? options.threads : omp_get_max_threads();
    TokenSetWriter train(options.prefix, tokenizer, options.tokenizer);
    std::unique_ptr<TokenSetWriter> valid;
    if (options.valid_fraction > 0) {
        valid = std::make_unique<TokenSetWriter>(valid_prefix, tokenizer, options.tokenizer);
    }
    for (const TokenSetWriter* writer : std::initializer_list<const TokenSetWriter*>{&train, valid.get()}) {
        if (writer != nullptr && !writer->replaced().empty()) {
            report.notes.push_back(writer->replaced());
        }
    }
    DocumentReader reader(std::move(files), options.documents);
    Batcher batch(tokenizer, options.specials, threads);
    while (batch.read(reader)) {
        batch.encode();
        batch.each([&](const std::string& text, const std::vector<std::int32_t>& ids) {
            TokenSetWriter& out = valid && !ids.empty() && held_out(options, text) ? *valid : train;
            out.add(ids);
        });
        if (progress) {
            progress(reader.bytes_read(), report.bytes);
        }
    }
    report.skip_messages = reader.skip_messages();
    const TokenSetWriter::InputFaults faults{reader.replaced(), reader.skipped()};
    if (valid && valid->documents() == 0 && train.documents() > 0) {
        fail(
            ExitCode::data,
            fmt::format("--valid-fraction {} holds out none of the {} documents; whole documents are held out: cut the "
                        "text into more of them (--document-separator, --split-documents), or use another fraction or "
                        "--seed",
                        options.valid_fraction, train.documents()));
    }
    if (valid && train.documents() == 0 && valid->documents() > 0) {
        fail(ExitCode::data,
             fmt::format("--valid-fraction {} holds out all {} documents and leaves none to train on; whole documents "
                         "are held out: cut the text into more of them (--document-separator, --split-documents), or "
                         "use another fraction or --seed",
                         options.valid_fraction, valid->documents()));
    }
    report.train = train.finish(faults);
    if (valid) {
        report.valid = valid->finish({});
    }
    return report;
}

}  // namespace ogrom
