#pragma once
// For tests: a device that is lost when it reaches a given step.
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "proto/base/ids.h"
#include "proto/base/result.h"

namespace es::actors::worker {

// Reads "NODE/TYPE:INDEX:STEP" and returns the step if the text names `device` ("NODE/TYPE:INDEX").
// An empty text returns no step. Error (usage): the text has another form.
inline Result<std::optional<Version>> parse_device_loss(std::string_view text,
                                                        std::string_view device) {
  if (text.empty()) return std::optional<Version>();
  const std::size_t colon = text.rfind(':');
  Version step = 0;
  const char* const end = text.data() + text.size();
  const auto read = colon == std::string_view::npos
                        ? std::from_chars_result{end, std::errc::invalid_argument}
                        : std::from_chars(text.data() + colon + 1, end, step);
  if (read.ec != std::errc() || read.ptr != end)
    return usage_error("ES_LOSE_DEVICE = \"" + std::string(text) +
                       "\": allowed is NODE/TYPE:INDEX:STEP");
  return text.substr(0, colon) == device ? std::optional(step) : std::nullopt;
}

}  // namespace es::actors::worker
