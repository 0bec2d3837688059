#include "proto/base/digest.h"

#define XXH_STATIC_LINKING_ONLY  // for XXH3_generateSecret_fromSeed
#include <xxhash.h>

#include <charconv>
#include <cstdio>
#include <new>

#include "proto/base/check.h"
#include "proto/base/digest_secret.h"

namespace es {

struct DigestBuilder::State {
  // On the heap and from the library, because the state needs an alignment of 64 bytes.
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
};

std::string Digest::hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

std::optional<Digest> Digest::parse(std::string_view text) {
  constexpr std::size_t kHalfDigits = 16;
  if (text.size() != 2 * kHalfDigits) return std::nullopt;
  const auto half = [&](std::size_t at, std::uint64_t& value) {
    const char* begin = text.data() + at;
    return std::from_chars(begin, begin + kHalfDigits, value, 16).ptr == begin + kHalfDigits;
  };
  Digest digest;
  if (!half(0, digest.high) || !half(kHalfDigits, digest.low)) return std::nullopt;
  if (digest.hex() != text) return std::nullopt;  // the text had upper-case digits
  return digest;
}

DigestBuilder::DigestBuilder() : state_(std::make_unique<State>()) {}
DigestBuilder::~DigestBuilder() = default;
DigestBuilder::DigestBuilder(DigestBuilder&&) noexcept = default;
DigestBuilder& DigestBuilder::operator=(DigestBuilder&&) noexcept = default;

void DigestBuilder::add(std::span<const std::byte> bytes) {
  add(bytes.data(), bytes.size());
}

void DigestBuilder::add(const void* data, std::size_t bytes) {
  ES_CHECK(XXH3_128bits_update(state_->xxh, data, bytes) == XXH_OK);
}

void DigestBuilder::add_text(std::string_view text) {
  // The length first, so that "ab", "c" and "a", "bc" have different digests.
  add_u64(text.size());
  add(text.data(), text.size());
}

void DigestBuilder::add_u64(std::uint64_t value) {
  // Little endian on every machine, so that a digest does not depend on the machine.
  unsigned char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(value >> (8 * i));
  add(bytes, sizeof bytes);
}

// Does not change the state, so bytes may be added afterwards. The result is that of digest_of()
// for all bytes at once, in whatever pieces they were added.
Digest DigestBuilder::finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.high64, hash.low64};
}

Digest digest_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

DigestSecret digest_secret() {
  DigestSecret secret;
  static_assert(sizeof secret == XXH3_SECRET_DEFAULT_SIZE);
  XXH3_generateSecret_fromSeed(secret.data(), 0);  // seed 0 gives the default secret
  return secret;
}

Digest digest_of(std::string_view text) {
  return digest_of(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace es
