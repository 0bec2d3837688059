#pragma once
// 128-bit digests (XXH3) of parameters, optimizer arrays, contexts and blocks of checkpoints. They
// detect differences and damage; they do not protect against a forger.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace es {

struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const Digest&) const = default;
  // 32 lower-case hexadecimal digits, the high half first.
  std::string hex() const;
  // The digest whose hex() equals `text`, or nullopt for any other text.
  static std::optional<Digest> parse(std::string_view text);
};

// Computes a digest of bytes in the order in which they are added. Not thread-safe; movable.
class DigestBuilder {
 public:
  DigestBuilder();
  ~DigestBuilder();
  DigestBuilder(DigestBuilder&&) noexcept;
  DigestBuilder& operator=(DigestBuilder&&) noexcept;

  void add(std::span<const std::byte> bytes);
  void add(const void* data, std::size_t bytes);
  // Adds the length of the text (64 bits, little endian) and then its bytes, so that two adjacent
  // fields cannot be confused with two others.
  void add_text(std::string_view text);
  void add_u64(std::uint64_t value);
  Digest finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest digest_of(std::span<const std::byte> bytes);
Digest digest_of(std::string_view text);

}  // namespace es
