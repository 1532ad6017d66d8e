#include "src/io/manifest.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <xxhash.h>

#include "kernels/common/fault.h"

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/handle.h"
#include "src/base/json.h"
#include "src/io/checkpoint_folder.h"

namespace ogrom {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr i64 known_format = 1;
// JSON takes up to 16 times its text in memory, so the text is bounded by what the files of the folder can need.
constexpr i64 manifest_limit = i64{256} << 20, small_manifest = i64{1} << 20;
constexpr i64 text_of_file = 200, text_of_block = 50;  // bytes of the manifest, indentation included
constexpr i64 read_chunk = i64{512} << 10;

struct StateTraits {
    using type = XXH3_state_t*;
    static constexpr type empty = nullptr;
    static void destroy(type state) noexcept { XXH3_freeState(state); }
};
struct StreamTraits {
    using type = std::FILE*;
    static constexpr type empty = nullptr;
    static void destroy(type file) noexcept { std::fclose(file); }
};

[[noreturn]] void damaged(const std::string& path, const std::string& reason) {
    fail(ExitCode::checkpoint, fmt::format("{}: {}", path, reason));
}

// There, as far as one can see, but the system does not give it: no damage, and nothing to pass over.
[[noreturn]] void unreadable(const std::string& path, std::string_view action, int number) {
    throw FileError(
        ExitCode::checkpoint,
        fmt::format("{}: cannot be {}: {} (errno {})", path, action, std::generic_category().message(number), number),
        number);
}

// Only names that we write ourselves: nothing that leaves the folder.
bool plain_name(const std::string& name) {
    return name == master_name ||
           (name.size() >= 13 && name.starts_with("part-") && name.ends_with(".h5") &&
            std::all_of(name.begin() + 5, name.end() - 3, [](char c) { return c >= '0' && c <= '9'; }));
}

BlockHash parse_hash(const std::string& text, const std::string& path) {
    if (text.size() != 32 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
        damaged(path, fmt::format("'{}' is not a hash of 32 hex digits", text));
    }
    return {std::stoull(text.substr(0, 16), nullptr, 16), std::stoull(text.substr(16), nullptr, 16)};
}

std::vector<BlockHash> hash_blocks(const std::string& path, i64 first_byte, i64 bytes) {
    const Handle<StreamTraits> file(std::fopen(path.c_str(), "rbe"));
    if (!file || ::fseeko(file.get(), first_byte, SEEK_SET) != 0) {
        unreadable(path, "opened", errno);
    }
    BlockHasher hasher;
    std::vector<std::byte> buffer(static_cast<std::size_t>(std::clamp<i64>(bytes, 1, read_chunk)));
    while (bytes > 0) {
        const std::size_t want = static_cast<std::size_t>(std::min<i64>(bytes, static_cast<i64>(buffer.size())));
        const std::size_t got = std::fread(buffer.data(), 1, want, file.get());
        if (got == 0 && std::ferror(file.get()) != 0) {
            unreadable(path, "read", errno);
        }
        if (got == 0) {
            damaged(path, "ends early");
        }
        hasher.add(std::span(buffer).first(got));
        bytes -= static_cast<i64>(got);
    }
    return hasher.finish();
}

// A block of a file that this rank is to hash.
struct Block {
    std::string path;
    i64 first = 0, bytes = 0;
    BlockHash expected;
};

// The `share`th of `shares` stretches of all blocks in the order of the files. Where a run goes on under the layout
// that saved, a rank hashes about what it wrote: it reads that next, from the cache of its own node.
std::vector<Block> blocks_of(const std::string& folder, const Manifest& manifest, int share, int shares) {
    std::vector<Block> blocks;
    i64 total = 0, place = 0;
    for (const FileRecord& record : manifest.files) {
        total += static_cast<i64>(record.blocks.size());
    }
    const i64 from = total * share / shares, to = total * (share + 1) / shares;
    for (const FileRecord& record : manifest.files) {
        for (std::size_t block = 0; block < record.blocks.size(); ++block, ++place) {
            if (place >= from && place < to) {
                const i64 first = static_cast<i64>(block) * manifest_block_bytes;
                blocks.push_back({join_path(folder, record.file), first,
                                  std::min(manifest_block_bytes, record.bytes - first), record.blocks[block]});
            }
        }
    }
    return blocks;
}

// Lets the disk work on the next block while this one is hashed. A hint: whatever is wrong with the file shows when it
// is read.
void read_ahead(const Block& block) {
    const FileDescriptor file(::open(block.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file) {
        (void)::posix_fadvise(file.get(), block.first, block.bytes, POSIX_FADV_WILLNEED);
    }
}

}  // namespace

struct BlockHasher::Impl {
    Handle<StateTraits> state{XXH3_createState()};
    i64 in_block = 0;
    std::vector<BlockHash> blocks;

    void close_block() {
        const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
        blocks.push_back({hash.high64, hash.low64});
        XXH3_128bits_reset(state.get());
        in_block = 0;
    }
};

BlockHasher::BlockHasher() : impl_(std::make_unique<Impl>()) {
    XXH3_128bits_reset(impl_->state.get());
}
BlockHasher::~BlockHasher() = default;

void BlockHasher::add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const auto part =
            bytes.first(std::min(bytes.size(), static_cast<std::size_t>(manifest_block_bytes - impl_->in_block)));
        XXH3_128bits_update(impl_->state.get(), part.data(), part.size());
        impl_->in_block += static_cast<i64>(part.size());
        if (impl_->in_block == manifest_block_bytes) {
            impl_->close_block();
        }
        bytes = bytes.subspan(part.size());
    }
}

std::vector<BlockHash> BlockHasher::finish() {
    if (impl_->in_block > 0) {
        impl_->close_block();
    }
    return std::move(impl_->blocks);
}

std::string part_name(int writer) {
    return fmt::format("part-{:05d}.h5", writer);
}

std::string to_text(const Manifest& manifest) {
    json files = json::array();
    for (const FileRecord& record : manifest.files) {
        json blocks = json::array();
        for (const BlockHash& hash : record.blocks) {
            blocks.push_back(fmt::format("{:016x}{:016x}", hash.high, hash.low));
        }
        files.push_back({{"file", record.file}, {"bytes", record.bytes}, {"blocks", std::move(blocks)}});
    }
    return json{{"format", manifest.format},
                {"step", manifest.step},
                {"hash", "XXH3-128"},
                {"block_bytes", manifest_block_bytes},
                {"files", std::move(files)}}
               .dump(1) +
           "\n";
}

namespace {

void require_known_format(i64 format, const std::string& path) {
    if (format != known_format) {
        damaged(path, fmt::format("format {} is not known; this program reads format {}", format, known_format));
    }
}

}  // namespace

Manifest parse_manifest(const std::string& text, const std::string& path) {
    Manifest manifest;
    try {
        const json root = parse_json<json>(text, path, ExitCode::checkpoint);
        // A newer form may have other keys: its number comes first.
        require_known_format(root.at("format").get<i64>(), path);
        manifest.step = root.at("step").get<i64>();
        for (const json& entry : root.at("files")) {
            FileRecord record{entry.at("file").get<std::string>(), entry.at("bytes").get<i64>(), {}};
            for (const json& hash : entry.at("blocks")) {
                record.blocks.push_back(parse_hash(hash.get<std::string>(), path));
            }
            manifest.files.push_back(std::move(record));
        }
    } catch (const json::exception& error) {
        damaged(path, fmt::format("not a manifest: {}", error.what()));
    }
    std::set<std::string> names;
    for (const FileRecord& record : manifest.files) {
        if (!plain_name(record.file)) {
            damaged(path, fmt::format("'{}' is not a file of a checkpoint", record.file));
        }
        if (record.bytes < 0 ||
            ceil_div(record.bytes, manifest_block_bytes) != static_cast<i64>(record.blocks.size())) {
            damaged(path, fmt::format("{}: {} hashes for {} bytes", record.file, record.blocks.size(), record.bytes));
        }
        if (!names.insert(record.file).second) {
            damaged(path, fmt::format("{} is listed twice", record.file));
        }
    }
    if (!names.contains(master_name)) {
        damaged(path, fmt::format("{} is not listed", master_name));
    }
    if (to_text(manifest) != text) {
        damaged(path, "is not in the form that was written: a byte has changed");
    }
    return manifest;
}

namespace {

// Of the manifest of the files that stand in `folder`.
i64 longest_manifest(const std::string& folder) {
    i64 longest = small_manifest;
    for (const std::string& name : list_directory(folder)) {
        if (plain_name(name)) {
            longest +=
                text_of_file + ceil_div(file_size(join_path(folder, name)), manifest_block_bytes) * text_of_block;
        }
    }
    return std::min(longest, manifest_limit);
}

std::string manifest_text(const std::string& folder) {
    const std::string path = join_path(folder, manifest_name);
    const bool large = file_exists(path) && file_size(path) > small_manifest;
    return read_file(path, large ? longest_manifest(folder) : small_manifest);
}

}  // namespace

Manifest read_manifest(const std::string& folder) {
    return parse_manifest(manifest_text(folder), join_path(folder, manifest_name));
}

std::optional<i64> named_format(const std::string& folder) {
    try {
        const json root = parse_json<json>(manifest_text(folder), folder, ExitCode::checkpoint);
        return root.at("format").get<i64>();
    } catch (const json::exception&) {
        return std::nullopt;
    } catch (const Error&) {
        return std::nullopt;
    }
}

std::string incomplete_reason(const std::string& folder) {
    const std::string list = join_path(folder, manifest_name);
    if (!file_surely_exists(folder) || !is_directory(folder)) {
        return fmt::format("{}: is not a folder", folder);
    }
    if (!file_surely_exists(list)) {
        return fmt::format("{}: is missing: the save did not finish", list);
    }
    try {
        const Manifest manifest = read_manifest(folder);
        const std::optional<i64> named = step_of(fs::path(folder).filename().string());
        if (named && *named != manifest.step) {
            return fmt::format("{}: is of step {}, the folder is named for step {}: a copy or a renamed folder", list,
                               manifest.step, *named);
        }
        for (const FileRecord& record : manifest.files) {
            const std::string path = join_path(folder, record.file);
            if (!file_surely_exists(path)) {
                return fmt::format("{}: is missing", path);
            }
            if (const i64 bytes = file_size(path); bytes != record.bytes) {
                return fmt::format("{}: has {} bytes, the manifest says {}", path, bytes, record.bytes);
            }
        }
    } catch (const FileError& fault) {
        if (!fault.absent()) {
            throw;
        }
        return fault.what();
    } catch (const Error& fault) {
        return fault.what();
    }
    return {};
}

std::string verified_master(const std::string& folder) {
    Manifest manifest = read_manifest(folder);
    std::erase_if(manifest.files, [](const FileRecord& record) { return record.file != master_name; });
    const std::string path = join_path(folder, master_name);
    if (const i64 bytes = file_size(path); bytes != manifest.files.at(0).bytes) {
        damaged(path, fmt::format("has {} bytes, the manifest says {}", bytes, manifest.files[0].bytes));
    }
    (void)verify_manifest(folder, manifest, 0, 1);
    return path;
}

i64 verify_manifest(const std::string& folder, const Manifest& manifest, int share, int shares) {
    if (fault_active("manifest_not_checked")) {
        return 0;
    }
    const std::vector<Block> blocks = blocks_of(folder, manifest, share, shares);
    i64 bytes = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const Block& block = blocks[i];
        if (i + 1 < blocks.size()) {
            read_ahead(blocks[i + 1]);
        }
        const auto found = hash_blocks(block.path, block.first, block.bytes);
        bytes += block.bytes;
        if (found.at(0) != block.expected) {
            damaged(block.path,
                    fmt::format("block {} (bytes {} to {}) does not have the hash of the manifest: the file "
                                "was damaged after it was written",
                                block.first / manifest_block_bytes, block.first, block.first + block.bytes - 1));
        }
    }
    return bytes;
}

}  // namespace ogrom
