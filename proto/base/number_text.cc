#include "proto/base/number_text.h"

#include <charconv>
#include <cmath>

namespace es {

std::string number_text(double value) {
  constexpr double kFixedFrom = 1e-4, kFixedBelow = 1e15;
  const double size = std::fabs(value);
  const bool is_fixed = size == 0 || (size >= kFixedFrom && size < kFixedBelow);
  // to_chars without a precision writes the shortest text that reads back as the same number. The
  // longest fixed text has a sign, "0.000" and 17 digits; without the bounds above it could have
  // more than 300 characters.
  char text[64];
  const auto format = is_fixed ? std::chars_format::fixed : std::chars_format::general;
  const auto written = std::to_chars(text, text + sizeof text, value, format);
  return {text, written.ptr};
}

}  // namespace es
