// Learning of merges, against a trainer that counts everything anew for each merge.
#include "src/data/train_bpe.h"

#include <map>
#include <random>

#include "src/data/pretokenize.h"
#include "src/data/tokenizer_file.h"

#include "fixtures.h"

namespace ogrom::data_test {

namespace {

// The merges as texts, found by counting all pairs of all words each time.
std::vector<std::pair<std::string, std::string>> slow_merges(const std::string& text, i64 count, i64 min_count) {
    std::map<std::string, std::int32_t> ids;
    std::vector<std::string> texts;
    for (const unsigned char byte : bytes_by_symbol()) {
        texts.emplace_back(1, static_cast<char>(byte));
        ids[texts.back()] = static_cast<std::int32_t>(texts.size()) - 1;
    }
    std::vector<std::vector<std::int32_t>> words;
    for (const char* at = text.data(); at < text.data() + text.size();) {
        const char* stop = word_end(at, text.data() + text.size());
        words.emplace_back();
        for (; at < stop; ++at) {
            words.back().push_back(ids[std::string(1, *at)]);
        }
    }
    std::vector<std::pair<std::string, std::string>> merges;
    while (static_cast<i64>(merges.size()) < count) {
        std::map<std::pair<std::int32_t, std::int32_t>, i64> pairs;
        for (const auto& word : words) {
            for (std::size_t i = 0; i + 1 < word.size(); ++i) {
                ++pairs[{word[i], word[i + 1]}];
            }
        }
        std::pair<std::int32_t, std::int32_t> best;
        i64 most = 0;
        for (const auto& [pair, occurs] : pairs) {  // ascending, so the smallest of equals stays
            if (occurs > most) {
                most = occurs;
                best = pair;
            }
        }
        if (most < min_count) {
            break;
        }
        merges.emplace_back(texts[best.first], texts[best.second]);
        const std::string joined = texts[best.first] + texts[best.second];
        if (!ids.contains(joined)) {
            ids[joined] = static_cast<std::int32_t>(texts.size());
            texts.push_back(joined);
        }
        for (auto& word : words) {
            for (std::size_t i = 0; i + 1 < word.size(); ++i) {
                if (word[i] == best.first && word[i + 1] == best.second) {
                    word[i] = ids[joined];
                    word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
                }
            }
        }
    }
    return merges;
}

TEST(TrainBpe, AgreesWithCountingAnew) {
    std::mt19937 random(4);
    for (int round = 0; round < 20; ++round) {
        std::string text;
        for (int i = 0; i < 400; ++i) {
            text += round % 2 == 0 ? "aab "[random() % 4] : "abcde  \n1"[random() % 9];
        }
        WordCounts words;
        words.add(text);
        const TrainedBpe trained = train_bpe(words, 257 + 40, 2, {});
        std::vector<std::pair<std::string, std::string>> merges;
        for (const auto& merge : trained.merges) {
            merges.emplace_back(trained.texts[merge.left], trained.texts[merge.right]);
            EXPECT_EQ(trained.texts[merge.result], merges.back().first + merges.back().second);
        }
        EXPECT_EQ(merges, slow_merges(text, static_cast<i64>(merges.size()) + (merges.size() < 40 ? 1 : 0), 2)) << text;
    }
}

TEST(TrainBpe, FillsTheVocabularyOrSaysLess) {
    WordCounts words;
    words.add("abababab cdcdcd");
    const TrainedBpe trained = train_bpe(words, 300, 2, {});
    EXPECT_LT(trained.texts.size(), 300U);
    EXPECT_EQ(trained.texts.back(), "<|endoftext|>");
    EXPECT_EQ(trained.added.at(0).id, static_cast<std::int32_t>(trained.texts.size()) - 1);
    EXPECT_EQ(train_bpe(words, 258, 2, {}).merges.size(), 1U);
    EXPECT_EQ(train_bpe(words, 257, 2, {}).merges.size(), 0U);
    EXPECT_SAYS(message_of([&] { train_bpe(words, 256, 2, {}); }, ExitCode::usage), "at least 257");
}

TEST(TrainBpe, WritesATokenizerThatLoads) {
    const Folder folder;
    WordCounts words;
    const std::string text = "she sells sea shells, she says; sea's shore sells \"shells\" \\ \t\x01\xFF\n";
    words.add(text + text + text);
    const TrainedBpe trained = train_bpe(words, 300, 2, {});
    const auto path = folder.write("t.json", tokenizer_json(trained.texts, trained.merges, trained.added));
    const Tokenizer tokenizer = Tokenizer::load(path);
    EXPECT_EQ(tokenizer.vocab_size(), static_cast<i64>(trained.texts.size()));
    EXPECT_EQ(tokenizer.eod(), trained.added[0].id);
    const auto ids = tokenizer.encode(text);
    EXPECT_LT(ids.size(), text.size());
    EXPECT_EQ(tokenizer.decode(ids), text);
}

TEST(TrainBpe, LongWordsAreCountedInPieces) {
    WordCounts words;
    words.add(std::string(1000, 'x'));
    const auto counts = words.sorted();
    ASSERT_EQ(counts.size(), 2U);
    EXPECT_EQ(counts[0], (std::pair<std::string, i64>(std::string(232, 'x'), 1)));
    EXPECT_EQ(counts[1], (std::pair<std::string, i64>(std::string(256, 'x'), 3)));
}

}  // namespace

}  // namespace ogrom::data_test
