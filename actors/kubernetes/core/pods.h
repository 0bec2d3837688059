#pragma once
// What a pod says. Pure.
#include <string>

#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

inline bool is_ready(const Json& pod) {
  for (const Json& condition : value_at(pod, {"status", "conditions"}, Json::array()))
    if (text_at(condition, {"type"}) == "Ready") return text_at(condition, {"status"}) == "True";
  return false;
}

// "head", "agent" or "controller".
inline std::string component_of(const Json& pod) {
  return text_at(pod, {"metadata", "labels", kComponentLabel});
}

}  // namespace es::actors::kubernetes
