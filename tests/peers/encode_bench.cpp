// Rate of `tokenizer encode` and of `ogrom data` on one core. Verifies first (decode gives the text back), then
// measures in the processor time of the process, so that other programs on the machine do not count; at least 5 samples
// each.
//   bench_encode TOKENIZER TEXT...      prints the rows of results/data/encode.json
// Limit: the rate at which one core copies the same bytes within memory.
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fmt/core.h>
#include <functional>
#include <unistd.h>

#include "kernels/common/error.h"

#include "src/base/file.h"
#include "src/data/ingest.h"

#include "tests/peers/rows.h"

namespace {

using namespace ogrom::peers;
constexpr int samples = 7;
constexpr std::size_t wanted_bytes = 32 << 20;

double processor_seconds() {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// MB/s of each of the samples; the first call warms up and does not count.
std::vector<double> rates(std::size_t bytes, const std::function<void()>& body) {
    std::vector<double> all;
    for (int i = 0; i <= samples; ++i) {
        const double begin = processor_seconds();
        body();
        const double seconds = processor_seconds() - begin;
        if (i > 0) {
            all.push_back(static_cast<double>(bytes) / 1e6 / seconds);
        }
    }
    return all;
}

Json row(const std::string& name, const std::vector<double>& measured, double limit, const std::string& command,
         const Json& extra) {
    return row_of({name, "MB/s", Better::higher, measured, limit, "copy within memory, one core", extra}, command);
}

int run(int argc, char** argv) {
    using namespace ogrom;
    require(argc >= 3, ExitCode::usage, "usage: bench_encode TOKENIZER TEXT...");
    const std::string command = command_text(argc, argv);
    std::string once;
    for (int i = 2; i < argc; ++i) {
        once += read_file(argv[i], i64{1} << 30, ExitCode::data);
    }
    require(!once.empty(), ExitCode::data, "the texts are empty");
    std::string text;
    while (text.size() < wanted_bytes) {
        text += once;
    }
    const Tokenizer tokenizer = Tokenizer::load(argv[1]);
    Encoder encoder(tokenizer);
    std::vector<std::int32_t> ids;
    encoder.encode(text, Specials::as_text, ids);
    require(tokenizer.decode(ids) == text, ExitCode::data, "decode(encode(text)) differs from the text");

    std::string copy(text.size(), '\0');
    const double limit = median(rates(text.size(), [&] { std::memcpy(copy.data(), text.data(), text.size()); }));
    const auto encode = rates(text.size(), [&] {
        ids.clear();
        encoder.encode(text, Specials::as_text, ids);
    });
    const auto cold = rates(once.size(), [&] { ids = tokenizer.encode(once); });

    std::string pattern = (std::filesystem::temp_directory_path() / "ogrom-bench.XXXXXX").string();
    const std::string folder = ::mkdtemp(pattern.data());
    write_file_atomic(join_path(folder, "text.txt"), text);
    IngestOptions options;
    options.inputs = {join_path(folder, "text.txt")};
    options.documents.split = SplitBy::blank_lines;
    options.tokenizer = argv[1];
    options.prefix = join_path(folder, "set");
    options.threads = 1;
    const auto data = rates(text.size(), [&] { ingest(options, {}); });
    remove_tree(folder);

    const Json extra = {{"vocab", tokenizer.vocab_size()},
                        {"text_bytes", once.size()},
                        {"repeated_to_bytes", text.size()},
                        {"clock", "processor time of one thread"}};
    fmt::print("{}\n", Json::array({row("encode", encode, limit, command, extra),
                                    row("encode, empty word cache, text once", cold, limit, command, extra),
                                    row("data, tokenizer load and fsync included", data, limit, command, extra)})
                           .dump(1));
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const ogrom::Error& error) {
        fmt::print(stderr, "bench_encode: {}\n", error.what());
        return static_cast<int>(error.code());
    }
}
