// Files that are not what they were, or no files at all: two writers of one set, a set damaged under its record, a set
// that shrinks while it is read, pipes and dangling links among texts.
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "src/data/documents.h"
#include "src/data/ingest.h"
#include "src/data/mapped_file.h"

#include "fixtures.h"

namespace ogrom::data_test {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& folder) {
    return list_directory(folder);
}

TEST(TwoWriters, TheSecondIsRefusedByTheNameOfTheFirst) {
    const Folder folder;
    const std::string prefix = folder.at("s");
    {
        TokenSetWriter first(prefix, Tokenizer::byte_level(), "byte");
        const std::vector<std::int32_t> ids = {1, 2, 3};
        first.add(ids);
        // The same place by another name.
        const std::string message =
            message_of([&] { TokenSetWriter(folder.at("./s"), Tokenizer::byte_level(), "byte"); }, ExitCode::usage);
        EXPECT_SAYS(message, fmt::format("in use by process {} on", ::getpid()));
        EXPECT_SAYS(message, "two jobs cannot write one token set");
        first.finish({});
    }
    TokenSet(prefix).verify(0);
    EXPECT_EQ(names_in(folder.at(".")), (std::vector<std::string>{"s.bin", "s.idx", "s.json"}));
}

TEST(TwoWriters, WhatAKilledJobLeftIsClearedByTheNext) {
    const Folder folder;
    folder.write("s.lock", "elsewhere 999999999 1 2026-01-01T00:00:00Z\n");
    for (const char* name : {"s.bin.tmp", "s.idx.tmp", "s.idx.lengths.tmp", "s.json.4711.tmp"}) {
        folder.write(name, "left over");
    }
    // Not of this prefix, or no temporary name of ours.
    for (const char* name : {"s-valid.bin.tmp", "s.json.notes.tmp", "s.tmp"}) {
        folder.write(name, "mine");
    }
    {
        TokenSetWriter writer(folder.at("s"), Tokenizer::byte_level(), "byte");
        EXPECT_SAYS(writer.replaced(), "process 999999999 on elsewhere");
        const std::vector<std::int32_t> ids = {7};
        writer.add(ids);
        writer.finish({});
    }
    EXPECT_EQ(names_in(folder.at(".")),
              (std::vector<std::string>{"s-valid.bin.tmp", "s.bin", "s.idx", "s.json", "s.json.notes.tmp", "s.tmp"}));
}

TEST(TwoWriters, HeldOutDocumentsNeverGoToTheSamePrefix) {
    const Folder folder;
    std::string text;
    for (int i = 0; i < 40; ++i) {  // all on one side: 2^-39
        text += fmt::format("document {}\n\n", i);
    }
    folder.write("t.txt", text);
    fs::create_directory(folder.at("link-target"));
    fs::create_directory_symlink(folder.at("link-target"), folder.at("link"));
    const auto refused = [&](const std::string& out, const std::string& valid) {
        IngestOptions options;
        options.inputs = {folder.at("t.txt")};
        options.documents.split = SplitBy::blank_lines;
        options.tokenizer = "byte";
        options.prefix = out;
        options.valid_fraction = 0.5;
        options.valid_prefix = valid;
        return message_of([&] { ingest(options, {}); }, ExitCode::usage);
    };
    EXPECT_SAYS(refused(folder.at("s"), folder.at("./s")), "are the same prefix");
    EXPECT_SAYS(refused(folder.at("s"), folder.at("link/../s")), "are the same prefix");
    EXPECT_SAYS(refused(folder.at("link/s"), folder.at("link-target/s")), "are the same prefix");
    EXPECT_SAYS(refused(folder.at("new/s"), folder.at("new/../new/s")), "are the same prefix");
    EXPECT_EQ(refused(folder.at("new/s"), folder.at("other/s")), "");
}

TEST(OutputFiles, AFolderInTheirPlaceIsFoundBeforeAnythingIsWritten) {
    const Folder folder;
    fs::create_directory(folder.at("s.idx"));
    EXPECT_SAYS(
        message_of([&] { TokenSetWriter(folder.at("s"), Tokenizer::byte_level(), "byte"); }, ExitCode::checkpoint),
        "s.idx: is a folder");
    EXPECT_EQ(names_in(folder.at(".")), std::vector<std::string>{"s.idx"});
}

TEST(DamagedSet, OneFlippedByteIsFoundWhenTheSetIsOpened) {
    const Folder folder;
    write_set(folder.at("s"), Tokenizer::byte_level(), numbered_documents(50, 8));
    write_set(folder.at("twin"), Tokenizer::byte_level(), numbered_documents(50, 8));
    for (const char* ending : {".bin", ".idx"}) {
        const std::string path = folder.at("s") + ending;
        std::string bytes = read_file(path, 1 << 20);
        // In .idx the last byte is part of the document table; of the ids any byte will do.
        bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
        folder.write(std::string("s") + ending, bytes);
        const std::string message = message_of([&] { TokenSet(folder.at("s")); });
        EXPECT_FALSE(message.empty()) << ending;
        if (std::string(ending) == ".bin") {
            EXPECT_SAYS(message, "ogrom data --check " + folder.at("s"));
            EXPECT_SAYS(message_of([&] { TokenSet(folder.at("s"), OpenCheck::counts).verify(0); }),
                        "s.bin: content hash is");
        }
        fs::copy_file(folder.at("twin") + ending, path, fs::copy_options::overwrite_existing);
        TokenSet(folder.at("s")).verify(0);
    }
}

TEST(DamagedSet, TheIdsOfAnotherSetOfEqualSizeDoNotPass) {
    const Folder folder;
    auto documents = numbered_documents(300, 4001);  // 2.4 MB: sampled, not read whole
    write_set(folder.at("s"), Tokenizer::byte_level(), documents);
    for (auto& document : documents) {
        document[17] ^= 1;
    }
    write_set(folder.at("other"), Tokenizer::byte_level(), documents);
    ASSERT_EQ(file_size(folder.at("s.bin")), file_size(folder.at("other.bin")));
    TokenSet(folder.at("s"));
    fs::rename(folder.at("other.bin"), folder.at("s.bin"));
    EXPECT_EQ(message_of([&] { TokenSet(folder.at("s"), OpenCheck::counts); }), "");
    EXPECT_SAYS(message_of([&] { TokenSet(folder.at("s")); }), "s.bin: content hash is");
}

TEST(DamagedSet, RecordsOfOlderProgramsStillOpen) {
    const Folder folder;
    write_set(folder.at("s"), Tokenizer::byte_level(), {{1, 2}});
    std::string record = read_file(folder.at("s.json"), 1 << 20);
    const std::size_t at = record.find(",\n \"sample_hash\"");
    ASSERT_NE(at, std::string::npos);
    folder.write("s.json", record.substr(0, at) + "\n}\n");
    EXPECT_EQ(TokenSet(folder.at("s")).record()->sample_hash, "");
}

TEST(DamagedSet, AJobStoppedBetweenItsFilesIsNoSetOfAnotherProgram) {
    const Folder folder;
    write_set(folder.at("s"), Tokenizer::byte_level(), {{1, 2}});
    fs::remove(folder.at("s.json"));
    TokenSet(folder.at("s"));  // of another program
    folder.write("s.lock", "host 1 1 now\n");
    EXPECT_SAYS(message_of([&] { TokenSet(folder.at("s")); }), "s.lock is there");
}

// In a child: the handler ends the process.
TEST(ShrunkFile, EndsTheProcessWithItsNameAndTheCodeOfADataFault) {
    const Folder folder;
    const std::string path = folder.write("s.bin", std::string(1 << 20, 'x'));
    int ends[2] = {};
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        const MappedFile other(folder.write("other", "y"), MappedFile::Access::random);
        const MappedFile file(path, MappedFile::Access::random);
        if (truncate(path.c_str(), 100) != 0) {
            _exit(1);
        }
        _exit(file.data()[1 << 19] == 'x' ? 10 : 11);
    }
    close(ends[1]);
    std::string said;
    char bytes[512];
    for (ssize_t got = 0; (got = read(ends[0], bytes, sizeof(bytes))) > 0;) {
        said.append(bytes, static_cast<std::size_t>(got));
    }
    close(ends[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
    EXPECT_SAYS(said, path + ": the file became shorter");
}

// A fault that no mapped file explains ends the process as it always did.
TEST(ShrunkFile, OtherFaultsArePassedOn) {
    const Folder folder;
    const std::string path = folder.write("s.bin", "bytes");
    const pid_t child = fork();
    if (child == 0) {
        const MappedFile file(path, MappedFile::Access::random);
        std::raise(SIGBUS);
        std::raise(SIGBUS);
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) << status;
}

TEST(Inputs, PipesDanglingLinksAndLoopsAreRefusedByName) {
    const Folder folder;
    const auto refused = [&] { return message_of([&] { list_inputs({folder.at("texts")}, InputFormat::automatic); }); };
    fs::create_directory(folder.at("texts"));
    folder.write("texts/a.txt", "text");
    ASSERT_EQ(refused(), "");
    ASSERT_EQ(::mkfifo(folder.at("texts/pipe").c_str(), 0600), 0);
    EXPECT_SAYS(refused(), folder.at("texts/pipe") + ": a pipe");
    // Also where the caller did not look first: opening must not wait for a writer.
    EXPECT_SAYS(message_of([&] { MappedFile(folder.at("texts/pipe"), MappedFile::Access::random); }),
                "not a regular file");
    EXPECT_SAYS(message_of([&] { read_file(folder.at("texts/pipe"), 100); }, ExitCode::checkpoint), "is a pipe");
    fs::remove(folder.at("texts/pipe"));
    fs::create_symlink("nowhere", folder.at("texts/dangling"));
    EXPECT_SAYS(refused(), folder.at("texts/dangling") + ": a link to something that does not exist");
    EXPECT_SAYS(refused(), "give the files by name (--input folder/*.txt)");
    fs::remove(folder.at("texts/dangling"));
    fs::create_directory_symlink("..", folder.at("texts/up"));
    EXPECT_SAYS(refused(), "a link to a folder that holds it");
    fs::remove(folder.at("texts/up"));
    // The same folder twice, side by side, is no loop; its files are read once.
    fs::create_directory(folder.at("texts/sub"));
    folder.write("texts/sub/b.txt", "text");
    fs::create_directory_symlink("sub", folder.at("texts/sub2"));
    i64 again = -1;
    EXPECT_EQ(list_inputs({folder.at("texts")}, InputFormat::automatic, &again).size(), 2u);
    EXPECT_EQ(again, 1);
    // A link before its file, a hard link and a name given twice: the file's own name is kept.
    fs::create_symlink("a.txt", folder.at("texts/0.jsonl"));
    fs::create_hard_link(folder.at("texts/a.txt"), folder.at("texts/b.txt"));
    const auto files = list_inputs({folder.at("texts"), folder.at("texts/a.txt")}, InputFormat::automatic, &again);
    ASSERT_EQ(files.size(), 2u);
    EXPECT_EQ(again, 4);
    EXPECT_EQ(files[0].path, folder.at("texts/a.txt"));
    EXPECT_EQ(files[0].format, InputFormat::text);
}

TEST(HeldOut, AllOfTheDocumentsIsSaidInThoseWords) {
    const Folder folder;
    IngestOptions options;
    options.inputs = {folder.write("t.txt", "one document")};
    options.tokenizer = "byte";
    options.prefix = folder.at("s");
    options.valid_fraction = 1 - 1e-9;
    EXPECT_SAYS(message_of([&] { ingest(options, {}); }), "holds out all 1 documents");
    EXPECT_EQ(names_in(folder.at(".")), std::vector<std::string>{"t.txt"});
}

TEST(OtherTokenizer, IsSaidBeforeTheSizeOfTheVocabulary) {
    const Folder folder;
    write_set(folder.at("train"), Tokenizer::byte_level(), numbered_documents(40, 8));
    std::vector<std::optional<std::string>> texts;
    for (int b = 0; b < 256; ++b) {
        texts.emplace_back(std::string(1, static_cast<char>(static_cast<unsigned char>(b))));
    }
    std::vector<AddedToken> added = {{"<x>", 256, AddedToken::Kind::special},
                                     {"<|endoftext|>", 257, AddedToken::Kind::special}};
    texts.emplace_back("<x>");
    texts.emplace_back("<|endoftext|>");
    write_set(folder.at("valid"), Tokenizer::from_parts(std::move(texts), {}, std::move(added)),
              numbered_documents(40, 8));
    DataConfig data;
    data.train = folder.at("train");
    data.valid = folder.at("valid");
    data.tokenizer = "byte";
    EXPECT_SAYS(message_of([&] { Sampler(data, 8, 257, SplitPart::valid); }), "but data.tokenizer = \"byte\"");
}

}  // namespace

}  // namespace ogrom::data_test
