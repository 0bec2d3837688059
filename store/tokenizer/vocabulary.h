#pragma once
// Vocabulary: tokens and their ids, in both directions.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace es::store {

// Ids are smaller. They become inputs i32 of a model, and the table by ids has this many entries at
// most.
inline constexpr std::uint64_t kTokenIdsMax = std::uint64_t{1} << 24;

class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // Returns false if the token or the id is taken. REQUIRES: id < kTokenIdsMax.
  bool add(const std::string& token, std::uint32_t id) {
    if (id < by_id_.size() && by_id_[id] != nullptr) return false;
    const auto [at, added] = ids_.try_emplace(token, id);
    if (!added) return false;
    if (id >= by_id_.size()) by_id_.resize(id + std::size_t{1}, nullptr);
    by_id_[id] = &at->first;  // the map keeps its elements in place
    return true;
  }
  std::optional<std::uint32_t> find(std::string_view token) const {
    const auto at = ids_.find(token);
    return at == ids_.end() ? std::nullopt : std::optional(at->second);
  }
  // nullptr if no token has the id.
  const std::string* token(std::uint32_t id) const {
    return id < by_id_.size() ? by_id_[id] : nullptr;
  }
  // The largest id plus 1.
  std::uint32_t size() const { return static_cast<std::uint32_t>(by_id_.size()); }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> by_id_;
};

// The ids of the tokens <0x00>, <0x01>, ... that stand for the bytes of a text; nullopt if one of
// them is not in the vocabulary.
std::optional<std::vector<std::uint32_t>> byte_tokens(const Vocabulary& vocabulary,
                                                      std::string_view text);

}  // namespace es::store
