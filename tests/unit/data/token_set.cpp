// Token sets on disk: what the writer writes the reader gives back, and what is broken is refused by its first bad
// entry (field cases B25, B26, B28, B29).
#include "src/data/token_set.h"

#include "fixtures.h"

namespace ogrom::data_test {

namespace {

// A BPE tokenizer of the 256 bytes and added tokens up to `vocab` entries, the last of them <|endoftext|>.
Tokenizer tokenizer_of(i64 vocab) {
    std::vector<std::optional<std::string>> texts;
    std::vector<AddedToken> added;
    for (int b = 0; b < 256; ++b) {
        texts.emplace_back(std::string(1, static_cast<char>(static_cast<unsigned char>(b))));
    }
    for (i64 id = 256; id < vocab; ++id) {
        const std::string content = id + 1 == vocab ? "<|endoftext|>" : "<" + std::to_string(id) + ">";
        added.push_back({content, static_cast<std::int32_t>(id), AddedToken::Kind::special});
        texts.emplace_back(content);
    }
    return Tokenizer::from_parts(std::move(texts), {}, std::move(added));
}

std::vector<std::int32_t> whole(const TokenSet& set, i64 document) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(set.tokens_of(document)), -77);
    set.read(document, 0, set.tokens_of(document), ids.data());
    return ids;
}

TEST(TokenSet, KeepsDocumentsAndClosesEachOnce) {
    const Folder folder;
    const auto record = write_set(folder.at("s"), Tokenizer::byte_level(), {{1, 2, 3}, {}, {4}, {5, 256}, {256}});
    EXPECT_EQ(record.documents, 3);
    EXPECT_EQ(record.empty_documents, 2);  // {} and {256}: nothing but the end
    const TokenSet set(folder.at("s"));
    EXPECT_EQ(whole(set, 0), (std::vector<std::int32_t>{1, 2, 3, 256}));
    EXPECT_EQ(whole(set, 1), (std::vector<std::int32_t>{4, 256}));
    EXPECT_EQ(whole(set, 2), (std::vector<std::int32_t>{5, 256}));
    EXPECT_EQ(set.tokens(), 8);
    set.verify(0);
    EXPECT_FALSE(file_exists(folder.at("s.bin.tmp")));
    EXPECT_FALSE(file_exists(folder.at("s.idx.lengths.tmp")));
}

TEST(TokenSet, SaysWhatToDoAboutAMissingOne) {
    const Folder folder;
    write_set(folder.at("s"), Tokenizer::byte_level(), {{1, 2, 3}});
    EXPECT_SAYS(message_of([&] { TokenSet(folder.at("none")); }), "none.idx does not exist: no token set");
    EXPECT_SAYS(message_of([&] { TokenSet(folder.at("")); }), "make one: ogrom data");
    for (const char* ending : {".bin", ".idx", ".json"}) {
        EXPECT_SAYS(message_of([&] { TokenSet(folder.at("s") + ending); }), "without the ending: " + folder.at("s"));
    }
    for (const char* record : {"{", "[]", R"({"format": 1, "tokenizer": 5})"}) {
        folder.write("s.json", record);
        EXPECT_SAYS(message_of([&] { TokenSet(folder.at("s")); }), "s.json: not the record of a token set");
    }
}

TEST(TokenSet, EndInsideTextBeginsAnotherDocument) {
    const Folder folder;
    const auto record = write_set(folder.at("s"), Tokenizer::byte_level(), {{256, 1, 256, 256, 2, 3, 256}});
    EXPECT_EQ(record.documents, 2);
    EXPECT_EQ(record.tokens, 5);
    EXPECT_EQ(whole(TokenSet(folder.at("s")), 1), (std::vector<std::int32_t>{2, 3, 256}));
}

TEST(TokenSet, LongDocumentsAreSeveralSequences) {
    const Folder folder;
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 23; ++i) {
        ids.push_back(i);
    }
    write_set(folder.at("s"), Tokenizer::byte_level(), {{9}, ids, {8, 8}}, 7);
    const TokenSet set(folder.at("s"));
    ASSERT_EQ(set.documents(), 3);
    ids.push_back(256);
    EXPECT_EQ(whole(set, 1), ids);
    std::vector<std::int32_t> part(9, -77);
    set.read(1, 6, 9, part.data());  // crosses two borders of sequences
    EXPECT_EQ(part, (std::vector<std::int32_t>(ids.begin() + 6, ids.begin() + 15)));
    EXPECT_EQ(whole(set, 2), (std::vector<std::int32_t>{8, 8, 256}));
}

TEST(TokenSet, TypeFollowsTheLargestId) {
    const Folder folder;
    for (const i64 vocab : {i64{65499}, i64{65500}, i64{65535}, i64{65536}, i64{65537}, i64{119547}}) {
        const Tokenizer tokenizer = tokenizer_of(vocab);
        ASSERT_EQ(tokenizer.vocab_size(), vocab);
        const auto last = static_cast<std::int32_t>(vocab - 2);
        const auto ids = tokenizer.encode("a<" + std::to_string(last) + ">", Specials::parse);
        ASSERT_EQ(ids, (std::vector<std::int32_t>{'a', last}));
        const std::string prefix = folder.at("v" + std::to_string(vocab));
        write_set(prefix, tokenizer, {ids});
        EXPECT_EQ(read_file(prefix + ".idx", 1000)[17], vocab <= 65536 ? 8 : 4) << vocab;
        const TokenSet set(prefix);
        EXPECT_EQ(whole(set, 0), (std::vector<std::int32_t>{'a', last, static_cast<std::int32_t>(vocab - 1)}));
    }
}

TEST(TokenSet, WriterRefusesForeignIdsAndMissingEnd) {
    const Folder folder;
    const Tokenizer bytes = Tokenizer::byte_level();
    EXPECT_SAYS(message_of([&] { write_set(folder.at("s"), bytes, {{1}, {2}, {3, 257}}); }), "document 2: id 257");
    EXPECT_FALSE(file_exists(folder.at("s.bin"))) << "a failed writer leaves nothing";
    EXPECT_FALSE(file_exists(folder.at("s.bin.tmp")));
    std::vector<std::optional<std::string>> texts;
    for (int b = 0; b < 256; ++b) {
        texts.emplace_back(std::string(1, static_cast<char>(static_cast<unsigned char>(b))));
    }
    const Tokenizer without_end = Tokenizer::from_parts(texts, {}, {});
    EXPECT_SAYS(message_of([&] { write_set(folder.at("s"), without_end, {{1}}); }), "no end-of-document token");
    EXPECT_SAYS(message_of([&] { write_set(folder.at("s"), bytes, {{}, {}, {}}); }), "no tokens: 3 documents");
}

TEST(TokenSet, SparseFileBeyond2GiB) {
    const Folder folder;
    RawIndex index;
    index.lengths.assign(5, 500'000'000);
    index.documents = {0, 1, 2, 3, 4, 5};
    folder.write("s.idx", index.bytes());
    folder.write("s.bin", "");
    ASSERT_EQ(::truncate(folder.at("s.bin").c_str(), 5'000'000'000), 0);
    {
        std::fstream bin(folder.at("s.bin"), std::ios::in | std::ios::out | std::ios::binary);
        const std::uint16_t marks[] = {11, 12};
        bin.seekp(4'999'999'996);
        bin.write(reinterpret_cast<const char*>(marks), 4);
        bin.seekp(3'000'000'000);  // document 3 begins here, past 2^31
        bin.write(reinterpret_cast<const char*>(marks), 4);
    }
    const TokenSet set(folder.at("s"));
    EXPECT_EQ(set.tokens(), 2'500'000'000);
    std::int32_t ids[2] = {-77, -77};
    set.read(3, 0, 2, ids);
    EXPECT_EQ(ids[0], 11);
    EXPECT_EQ(ids[1], 12);
    set.read(4, 499'999'998, 2, ids);
    EXPECT_EQ(ids[0], 11);
    EXPECT_EQ(ids[1], 12);
    // Samples at both ends of the line of 2.5e9 tokens are whole.
    DataConfig data;
    data.train = folder.at("s");
    const i64 T = 1023;
    const Sampler sampler(data, T, 257, SplitPart::train);
    EXPECT_EQ(sampler.samples_per_epoch(), (2'500'000'000 - 1) / T);
    std::vector<std::int32_t> sample;
    const i64 far = 3'000'000'000;  // samples, epochs beyond the first thousand
    for (const i64 n : {i64{0}, sampler.samples_per_epoch() - 1, far}) {
        sampler.read(n, sample);
        EXPECT_EQ(sample.size(), static_cast<std::size_t>(T + 1));
    }
}

std::string refusal(const Folder& folder, const std::string& idx, i64 ids = 12) {
    folder.write("b.idx", idx);
    folder.write("b.bin", std::string(static_cast<std::size_t>(2 * ids), '\0'));
    return message_of([&] { TokenSet set(folder.at("b")); });
}

TEST(TokenSet, BrokenIndexIsRefusedByItsFirstBadEntry) {
    const Folder folder;
    const auto with = [](std::vector<std::int32_t> lengths, std::vector<i64> documents) {
        RawIndex index;
        index.lengths = std::move(lengths);
        index.documents = std::move(documents);
        return index;
    };
    const RawIndex good = with({5, 0, 7}, {0, 1, 2, 3});
    EXPECT_EQ(refusal(folder, good.bytes()), "");
    EXPECT_SAYS(refusal(folder, with({0, 0, 0}, {0, 1, 2, 3}).bytes()), "no tokens");
    EXPECT_SAYS(refusal(folder, with({}, {0}).bytes()), "no tokens");
    EXPECT_SAYS(refusal(folder, with({5, 0, 7}, {0, 1, 2}).bytes()), "document[2] = 2, the last entry");
    EXPECT_SAYS(refusal(folder, with({5, 0, 7}, {0, 2, 1, 3}).bytes()), "document[2] = 1 is not between");
    EXPECT_SAYS(refusal(folder, with({5, 0, 7}, {0, 1, 2, 9}).bytes()), "document[3] = 9");
    EXPECT_SAYS(refusal(folder, with({5, 0, 7}, {1, 2, 3}).bytes()), "document[0] must be 0");
    EXPECT_SAYS(refusal(folder, with({5, -1, 7}, {0, 1, 2, 3}).bytes()), "length[1] = -1");
    EXPECT_SAYS(refusal(folder, good.bytes(), 11), "sequence 2: 7 ids");
    RawIndex other = good;
    other.type = 9;
    EXPECT_SAYS(refusal(folder, other.bytes()), "type code 9");
    other = good;
    other.version = 2;
    EXPECT_SAYS(refusal(folder, other.bytes()), "version 2");
    EXPECT_SAYS(refusal(folder, good.bytes().substr(0, 90)), "do not make a file of 90 bytes");
    EXPECT_SAYS(refusal(folder, "MMIDIDX"), "not an index");
    std::string huge = good.bytes();
    const u64 lie = u64{1} << 62;  // x 12 wraps; nothing of that size may be allocated
    std::memcpy(huge.data() + 18, &lie, sizeof lie);
    EXPECT_SAYS(refusal(folder, huge), "4611686018427387904 sequences");
}

TEST(TokenSet, RecordMustBelongToTheFiles) {
    const Folder folder;
    write_set(folder.at("a"), Tokenizer::byte_level(), {{1, 2, 3}});
    write_set(folder.at("b"), Tokenizer::byte_level(), {{1, 2, 3, 4}});
    std::filesystem::copy_file(folder.at("a.json"), folder.at("b.json"),
                               std::filesystem::copy_options::overwrite_existing);
    EXPECT_SAYS(message_of([&] { TokenSet set(folder.at("b")); }), "belongs to another token set");
    EXPECT_NE(TokenSet(folder.at("a")).id(), "");
}

TEST(TokenSet, VerifyFindsOneFlippedBit) {
    const Folder folder;
    write_set(folder.at("a"), Tokenizer::byte_level(), {{1, 2, 3}, {4, 5}});
    std::string bytes = read_file(folder.at("a.bin"), 1000);
    bytes[2] = static_cast<char>(bytes[2] ^ 1);
    folder.write("a.bin", bytes);
    EXPECT_SAYS(message_of([&] { TokenSet(folder.at("a")).verify(0); }), "a.bin: content hash");
}

TEST(TokenSet, BadIdsAreNamedByPathDocumentAndPosition) {
    const Folder folder;
    const i64 T = 8;
    for (const std::int32_t bad : {50257, 50303, 65535, -1}) {
        RawIndex index;
        index.type = bad < 0 ? 4 : 8;
        index.lengths.assign(100, 9);
        for (i64 d = 0; d <= 100; ++d) {
            index.documents.push_back(d);
        }
        std::string bin;
        for (int i = 0; i < 900; ++i) {
            const std::int32_t id = i == 60 * 9 + 4 ? bad : i % 50000;
            index.type == 4 ? append(bin, id) : append(bin, static_cast<std::uint16_t>(id));
        }
        folder.write("s.idx", index.bytes());
        folder.write("s.bin", bin);
        DataConfig data;
        data.train = folder.at("s");
        const Sampler sampler(data, T, 50257, SplitPart::train);
        const std::string said = message_of([&] {
            Batch batch = make_batch(1, T);
            for (i64 n = 0; n < sampler.samples_per_epoch(); ++n) {
                sampler.fill(n, batch, 0);
            }
        });
        EXPECT_SAYS(said, folder.at("s.bin") + ": document 60, position 4: id " + std::to_string(bad));
        EXPECT_SAYS(said, "vocabulary of 50257");
        EXPECT_SAYS(message_of([&] { TokenSet(data.train).verify(50257); }), "document 60, position 4");
    }
}

}  // namespace

}  // namespace ogrom::data_test
