#include "src/commands/run_file.h"

#include <fmt/format.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/data/token_set.h"

namespace ogrom {

namespace {

// Entries of the tokenizer that made the training set; 0 where the set does not say.
i64 vocab_of(const std::string& prefix) {
    const TokenSet set(prefix, OpenCheck::counts);  // the sampler compares the hashes
    return set.record() ? set.record()->vocab : 0;
}

}  // namespace

RunConfig resolve_run_file(const std::string& path, const std::vector<std::string>& overrides, i64 ranks,
                           TokenSetNeed need) {
    ParseInput input;
    input.path = path;
    input.overrides = overrides;
    input.ranks = ranks;
    input.planned = need == TokenSetNeed::for_vocabulary;
    RunConfig run = parse_run(input);
    if (need == TokenSetNeed::for_vocabulary && run.model.vocab > 0 && !file_exists(run.data.train + ".idx")) {
        return run;
    }
    // `plan` reads the set for nothing else, so it says how to do without it.
    const std::string without_data =
        input.planned && run.model.vocab == 0 ? "; --set model.vocab=N plans without data" : "";
    try {
        input.tokenizer_vocab = vocab_of(run.data.train);
    } catch (const Error& error) {
        fail(error.code(), error.what() + without_data);
    }
    require(run.model.vocab > 0 || input.tokenizer_vocab > 0, ExitCode::usage,
            fmt::format("{}: model.vocab = 0 takes the vocabulary from the token set's record, but {}.json is absent; "
                        "give model.vocab{}",
                        path, run.data.train, without_data));
    // The second time with the tokenizer's size: a model with fewer entries is refused before any memory is taken.
    return parse_run(input);
}

double timeout_of(const std::string& path, const std::vector<std::string>& overrides) {
    ParseInput input;
    input.path = path;
    input.overrides = overrides;
    input.ranks = 0;
    try {
        return parse_run(input).comm.timeout_s;
    } catch (const Error&) {
        return CommConfig{}.timeout_s;
    }
}

}  // namespace ogrom
