#pragma once
// A check of numbers on the command line. Range checks accept NaN, since every comparison with it
// is false.
#include <CLI/CLI.hpp>

#include <cmath>
#include <string>

namespace es::actors {

// For every option with a floating-point value, in addition to its range: refuses NaN and infinity.
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
