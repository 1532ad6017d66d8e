#include "src/data/content_hash.h"

#include <fmt/core.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ogrom {

namespace {

std::string text_of(XXH128_hash_t hash) {
    return fmt::format("xxh3-128:{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

struct ContentHasher::Impl {
    alignas(64) XXH3_state_t state;
};

std::string content_hash(std::string_view bytes) {
    return text_of(XXH3_128bits(bytes.data(), bytes.size()));
}

ContentHasher::ContentHasher() : impl_(std::make_unique<Impl>()) {
    XXH3_128bits_reset(&impl_->state);
}
ContentHasher::~ContentHasher() = default;
void ContentHasher::add(std::string_view bytes) {
    XXH3_128bits_update(&impl_->state, bytes.data(), bytes.size());
}
std::string ContentHasher::value() const {
    return text_of(XXH3_128bits_digest(&impl_->state));
}

std::uint64_t seeded_hash(std::string_view bytes, std::uint64_t seed) {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace ogrom
