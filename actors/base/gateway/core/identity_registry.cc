#include "actors/base/gateway/core/identity_registry.h"

#include "proto/base/check.h"

namespace es::actors {

bool IdentityRegistry::claim(const PeerId& id, const std::string& key) {
  const auto [owner, is_new] = owners_.try_emplace(id, Owner{.key = key});
  if (!is_new && owner->second.key != key) return false;
  owner->second.left = 0;
  return true;
}

void IdentityRegistry::release(const PeerId& id) {
  const auto owner = owners_.find(id);
  ES_CHECK_MSG(owner != owners_.end() && owner->second.left == 0, id);
  owner->second.left = ++departure_count_;
  departures_.emplace_back(departure_count_, id);
  // The number of past owners is limited, so that clients with ever new ids do not fill the memory.
  if (departures_.size() <= kPastOwnersMax) return;
  const auto [departure, oldest] = std::move(departures_.front());
  departures_.pop_front();
  const auto past = owners_.find(oldest);
  // The id may have connected again after this departure, and may have left again.
  if (past != owners_.end() && past->second.left == departure) owners_.erase(past);
}

// What is left of them in departures_ does no harm: its numbers belong to no later departure.
void IdentityRegistry::forget_past(const std::function<bool(const std::string& key)>& is_revoked) {
  std::erase_if(owners_, [&](const auto& entry) {
    return entry.second.left != 0 && is_revoked(entry.second.key);
  });
}

const std::string* IdentityRegistry::owner(const PeerId& id) const {
  const auto found = owners_.find(id);
  return found == owners_.end() ? nullptr : &found->second.key;
}

}  // namespace es::actors
