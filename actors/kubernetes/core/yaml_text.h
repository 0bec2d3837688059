#pragma once
// An object of JSON as YAML in blocks; texts are in quotes, as in JSON.
#include <string>

#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

std::string yaml_text(const Json& object);

}  // namespace es::actors::kubernetes
