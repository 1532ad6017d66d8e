// Tokenizer files: both forms of merges, and the refusal by name of everything malformed or not built (B35, B37, B38).
#include <nlohmann/json.hpp>

#include "src/data/tokenizer_file.h"

#include "fixtures.h"

namespace ogrom::data_test {

namespace {

using Json = nlohmann::json;

// Bytes, then "ab", "abc", "<|endoftext|>".
Json good_json() {
    std::vector<std::string> texts;
    for (const unsigned char byte : bytes_by_symbol()) {
        texts.emplace_back(1, static_cast<char>(byte));
    }
    texts.insert(texts.end(), {"ab", "abc", "<|endoftext|>"});
    const auto id = [&](const std::string& text) {
        return static_cast<std::int32_t>(std::find(texts.begin(), texts.end(), text) - texts.begin());
    };
    return Json::parse(tokenizer_json(texts, {{id("a"), id("b"), 256}, {256, id("c"), 257}},
                                      {{"<|endoftext|>", 258, AddedToken::Kind::special}}));
}

class TokenizerLoad : public testing::Test {
protected:
    Tokenizer load(const std::string& text) { return Tokenizer::load(folder_.write("t.json", text)); }
    Tokenizer load(const Json& json) { return load(json.dump()); }
    std::string refusal(const Json& json) {
        return message_of([&] { load(json); });
    }
    // good_json() with the value at `pointer` replaced.
    static Json with(const std::string& pointer, const Json& value) {
        Json json = good_json();
        json[Json::json_pointer(pointer)] = value;
        return json;
    }
    Folder folder_;
};

TEST_F(TokenizerLoad, BothFormsOfMergesReadAlike) {
    const Tokenizer pairs = load(good_json());
    const Tokenizer strings = load(with("/model/merges", {"a b", "ab c"}));
    EXPECT_EQ(pairs.identity(), strings.identity());
    EXPECT_EQ(pairs.vocab_size(), 259);
    EXPECT_EQ(strings.encode("abcab"), (std::vector<std::int32_t>{257, 256}));
}

TEST_F(TokenizerLoad, AcceptsWhatDoesNotChangeIds) {
    const auto identity = load(good_json()).identity();
    EXPECT_EQ(load(with("/model/unk_token", "<|endoftext|>")).identity(), identity);
    EXPECT_EQ(load(with("/model/continuing_subword_prefix", "")).identity(), identity);
    EXPECT_EQ(load(with("/added_tokens/0/normalized", true)).identity(), identity);
    EXPECT_EQ(load(with("/post_processor", {{"type", "ByteLevel"}, {"trim_offsets", false}})).identity(), identity);
    const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    Json split = {{"type", "Split"}, {"behavior", "Isolated"}, {"invert", false}};
    split["pattern"]["Regex"] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
    Json sequence = {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level})}};
    EXPECT_EQ(load(with("/pre_tokenizer", sequence)).identity(), identity);
    split["pattern"]["Regex"] = R"(\p{N}{1,3})";
    sequence["pretokenizers"][0] = split;
    EXPECT_SAYS(refusal(with("/pre_tokenizer", sequence)), "'pattern' =");
}

TEST_F(TokenizerLoad, RefusesWhatIsNotBuiltByName) {
    EXPECT_SAYS(refusal(with("/normalizer", {{"type", "NFC"}})), R"('normalizer' = {"type":"NFC"} is not built)");
    EXPECT_SAYS(refusal(with("/pre_tokenizer", {{"type", "Metaspace"}})), "pre_tokenizer: type 'Metaspace'");
    EXPECT_SAYS(refusal(with("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", Json::array()}})),
                "'Sequence'");
    EXPECT_SAYS(refusal(with("/pre_tokenizer/add_prefix_space", true)), "'add_prefix_space'");
    EXPECT_SAYS(refusal(with("/pre_tokenizer/use_regex", false)), "'use_regex' = false");
    EXPECT_SAYS(refusal(with("/pre_tokenizer/new_option", 1)), "'new_option' is not known");
    EXPECT_SAYS(refusal(with("/pre_tokenizer", nullptr)), "'pre_tokenizer' is missing");
    EXPECT_SAYS(refusal(with("/decoder", {{"type", "Metaspace"}})), "decoder: type 'Metaspace'");
    EXPECT_SAYS(refusal(with("/post_processor", {{"type", "TemplateProcessing"}})), "'TemplateProcessing'");
    EXPECT_SAYS(refusal(with("/truncation", {{"max_length", 8}})), "'truncation'");
    EXPECT_SAYS(refusal(with("/model/type", "Unigram")), R"('type' = "Unigram")");
    EXPECT_SAYS(refusal(with("/model/byte_fallback", true)), "'byte_fallback' = true");
    EXPECT_SAYS(refusal(with("/model/ignore_merges", true)), "'ignore_merges' = true");
    EXPECT_SAYS(refusal(with("/model/dropout", 0.1)), "'dropout' = 0.1");
    EXPECT_SAYS(refusal(with("/model/end_of_word_suffix", "</w>")), "'end_of_word_suffix'");
    EXPECT_SAYS(refusal(with("/something", 1)), "'something' is not known");
    for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
        EXPECT_SAYS(refusal(with(std::string("/added_tokens/0/") + flag, true)),
                    std::string("added_tokens[0]: '") + flag + "' = true is not built");
    }
}

TEST_F(TokenizerLoad, RefusesMalformedMergesByIndex) {
    const auto merges = [&](const Json& list) { return refusal(with("/model/merges", list)); };
    EXPECT_SAYS(merges({"a b", "ab"}), "model.merges[1]: 'ab' is not a merge");
    EXPECT_SAYS(merges({"a b c"}), "model.merges[0]: 'a b c' is not a merge");
    EXPECT_SAYS(merges(Json::array({Json::array({"a", "b", "c"})})), "model.merges[0]:");
    EXPECT_SAYS(merges(Json::array({Json::array({"a", 1})})), "model.merges[0]:");
    EXPECT_SAYS(merges({"a b", "ab c", "a b"}), "model.merges[2]: merge 'a b' stood already at");
    EXPECT_SAYS(merges({"a b", "ab q"}), "'abq' is not in the vocabulary");
    EXPECT_SAYS(merges({" b"}), "neither of them empty");
    EXPECT_SAYS(merges({{"a", "b"}}), "must be a list");
}

TEST_F(TokenizerLoad, RefusesBadIds) {
    EXPECT_SAYS(refusal(with("/model/vocab/abc", 256)), "id 256 has two names");
    EXPECT_SAYS(refusal(with("/model/vocab/abc", -1)), "id -1 is out of range");
    EXPECT_SAYS(refusal(with("/model/vocab/abc", i64{1} << 40)), "out of range");
    EXPECT_SAYS(refusal(with("/model/vocab/abc", 1.5)), "'abc': an id must be a whole number");
    EXPECT_SAYS(refusal(with("/model/vocab/abc", "7")), "whole number");
    EXPECT_SAYS(refusal(with("/added_tokens/0/id", 257)), "has id 257, the vocabulary gives it 258");
    Json twice = good_json();
    twice["added_tokens"].push_back(twice["added_tokens"][0]);
    EXPECT_SAYS(refusal(twice), "added_tokens[1]: added token '<|endoftext|>' stands twice");
    Json taken = good_json();
    taken["added_tokens"].push_back({{"id", 5}, {"content", "<x>"}});
    EXPECT_SAYS(refusal(taken), "id 5 has two names");
    Json missing = good_json();
    missing["model"]["vocab"].erase("z");
    EXPECT_SAYS(refusal(missing), "byte 0x7A has no id");
    std::string text = good_json().dump();
    text.insert(text.find("\"abc\":257"), "\"abc\":300,");
    EXPECT_SAYS(message_of([&] { load(text); }), "key \"abc\" stands twice");
    EXPECT_SAYS(message_of([&] { load(text.substr(0, 500)); }), "t.json: ");
    // A value of any other type is a fault of the file, whatever the key.
    for (const char* pointer : {"/pre_tokenizer/add_prefix_space", "/pre_tokenizer/use_regex", "/model/vocab/abc",
                                "/model/merges/0", "/added_tokens/0/id", "/added_tokens/0/special", "/decoder/type"}) {
        for (const Json& odd : {Json("x"), Json(1e30), Json::array({1}), Json{{"a", 1}}}) {
            EXPECT_NE(refusal(with(pointer, odd)), "") << pointer << " = " << odd;
        }
    }
}

TEST_F(TokenizerLoad, GapsAreStatedAndSizeIsLargestIdPlusOne) {
    const Tokenizer tokenizer = load(with("/model/vocab/abc", 300));
    EXPECT_EQ(tokenizer.vocab_size(), 301);
    ASSERT_EQ(tokenizer.report().size(), 1U);
    EXPECT_SAYS(tokenizer.report()[0], "42 of the ids 0 .. 300 have no entry");  // 257, 259 .. 299
    EXPECT_EQ(tokenizer.encode("abc"), (std::vector<std::int32_t>{300}));
    EXPECT_SAYS(message_of([&] { (void)tokenizer.decode(std::vector<std::int32_t>{299}); }), "id 299 has no text");
    Json added = good_json();
    added["added_tokens"].push_back({{"id", 70000}, {"content", "<x>"}, {"special", true}});
    EXPECT_EQ(load(added).vocab_size(), 70001);
}

TEST_F(TokenizerLoad, MergesFileIsReadByLine) {
    const Json vocab = good_json()["model"]["vocab"];
    std::filesystem::create_directory(folder_.at("d"));
    folder_.write("d/vocab.json", vocab.dump());
    const auto load_merges = [&](const std::string& text) {
        folder_.write("d/merges.txt", text);
        return Tokenizer::load(folder_.at("d"));
    };
    const auto refused = [&](const std::string& text) { return message_of([&] { load_merges(text); }); };
    const auto identity = load_merges("#version: 0.2\na b\nab c\n").identity();
    EXPECT_EQ(load_merges("#version: 0.2\r\na b\r\nab c\r\n").identity(), identity);
    EXPECT_EQ(load_merges("a b\nab c").identity(), identity) << "no version, no end of line";
    EXPECT_EQ(load_merges("a b\nab c\n\n").identity(), identity) << "blank last line";
    EXPECT_SAYS(refused("#version: 0.2\na b\na\n"), "merges.txt:3: 'a' is not a merge");
    EXPECT_SAYS(refused("a b\n\nab c\n"), "merges.txt:2: '' is not a merge");
    EXPECT_SAYS(refused("a b c\n"), "merges.txt:1:");
    EXPECT_SAYS(refused("a b\nab c\na b\n"), "merges.txt:3: merge 'a b' stood already at");
    EXPECT_SAYS(refused("a b\nab \xC4\xB0\n"), "is not in the vocabulary");
    EXPECT_SAYS(message_of([&] { Tokenizer::load(folder_.at("nothing")); }), "no such tokenizer");
    std::filesystem::create_directory(folder_.at("empty"));
    EXPECT_SAYS(message_of([&] { Tokenizer::load(folder_.at("empty")); }), "holds neither");
}

}  // namespace

}  // namespace ogrom::data_test
