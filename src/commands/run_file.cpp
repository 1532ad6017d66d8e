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
    RunConfig run = parse_run(input);
    if (need == TokenSetNeed::for_vocabulary && run.model.vocab > 0 && !file_exists(run.data.train + ".idx")) {
        return run;
    }
    input.tokenizer_vocab = vocab_of(run.data.train);
    require(run.model.vocab > 0 || input.tokenizer_vocab > 0, ExitCode::usage,
            fmt::format("{}: model.vocab = 0 takes the vocabulary from the token set's record, but {}.json is absent; "
                        "give model.vocab",
                        path, run.data.train));
    // The second time with the tokenizer's size: a model with fewer entries is refused before any memory is taken.
    return parse_run(input);
}

}  // namespace ogrom
