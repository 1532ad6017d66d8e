#include "tests/equivalence/corpus.h"

#include <fmt/format.h>

#include "src/data/token_set_writer.h"

namespace ogrom::test {

void write_corpus(const std::string& prefix) {
    if (session().rank() == 0) {
        const Tokenizer tokenizer = Tokenizer::byte_level();
        TokenSetWriter writer(prefix, tokenizer, "byte");
        for (int document = 0; document < 200; ++document) {
            const std::string text = fmt::format("Document {}: the river rose by {} feet before dawn of day {}.",
                                                 document, document % 9, document * 7 % 31);
            writer.add(tokenizer.encode(text));
        }
        writer.finish({});
    }
    session().world().barrier("corpus").wait();
}

RunConfig corpus_run(const std::string& prefix, const std::string& output, const std::vector<std::string>& overrides,
                     i64 ranks) {
    ParseInput input;
    input.path = "corpus.toml";
    input.text = tiny_toml();
    input.ranks = ranks > 0 ? ranks : session().size();
    input.overrides = {fmt::format("data.train={}", prefix),
                       "data.tokenizer=byte",
                       "data.valid_fraction=0.2",
                       "model.vocab=257",
                       "model.layers=2",
                       "model.dropout_residual=0.1",
                       "model.dropout_attention=0.1",
                       "train.steps=12",
                       "train.global_batch=12",
                       "train.micro_batch=3",
                       fmt::format("run.output={}", output)};
    for (const std::string& override : overrides) {  // a key may be given once
        const std::string key = override.substr(0, override.find('=') + 1);
        std::erase_if(input.overrides, [&](const std::string& given) { return given.starts_with(key); });
        input.overrides.push_back(override);
    }
    return parse_run(input);
}

}  // namespace ogrom::test
