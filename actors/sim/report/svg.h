#pragma once
// Parts of SVG texts. Pure.
#include <string>

namespace es::actors::simulator {

// With four significant digits.
std::string decimal(double value);
// Text between tags or in an attribute.
std::string escaped(const std::string& text);

}  // namespace es::actors::simulator
