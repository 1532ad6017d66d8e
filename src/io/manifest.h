// manifest.json: what a complete checkpoint consists of. Written last; without it a folder is not a checkpoint.
//   {"block_bytes": 67108864, "files": [{"blocks": ["<32 hex digits>", ...], "bytes": n, "file": "part-00000.h5"},
//   ...],
//    "format": 1, "hash": "XXH3-128", "step": n}
// The text is canonical: a file that does not equal its own parse, written again, is refused (a flipped byte).
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/common/extents.h"

namespace ogrom {

constexpr i64 manifest_block_bytes = i64{64} << 20;
inline constexpr const char* manifest_name = "manifest.json";
inline constexpr const char* master_name = "checkpoint.h5";

struct BlockHash {
    u64 high = 0, low = 0;  // XXH3-128
    bool operator==(const BlockHash&) const = default;
};

struct FileRecord {
    std::string file;  // plain name inside the folder
    i64 bytes = 0;
    std::vector<BlockHash> blocks;  // one per 64 MiB
    bool operator==(const FileRecord&) const = default;
};

struct Manifest {
    int format = 1;
    i64 step = 0;
    std::vector<FileRecord> files;
};

class BlockHasher {
public:
    BlockHasher();
    ~BlockHasher();
    void add(std::span<const std::byte> bytes);
    std::vector<BlockHash> finish();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

std::string part_name(int writer);  // "part-00003.h5"
std::string to_text(const Manifest& manifest);
// Throws Error(checkpoint) naming `path` and what is wrong: syntax, format, names that leave the folder, block counts.
Manifest parse_manifest(const std::string& text, const std::string& path);
Manifest read_manifest(const std::string& folder);

// The number that the manifest gives, whatever else is in it; none where it gives none.
std::optional<i64> named_format(const std::string& folder);

// Why `folder` is not a complete checkpoint, "<file>: <reason>"; empty when it is. Looks at presence, sizes and the
// step only. Throws FileError where a file is there but the system does not give it: that says nothing of the
// checkpoint.
std::string incomplete_reason(const std::string& folder);
// Hashes the `share`th of `shares` stretches of all blocks; throws Error(checkpoint) with file and block of the first
// that differs. Returns the bytes that were hashed.
i64 verify_manifest(const std::string& folder, const Manifest& manifest, int share, int shares);
// The same for checkpoint.h5 alone, against the manifest beside it: before HDF5 is given bytes that a disk may have
// changed (it crashes on some). Returns the path of checkpoint.h5.
std::string verified_master(const std::string& folder);

}  // namespace ogrom
