#include "actors/kubernetes/core/conditions.h"

namespace es::actors::kubernetes {

void set_condition(Json& conditions, const Json& before, const std::string& type,
                   const std::string& status, const std::string& reason, const std::string& message,
                   std::int64_t generation, const std::string& now) {
  std::string since = now;
  for (const Json& old : before)
    if (text_at(old, {"type"}) == type && text_at(old, {"status"}) == status)
      since = text_at(old, {"lastTransitionTime"});
  conditions.push_back({{"type", type},
                        {"status", status},
                        {"reason", reason},
                        {"message", message},
                        {"lastTransitionTime", since},
                        {"observedGeneration", generation}});
}

}  // namespace es::actors::kubernetes
