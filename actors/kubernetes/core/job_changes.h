#pragma once
// What may not change of a job that the head has accepted. A new server refuses such a change by
// the rules of the definition (definitions.h). On an older one the change is found here. Pure.
#include <string>
#include <vector>

#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

// The specification without what may change, which is `devices` and `suspend`.
Json frozen_spec(const Json& job);

// "spec.maxP was 4 and is 8" for each field that differs from `submitted`, in the order of both.
std::vector<std::string> changes_since(const Json& submitted, const Json& job);

}  // namespace es::actors::kubernetes
