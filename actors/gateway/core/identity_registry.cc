#include "actors/gateway/core/identity_registry.h"

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

}  // namespace es::actors
