#pragma once
// The values of a Secret, which the server answers in base64.
#include <string>
#include <string_view>

#include "proto/base/result.h"

namespace es::actors::kubernetes {

// Error (failure): the text is not base64.
Result<std::string> from_base64(std::string_view text);

}  // namespace es::actors::kubernetes
