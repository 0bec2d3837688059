#include "actors/kubernetes/core/lease.h"

namespace es::actors::kubernetes {

std::optional<Json> LeaseHolder::decide(const std::optional<Json>& found, Time now,
                                        const std::string& clock_text) {
  Json spec{{"holderIdentity", me_},
            {"leaseDurationSeconds", kDuration.count()},
            {"acquireTime", clock_text},
            {"renewTime", clock_text},
            {"leaseTransitions", 0}};
  if (!found) return Json{{"spec", std::move(spec)}};
  const std::string version = text_at(*found, {"metadata", "resourceVersion"});
  const std::string holder = text_at(*found, {"spec", "holderIdentity"});
  if (version != version_) {
    version_ = version;
    seen_ = now;
  }
  if (holder == me_) {
    spec["acquireTime"] = value_at(*found, {"spec", "acquireTime"}, clock_text);
    spec["leaseTransitions"] = value_at(*found, {"spec", "leaseTransitions"}, 0);
  } else {
    held_since_.reset();
    if (!holder.empty() && now < seen_ + kDuration) return {};
    spec["leaseTransitions"] = value_at(*found, {"spec", "leaseTransitions"}, 0) + 1;
  }
  return Json{{"metadata", {{"resourceVersion", version}}}, {"spec", std::move(spec)}};
}

}  // namespace es::actors::kubernetes
