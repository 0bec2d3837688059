#pragma once
// IdentityRegistry: which CURVE key each PeerId belongs to. The first key that uses an id owns it
// while it is present, and after it left until kPastOwnersMax other ids have left since.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>

#include "actors/gateway/peer_id.h"

namespace es::actors {

inline constexpr std::size_t kPastOwnersMax = 4096;

class IdentityRegistry {
 public:
  // True, and the id is present, when nobody or the same key owns it.
  bool claim(const PeerId& id, const std::string& key);

  // The id left. REQUIRES: it is present.
  void release(const PeerId& id);

 private:
  struct Owner {
    std::string key;
    std::uint64_t left = 0;  // number of the departure; 0 while present
  };
  std::unordered_map<PeerId, Owner> owners_;
  std::deque<std::pair<std::uint64_t, PeerId>> departures_;  // oldest first
  std::uint64_t departure_count_ = 0;
};

}  // namespace es::actors
