// Corpora into documents and token sets (field cases B28, B31).
#include "src/data/documents.h"

#include "src/data/ingest.h"

#include "fixtures.h"

namespace ogrom::data_test {

namespace {

using Texts = std::vector<std::string>;

struct Read {
    Texts texts;
    i64 replaced = 0, skipped = 0;
    Texts messages;
};

Read read_all(const Texts& paths, const DocumentOptions& options) {
    DocumentReader reader(list_inputs(paths, options.format), options);
    Read read;
    for (std::string text; reader.next(text);) {
        read.texts.push_back(text);
    }
    read.replaced = reader.replaced();
    read.skipped = reader.skipped();
    read.messages = reader.skip_messages();
    return read;
}

JsonlLine parse(std::string_view line, InvalidText policy, std::string& text) {
    return read_jsonl_line(line, "text", policy, text);
}

TEST(Jsonl, ReadsTheMember) {
    std::string text;
    const std::pair<std::string, std::string> good[] = {
        {R"({"text":"a b"})", "a b"},
        {R"( { "id" : [1, -2.5e+3, {"text":"no"}, true, false, null] , "text" : "x\n\"\\\/\b\f\r\ty" } )",
         "x\n\"\\/\b\f\r\ty"},
        {R"({"text":"\u00e9\u2028\ud83d\ude00\u0000z"})", std::string("é\u2028😀\0z", 11)},
        {"{\"text\":\"raw \xE2\x80\xA8 \xC2\x85 \r \v \f \"}", "raw \u2028 \u0085 \r \v \f "},
        {R"({"text":""})", ""},
        {R"({"t\u0065xt":"named by an escape"})", "named by an escape"}};
    for (const auto& [line, wanted] : good) {
        const JsonlLine result = parse(line, InvalidText::error, text);
        EXPECT_EQ(result.fault, "") << line;
        EXPECT_EQ(text, wanted);
    }
}

TEST(Jsonl, NamesTheFaultAndItsByte) {
    std::string text;
    const std::tuple<std::string, std::string, i64> bad[] = {{R"({"text":"a"} {"text":"b"})", "something follows", 13},
                                                             {R"({"x":1})", "no member \"text\"", 7},
                                                             {R"({"text":null})", "is not a string", 8},
                                                             {R"({"text":7})", "is not a string", 8},
                                                             {R"(["a"])", "an object is missing", 0},
                                                             {R"({"text":"a)", "ends inside a string", 10},
                                                             {R"({"text":"a\x"})", "unknown escape", 10},
                                                             {R"({"text":"a\u12g4"})", "four hexadecimal", 10},
                                                             {R"({"text":"a","text":"b"})", "stands twice", 19},
                                                             {R"({"a":01,"text":""})", "not a JSON value", 7},
                                                             {R"({"a":tru,"text":""})", "not a JSON value", 5},
                                                             {R"({"text":"\ud800x"})", "half of a surrogate", 9},
                                                             {R"({"text":"\udc00"})", "half of a surrogate", 9},
                                                             {"{\"text\":\"ab\xF4"
                                                              "A\"}",
                                                              "invalid UTF-8 (0xF4)", 11},
                                                             {std::string(600, '['), "an object is missing", 0}};
    for (const auto& [line, fault, at] : bad) {
        const JsonlLine result = parse(line, InvalidText::error, text);
        EXPECT_SAYS(result.fault, fault);
        EXPECT_EQ(result.at, at) << line;
    }
    const std::string deep = "{\"a\":" + std::string(100000, '[');
    EXPECT_SAYS(parse(deep, InvalidText::error, text).fault, "nested more than");
    EXPECT_EQ(parse("{\"text\":\"ab\xF4"
                    "A\\ud800\"}",
                    InvalidText::replace, text)
                  .replaced,
              2);
    EXPECT_EQ(text, "ab\uFFFDA\uFFFD");
}

TEST(Documents, JsonLinesAreCutAtLineFeedsOnly) {
    const Folder folder;
    const std::string long_text(50 << 20, 'y');
    const auto path = folder.write("c.jsonl",
                                   "\xEF\xBB\xBF{\"text\":\"one\"}\r\n"
                                   "{\"text\":\"two \xE2\x80\xA8 \xC2\x85\"}\n"
                                   "{\"text\":\"bad \xF4"
                                   "A\"}\n"
                                   "{\"text\":\"half \\ud800\"}\n"
                                   "\n"
                                   "{\"text\":\"a\"}{\"text\":\"b\"}\n"
                                   "{\"text\":\"zero \\u0000\"}\n"
                                   "{\"text\":\"" +
                                       long_text +
                                       "\"}\n"
                                       "{\"text\":\"last\"}");
    DocumentOptions options;
    EXPECT_SAYS(message_of([&] { read_all({path}, options); }), "c.jsonl:3: byte 54: invalid UTF-8 (0xF4)");
    options.on_invalid = InvalidText::skip;
    const Read skipped = read_all({path}, options);
    EXPECT_EQ(skipped.texts, (Texts{"one", "two \u2028 \u0085", std::string("zero \0", 6), long_text, "last"}));
    EXPECT_EQ(skipped.skipped, 3);
    ASSERT_EQ(skipped.messages.size(), 3U);
    EXPECT_SAYS(skipped.messages[1], "c.jsonl:4: byte");
    EXPECT_SAYS(skipped.messages[2], "c.jsonl:6: byte");
    options.on_invalid = InvalidText::replace;
    // A broken line cannot be replaced.
    EXPECT_SAYS(message_of([&] { read_all({path}, options); }), "c.jsonl:6: byte");
}

TEST(Documents, Utf16IsRefused) {
    const Folder folder;
    const std::string texts[] = {std::string("\xFF\xFE{\0\"\0", 6), std::string("\xFE\xFF\0{", 4),
                                 std::string("{\0\"\0t\0", 6), std::string("\0{\0\"", 4)};
    for (const auto& text : texts) {
        const auto path = folder.write("u.jsonl", text);
        EXPECT_SAYS(message_of([&] { read_all({path}, {}); }), "UTF-16 text");
    }
}

TEST(Documents, TextIsCutAsAsked) {
    const Folder folder;
    const auto path = folder.write("t.txt", "\xEF\xBB\xBFone\nline\n%\n%\ntwo\r\n%\r\n\n \t\nthree % %\f four\n%\n");
    DocumentOptions options;
    EXPECT_EQ(read_all({path}, options).texts.size(), 1U);
    options.split = SplitBy::line;
    options.separator = "%";
    EXPECT_EQ(read_all({path}, options).texts, (Texts{"one\nline\n", "", "two\r\n", "\n \t\nthree % %\f four\n"}));
    options.split = SplitBy::form_feed;
    EXPECT_EQ(read_all({path}, options).texts.at(1), " four\n%\n");
    options.split = SplitBy::blank_lines;
    EXPECT_EQ(read_all({path}, options).texts, (Texts{"one\nline\n%\n%\ntwo\r\n%\r\n", "three % %\f four\n%\n"}));
}

TEST(Documents, FoldersAreWalkedInOrder) {
    const Folder folder;
    std::filesystem::create_directories(folder.at("d/b"));
    folder.write("d/z.txt", "last");
    folder.write("d/a.txt", "first");
    folder.write("d/b/x.ndjson", "{\"text\":\"middle\"}\n");
    folder.write("d/b/y.txt", "");
    folder.write("d/.hidden", "no");
    EXPECT_EQ(read_all({folder.at("d")}, {}).texts, (Texts{"first", "middle", "", "last"}));
    EXPECT_SAYS(message_of([&] { read_all({folder.at("none")}, {}); }), "no such file");
    std::filesystem::create_directory(folder.at("e"));
    EXPECT_SAYS(message_of([&] { read_all({folder.at("e")}, {}); }), "holds no file");
}

TEST(Documents, InvalidTextByPolicy) {
    const Folder folder;
    const auto path = folder.write("t.txt", "good\n%\nbad \xFF here\n%\ngood too\n");
    DocumentOptions options;
    options.split = SplitBy::line;
    options.separator = "%";
    EXPECT_SAYS(message_of([&] { read_all({path}, options); }), "t.txt:3: byte 11: invalid UTF-8 (0xFF)");
    options.on_invalid = InvalidText::replace;
    EXPECT_EQ(read_all({path}, options).texts.at(1), "bad \uFFFD here\n");
    options.on_invalid = InvalidText::skip;
    const Read read = read_all({path}, options);
    EXPECT_EQ(read.texts, (Texts{"good\n", "good too\n"}));
    EXPECT_EQ(read.skipped, 1);
}

class IngestTest : public testing::Test {
protected:
    IngestTest() {
        std::string text;
        for (int i = 0; i < 400; ++i) {
            text += "document " + std::to_string(i % 350) + "\n%\n";  // 50 of them twice
        }
        options_.inputs = {folder_.write("c.txt", text)};
        options_.documents.split = SplitBy::line;
        options_.documents.separator = "%";
        options_.tokenizer = "byte";
        options_.prefix = folder_.at("out/c");
        options_.threads = 2;
    }
    static Texts texts_of(const std::string& prefix) {
        const TokenSet set(prefix);
        Texts texts;
        for (i64 d = 0; d < set.documents(); ++d) {
            std::vector<std::int32_t> ids(static_cast<std::size_t>(set.tokens_of(d)));
            set.read(d, 0, set.tokens_of(d), ids.data());
            EXPECT_EQ(ids.back(), 256) << "each document is closed";
            ids.pop_back();
            EXPECT_EQ(std::count(ids.begin(), ids.end(), 256), 0) << "once";
            texts.push_back(Tokenizer::byte_level().decode(ids));
        }
        return texts;
    }
    Folder folder_;
    IngestOptions options_;
};

TEST_F(IngestTest, WholeDocumentsAreHeldOutAndEqualOnesTogether) {
    options_.valid_fraction = 0.2;
    const auto report = ingest(options_, {});
    ASSERT_TRUE(report.valid.has_value());
    const Texts train = texts_of(options_.prefix), valid = texts_of(options_.prefix + "-valid");
    EXPECT_EQ(train.size() + valid.size(), 400U);
    EXPECT_NEAR(static_cast<double>(valid.size()), 80, 50);  // 5 standard deviations, sqrt(400 x 0.16) x 1.2
    for (const auto& text : valid) {
        EXPECT_EQ(std::count(train.begin(), train.end(), text), 0) << text;
    }
    options_.threads = 1;
    options_.prefix = folder_.at("again");
    EXPECT_EQ(ingest(options_, {}).train.hash, report.train.hash) << "whatever the number of threads";
    options_.seed = 1;
    EXPECT_NE(ingest(options_, {}).train.hash, report.train.hash);
}

TEST_F(IngestTest, InputIsNeverOverwrittenAndAFolderIsNoPrefix) {
    const std::string text = folder_.write("notes.json", "my only copy");
    options_.inputs = {text};
    options_.prefix = folder_.at("./notes");
    EXPECT_SAYS(message_of([&] { ingest(options_, {}); }, ExitCode::usage), "would be overwritten");
    options_.prefix = folder_.at("other");
    options_.valid_prefix = folder_.at("notes");
    options_.valid_fraction = 0.5;
    EXPECT_SAYS(message_of([&] { ingest(options_, {}); }, ExitCode::usage), "would be overwritten");
    EXPECT_EQ(read_file(text, 100, ExitCode::data), "my only copy");
    options_.prefix = folder_.at("");
    EXPECT_SAYS(message_of([&] { ingest(options_, {}); }, ExitCode::usage), "names a folder");
    EXPECT_FALSE(file_exists(folder_.at(".bin")));
}

TEST_F(IngestTest, EmptyAndBadInputIsCountedOrRefused) {
    options_.inputs = {folder_.write("e.jsonl", "{\"text\":\"\"}\n{\"text\":\"\"}\n{\"text\":\"\"}\n")};
    EXPECT_SAYS(message_of([&] { ingest(options_, {}); }), "no tokens: 3 documents were empty");
    EXPECT_FALSE(file_exists(options_.prefix + ".bin"));
    options_.inputs = {
        folder_.write("f.jsonl", "{\"text\":\"\"}\n{\"text\":\"a\"}\n{\"x\":1}\n{\"text\":null}\n{\"text\":1}\n")};
    EXPECT_SAYS(message_of([&] { ingest(options_, {}); }), "f.jsonl:3: byte");
    options_.documents.on_invalid = InvalidText::skip;
    const auto report = ingest(options_, {});
    EXPECT_EQ(report.train.documents, 1);
    EXPECT_EQ(report.train.empty_documents, 1);
    EXPECT_EQ(report.train.skipped, 3);
    options_.valid_fraction = 1e-9;
    EXPECT_SAYS(message_of([&] { ingest(options_, {}); }), "holds out none of the 1 documents");
}

}  // namespace

}  // namespace ogrom::data_test
