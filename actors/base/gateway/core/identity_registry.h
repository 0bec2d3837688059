#pragma once
// IdentityRegistry stores which CURVE key each PeerId belongs to. The first key that uses an id
// owns it while the id is present, and after it has left until kPastOwnersMax other ids have left
// or the key is revoked. The name of a node thus goes to its new key, and to no other key while the
// node is only away.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "actors/base/gateway/core/peer_id.h"

namespace es::actors {

inline constexpr std::size_t kPastOwnersMax = 4096;

class IdentityRegistry {
 public:
  // Returns true, and the id is present from now on, if the id has no owner or belongs to this key.
  bool claim(const PeerId& id, const std::string& key);

  // The id has left. REQUIRES: it is present.
  void release(const PeerId& id);

  // Forgets the past owners of which `is_revoked` says that their key does not count any more.
  void forget_past(const std::function<bool(const std::string& key)>& is_revoked);

  // The key that owns the id; nullptr: none does.
  const std::string* owner(const PeerId& id) const;

 private:
  struct Owner {
    std::string key;
    std::uint64_t left = 0;  // number of the departure; 0 while the id is present
  };
  std::unordered_map<PeerId, Owner> owners_;
  std::deque<std::pair<std::uint64_t, PeerId>> departures_;  // oldest first
  std::uint64_t departure_count_ = 0;
};

}  // namespace es::actors
