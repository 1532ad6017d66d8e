// Hash of contents for identities and integrity: XXH3-128 as "xxh3-128:" and 32 hex digits.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ogrom {

std::string content_hash(std::string_view bytes);

class ContentHasher {
public:
    ContentHasher();
    ~ContentHasher();
    void add(std::string_view bytes);
    [[nodiscard]] std::string value() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// 64 bits of (seed, bytes), for choices that follow the content.
std::uint64_t seeded_hash(std::string_view bytes, std::uint64_t seed);

}  // namespace ogrom
