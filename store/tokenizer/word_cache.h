#pragma once
// WordCache: the ids of pieces that were encoded before. Its memory is bounded: when it is full, it
// forgets everything. Not thread-safe.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace es::store {

class WordCache {
 public:
  // Valid until the next call of add().
  std::optional<std::span<const std::uint32_t>> find(std::string_view piece) const {
    const auto at = places_.find(piece);
    if (at == places_.end()) return std::nullopt;
    return std::span(ids_).subspan(at->second.begin, at->second.count);
  }
  // Keeps the ids of a piece, unless it is long.
  void add(std::string_view piece, std::span<const std::uint32_t> ids) {
    if (piece.size() > kPieceBytesMax) return;
    if (places_.size() == kPiecesMax) {
      places_.clear();
      ids_.clear();
    }
    places_.emplace(piece, Place{ids_.size(), ids.size()});
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

 private:
  static constexpr std::size_t kPiecesMax = 1 << 16;
  static constexpr std::size_t kPieceBytesMax = 64;

  struct Place {
    std::size_t begin = 0, count = 0;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  std::unordered_map<std::string, Place, Hash, std::equal_to<>> places_;
  std::vector<std::uint32_t> ids_;
};

}  // namespace es::store
