#pragma once
// Finds the unknown word in a command line and the nearest known word.
#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace es::actors {

// Returns the word that needs the fewest changes to become `word`. A change inserts, removes or
// replaces a letter, or swaps two adjacent letters. If several words are equally near, it returns
// the first; if none is near, an empty text.
std::string nearest_word(const std::string& word, const std::vector<std::string>& known);

// `app` has refused a command line, or a key of its configuration file, with `refusal`. Returns a
// usage error that names the first unknown command, option, key or argument and the nearest known
// word of its kind. The message does not contain the program's name. Returns no value if the
// command line has another fault.
std::optional<Error> unknown_word(const CLI::App& app, const CLI::ParseError& refusal);

}  // namespace es::actors
