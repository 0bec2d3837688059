#pragma once
// Numbers that a user may give: NaN lies within every range, since no comparison with it holds.
#include <CLI/CLI.hpp>

#include <cmath>
#include <string>

namespace es::actors {

// For every option with a floating-point value, after its range: neither NaN nor infinity.
inline CLI::Validator finite_number() {
  return CLI::Validator(
      [](std::string& text) {
        double value = 0;
        const bool finite = CLI::detail::lexical_cast(text, value) && std::isfinite(value);
        return finite ? std::string() : text + ": allowed is a finite number";
      },
      "");
}

}  // namespace es::actors
