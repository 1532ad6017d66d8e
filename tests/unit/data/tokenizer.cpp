// Text to ids and back: the words of GPT-2's pattern, merges, special tokens (B34, B37), losslessness, published ids.
#include "src/data/tokenizer.h"

#include <nlohmann/json.hpp>
#include <random>

#include "src/data/bpe.h"
#include "src/data/pretokenize.h"
#include "src/data/tokenizer_file.h"
#include "src/data/train_bpe.h"
#include "src/data/unicode.h"

#include "fixtures.h"

namespace ogrom::data_test {

namespace {

constexpr std::string_view some_text =
    "The rain it raineth every day, and the rain falls on the just and on the unjust fellow.\n"
    "But chiefly on the just, because the unjust hath the just's umbrella. It's 1234 times as wet; we'll see, don't "
    "I?\n"
    "naïve café, the naïve café and the other café: ünder the überbrücke   \n\n\n\tab\tab\tab\n";

TrainedBpe trained(i64 vocab = 400) {
    WordCounts words;
    words.add(some_text);
    return train_bpe(words, vocab, 2, {});
}

Tokenizer small_bpe(std::vector<AddedToken> more = {}) {
    TrainedBpe bpe = trained();
    std::vector<std::optional<std::string>> texts(bpe.texts.begin(), bpe.texts.end());
    for (auto& token : more) {
        token.id = static_cast<std::int32_t>(texts.size());
        texts.emplace_back(token.content);
        bpe.added.push_back(token);
    }
    return Tokenizer::from_parts(std::move(texts), bpe.merges, bpe.added);
}

std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end) {
        const char* const stop = word_end(at, end);
        words.emplace_back(at, stop);
        at = stop;
    }
    return words;
}

using Words = std::vector<std::string>;
using Ids = std::vector<std::int32_t>;

TEST(Pretokenize, FollowsThePattern) {
    EXPECT_EQ(words_of("Hello world"), (Words{"Hello", " world"}));
    EXPECT_EQ(words_of("  two   blanks  "), (Words{" ", " two", "  ", " blanks", "  "}));
    EXPECT_EQ(words_of("a\n\nb \n c\t\td"), (Words{"a", "\n", "\n", "b", " \n", " c", "\t", "\t", "d"}));
    EXPECT_EQ(words_of("don't I'M we'll'x 's"),
              (Words{"don", "'t", " I", "'", "M", " we", "'ll", "'", "x", " '", "s"}));
    EXPECT_EQ(words_of("a1b 23!? 4"), (Words{"a", "1", "b", " 23", "!?", " 4"}));
    EXPECT_EQ(words_of("x '"), (Words{"x", " '"}));
    EXPECT_EQ(words_of("é\u00A0\u2003ж ²Ⅳ٣"), (Words{"é", "\u00A0", "\u2003", "ж", " ²Ⅳ٣"}));
    EXPECT_EQ(words_of("e\u0301 x"), (Words{"e", "\u0301", " x"})) << "a combining mark is no letter";
    EXPECT_EQ(words_of("\u2029 \uA3E4"), (Words{"\u2029", " \uA3E4"}));
    EXPECT_EQ(words_of("a\xF4"
                       "b \x80\xFF!"),
              (Words{"a", "\xF4", "b", " \x80\xFF!"}))
        << "no valid UTF-8: class other";
    EXPECT_EQ(words_of("a\x1C"
                       "b"),
              (Words{"a", "\x1C", "b"}))
        << "U+001C is no White_Space";
}

TEST(Pretokenize, ClassesOfUnicode) {
    i64 counts[4] = {0, 0, 0, 0};
    for (u32 point = 0; point < 0x110000; ++point) {
        ++counts[static_cast<int>(class_of(point))];
    }
    // Unicode 14.0: 131,756 letters (L*), 1,791 numbers (N*), 25 White_Space characters.
    EXPECT_EQ(counts[1], 131'756);
    EXPECT_EQ(counts[2], 1'791);
    EXPECT_EQ(counts[3], 25);
}

TEST(Unicode, RefusesWhatUtf8Forbids) {
    const std::string bad[] = {"\x80",         "\xC0\xAF",         "\xC1\x80",         "\xE0\x80\x80",
                               "\xED\xA0\x80", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
                               "\xE2\x82",     "\xF0\x9F\x98"};
    for (const auto& bytes : bad) {
        const std::string text = "plain ASCII before " + bytes + " and after";
        EXPECT_EQ(first_invalid_utf8(text), 19) << testing::PrintToString(bytes);
    }
    std::string out;
    EXPECT_EQ(replace_invalid_utf8("a\xF4"
                                   "A\xE2\x82",
                                   out),
              3);
    EXPECT_EQ(out, "a\uFFFDA\uFFFD\uFFFD");
}

TEST(Tokenizer, EveryCodePointAndEveryBytePairComesBack) {
    for (const Tokenizer& tokenizer : {small_bpe(), Tokenizer::byte_level()}) {
        Encoder encoder(tokenizer);
        Ids ids;
        const auto back = [&](std::string_view text) {
            ids.clear();
            encoder.encode(text, Specials::as_text, ids);
            return tokenizer.decode(ids) == text;
        };
        std::string text;
        for (u32 point = 0; point < 0x110000; ++point) {
            text.clear();
            append_utf8(point, text);  // surrogates too: invalid bytes, kept
            ASSERT_TRUE(back(text)) << point;
        }
        for (int pair = 0; pair < 65536; ++pair) {
            const char bytes[] = {static_cast<char>(pair >> 8), static_cast<char>(pair & 255)};
            ASSERT_TRUE(back({bytes, 2})) << pair;
        }
        std::mt19937 random(1);
        for (int i = 0; i < 2000; ++i) {
            std::string noise(random() % 100, '\0');
            for (char& c : noise) {
                c = static_cast<char>(random() % 3 == 0 ? random() & 255 : "ab '\nthe"[random() % 8]);
            }
            ASSERT_TRUE(back(noise));
        }
    }
}

TEST(Tokenizer, CachedAndFreshWordsGiveTheSameIds) {
    const Tokenizer tokenizer = small_bpe();
    Encoder warm(tokenizer);
    std::mt19937 random(2);
    for (int i = 0; i < 3000; ++i) {
        const std::size_t from = random() % some_text.size();
        const std::string text(some_text.substr(from, random() % 60));
        Ids ids;
        warm.encode(text, Specials::as_text, ids);
        EXPECT_EQ(ids, tokenizer.encode(text)) << text;
    }
}

TEST(Bpe, ScanAndHeapAgree) {
    const TrainedBpe bpe = trained(500);
    const BpeModel model({bpe.texts.begin(), bpe.texts.end()}, bpe.merges, bpe.added);
    std::mt19937 random(3);
    for (int i = 0; i < 500; ++i) {
        std::string word(1 + random() % 200, ' ');
        for (char& c : word) {
            c = "abcdefnrstuh "[random() % (i % 2 == 0 ? 3 : 13)];
        }
        Ids scan, heap;
        model.encode_word_by_scan(word, scan);
        model.encode_word_by_heap(word, heap);
        ASSERT_EQ(scan, heap) << word;
    }
}

TEST(Bpe, LongWordIsNotQuadratic) {
    // 2 million letters in one word: by scanning this would take hours.
    std::string word;
    while (word.size() < 2'000'000) {
        word += "theunjustfellow";
    }
    const Tokenizer tokenizer = small_bpe();
    const Ids ids = tokenizer.encode(word);
    EXPECT_LT(ids.size(), word.size() / 2);
    EXPECT_EQ(tokenizer.decode(ids), word);
}

TEST(Tokenizer, SpecialTextIsPlainUnlessAsked) {
    const Tokenizer bpe = small_bpe();
    const std::int32_t end = bpe.eod().value();
    EXPECT_EQ(end + 1, bpe.vocab_size());
    const std::string text = "a<|endoftext|>b";
    for (const Tokenizer& tokenizer : {bpe, Tokenizer::byte_level()}) {
        const auto eod = tokenizer.eod().value();
        const Ids plain = tokenizer.encode(text);
        EXPECT_EQ(std::count(plain.begin(), plain.end(), eod), 0);
        EXPECT_EQ(tokenizer.decode(plain), text);
        EXPECT_EQ(tokenizer.encode(text, Specials::parse),
                  (Ids{tokenizer.encode("a")[0], eod, tokenizer.encode("b")[0]}));
        EXPECT_EQ(tokenizer.encode("<|endoftext|><|endoftext|>", Specials::parse), (Ids{eod, eod}));
        EXPECT_EQ(tokenizer.encode("<|endoftext", Specials::parse), tokenizer.encode("<|endoftext"));
        EXPECT_EQ(tokenizer.decode(Ids{eod}), "<|endoftext|>");
    }
}

TEST(Tokenizer, AddedTokensAreTakenWholeTheLongestFirst) {
    const Tokenizer tokenizer = small_bpe({{"<a>", 0, AddedToken::Kind::plain},
                                           {"<a>b", 0, AddedToken::Kind::plain},
                                           {"<|x|>", 0, AddedToken::Kind::special}});
    const auto n = static_cast<std::int32_t>(tokenizer.vocab_size());
    const std::int32_t blank = tokenizer.encode(" ")[0];
    EXPECT_EQ(tokenizer.encode(" <a> "), (Ids{blank, n - 3, blank}));
    EXPECT_EQ(tokenizer.encode("<a>b<a>"), (Ids{n - 2, n - 3}));
    EXPECT_EQ(tokenizer.encode(" <|x|> ", Specials::parse), (Ids{blank, n - 1, blank}));
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(" <a>b <|x|>")), " <a>b <|x|>");
}

TEST(Tokenizer, DecodeNamesTheIdWithoutText) {
    EXPECT_SAYS(message_of([] {
                    (void)Tokenizer::byte_level().decode(Ids{65, 257});
                }),
                "position 1: id 257 has no text");
    EXPECT_SAYS(message_of([] { (void)Tokenizer::byte_level().decode(Ids{-1}); }), "id -1");
}

TEST(Tokenizer, IdentityFollowsTheContentNotTheFile) {
    const Folder folder;
    const TrainedBpe bpe = trained();
    const std::string text = tokenizer_json(bpe.texts, bpe.merges, bpe.added);
    const Tokenizer json = Tokenizer::load(folder.write("tokenizer.json", text));
    EXPECT_EQ(json.identity(), small_bpe().identity());
    nlohmann::json vocab;
    std::string merges = "#version: 0.2\r\n";
    for (std::size_t id = 0; id < bpe.texts.size(); ++id) {
        const bool special = id + 1 == bpe.texts.size();
        vocab[special ? bpe.texts[id] : symbol_of_bytes(bpe.texts[id])] = id;
    }
    for (const auto& merge : bpe.merges) {
        merges += symbol_of_bytes(bpe.texts[merge.left]) + " " + symbol_of_bytes(bpe.texts[merge.right]) + "\r\n";
    }
    std::filesystem::create_directory(folder.at("gpt2"));
    folder.write("gpt2/encoder.json", vocab.dump());
    folder.write("gpt2/vocab.bpe", merges);
    const Tokenizer pair = Tokenizer::load(folder.at("gpt2"));
    EXPECT_EQ(pair.identity(), json.identity());
    EXPECT_EQ(pair.encode(some_text), json.encode(some_text));
    EXPECT_NE(json.identity(), Tokenizer::byte_level().identity());
    TrainedBpe swapped = bpe;
    std::swap(swapped.merges[0], swapped.merges[1]);
    const auto other = folder.write("other.json", tokenizer_json(swapped.texts, swapped.merges, swapped.added));
    EXPECT_NE(Tokenizer::load(other).identity(), json.identity());
}

// What an export of a byte-level run carries along (io/hf_export) is the tokenizer that is built in.
TEST(Tokenizer, AFileOfBytesAndTheEndIsTheByteLevel) {
    const Folder folder;
    std::vector<std::string> texts;
    texts.reserve(258);
    for (int byte = 0; byte < 256; ++byte) {
        texts.emplace_back(1, static_cast<char>(byte));
    }
    texts.emplace_back("<|endoftext|>");
    const std::vector<AddedToken> end = {{"<|endoftext|>", 256, AddedToken::Kind::special}};
    const auto identity_of = [&](const std::vector<std::string>& all, const std::vector<AddedToken>& added) {
        return Tokenizer::load(folder.write("tokenizer.json", tokenizer_json(all, {}, added))).identity();
    };
    const std::string byte = Tokenizer::byte_level().identity();
    EXPECT_EQ(identity_of(texts, end), byte);
    std::vector<std::string> swapped = texts, more = texts;
    std::swap(swapped[65], swapped[66]);
    more.emplace_back("<|pad|>");
    EXPECT_NE(identity_of(swapped, end), byte);
    EXPECT_NE(identity_of(more, {end[0], {"<|pad|>", 257, AddedToken::Kind::special}}), byte);
    EXPECT_NE(identity_of(texts, {{"<|endoftext|>", 256, AddedToken::Kind::plain}}), byte);
}

TEST(Tokenizer, PublishedIdsOfGpt2) {
    const std::string folder = shared_folder();
    if (folder.empty()) {
        GTEST_SKIP() << "no shared/ folder (OGROM_SHARED) with GPT-2's files";
    }
    const Tokenizer tokenizer = Tokenizer::load(folder + "/data/gpt2");
    EXPECT_EQ(tokenizer.vocab_size(), 50257);
    EXPECT_EQ(tokenizer.eod(), 50256);
    const auto cases = nlohmann::json::parse(read_file(folder + "/data/gpt2/cases.json", 1 << 20));
    ASSERT_GT(cases.size(), 20U);
    for (const auto& one : cases) {
        const auto text = one["text"].get<std::string>();
        EXPECT_EQ(tokenizer.encode(text), one["ids"].get<Ids>()) << text;
        EXPECT_EQ(tokenizer.decode(one["ids"].get<Ids>()), text);
    }
}

}  // namespace

}  // namespace ogrom::data_test
