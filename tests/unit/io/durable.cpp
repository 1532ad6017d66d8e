// A file that goes past the page cache has the bytes and hashes of one that goes through it, whatever its length and
// the pieces that it comes in; a write that fails says so, wherever it fails.
#include "src/io/durable.h"

#include <cstring>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <vector>

#include "kernels/common/hash.h"

#include "tests/unit/io/support.h"

namespace ogrom {
namespace {

using test::Folder;

constexpr i64 block = direct_buffer_bytes / 2;

std::vector<std::byte> bytes_of(i64 count) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(u64)) {
        const u64 word = mix64(i + 1);
        std::memcpy(bytes.data() + i, &word, std::min(sizeof word, bytes.size() - i));
    }
    return bytes;
}

FileRecord write(const Disk& disk, const std::string& path, std::span<const std::byte> bytes, std::size_t piece) {
    DurableFile file(disk, path);
    while (!bytes.empty()) {
        const auto part = bytes.first(std::min(piece, bytes.size()));
        file.append(part);
        bytes = bytes.subspan(part.size());
        piece = piece == 0 ? 1 : piece;
    }
    return file.finish();
}

TEST(DurableFile, SameBytesPastThePageCacheAndThroughIt) {
    const Folder folder;
    int files = 0;
    for (const i64 length : {i64{0}, i64{1}, i64{4096}, block - 1, block, block + 1, 2 * block, 2 * block + 4096,
                             5 * block + 4097, (i64{64} << 20) + 3}) {
        const std::vector<std::byte> bytes = bytes_of(length);
        for (const std::size_t piece : {std::size_t{777'777}, std::size_t{5} << 20}) {
            std::vector<FileRecord> records;
            for (const bool direct : {true, false}) {
                Disk disk;
                disk.set_direct(direct);
                const std::string path = folder.path(fmt::format("f{}", files++));
                records.push_back(write(disk, path, bytes, piece));
                const std::string text = read_file(path, length + 1);
                ASSERT_EQ(static_cast<i64>(text.size()), length);
                EXPECT_TRUE(length == 0 || std::memcmp(text.data(), bytes.data(), bytes.size()) == 0)
                    << length << " bytes in pieces of " << piece << (direct ? ", direct" : "");
                std::filesystem::remove(path);
            }
            EXPECT_EQ(records[0].bytes, records[1].bytes);
            EXPECT_EQ(records[0].blocks, records[1].blocks);
        }
    }
}

// The nth write fails: of a block that is written while the next is filled, and of the rest.
TEST(DurableFile, AWriteThatFailsIsToldByAppendOrFinish) {
    const Folder folder;
    const std::vector<std::byte> bytes = bytes_of(3 * block + 5);
    for (int bad = 1; bad <= 4; ++bad) {
        int writes = 0;
        const Disk disk([&](const std::string& operation, const std::string&) {
            if (operation == "write" && ++writes == bad) {
                fail(ExitCode::checkpoint, fmt::format("write {}", bad));
            }
        });
        try {
            write(disk, folder.path(fmt::format("bad{}", bad)), bytes, std::size_t{1} << 20);
            ADD_FAILURE() << "write " << bad << " of " << writes << " failed and nobody said so";
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error.what()), fmt::format("write {}", bad));
        }
    }
}

}  // namespace
}  // namespace ogrom
