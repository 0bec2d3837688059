#pragma once
// URLs of services that programs write to, such as MLflow.
#include <string>

#include "proto/base/result.h"

namespace es {

// A text as part of a URL must not hold a user or a password, because URLs are shown in messages.
// Error (usage): names `option`; another scheme, no host, or a user name.
Status check_service_url(const std::string& option, const std::string& url);

}  // namespace es
