#pragma once
// Conditions of a status, as Kubernetes has them. Pure.
#include <cstdint>
#include <string>

#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

// Appends a condition to a list. Its time is that in the list `before` while its status stays.
void set_condition(Json& conditions, const Json& before, const std::string& type,
                   const std::string& status, const std::string& reason, const std::string& message,
                   std::int64_t generation, const std::string& now);

}  // namespace es::actors::kubernetes
