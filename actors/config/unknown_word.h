#pragma once
// What a command line says that no program knows, and the nearest word that it does know.
#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace es::actors {

// The word that the fewest changes make `word` (a letter more, less or another, two letters that
// change places); of several the first. Empty: none of them is near.
std::string nearest_word(const std::string& word, const std::vector<std::string>& known);

// After `app` has refused a command line, or a key of its configuration file, by `refusal`: a usage
// error that names the first command, option, key or argument that it does not know, and the
// nearest one of its kind; the program's name is not part of the text. None: that is not what is
// wrong.
std::optional<Error> unknown_word(const CLI::App& app, const CLI::ParseError& refusal);

}  // namespace es::actors
