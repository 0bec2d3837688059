#pragma once
// Pages of the manual in roff, made from the same table as --help. Pure functions.
#include <CLI/CLI.hpp>

#include <string>

namespace es::actors::esctl {

// The page esctl(1), which lists the commands of `root`.
std::string overview_page(const CLI::App& root, const std::string& version);
// The page esctl-COMMAND(1).
std::string command_page(const CLI::App& command, const std::string& version);

}  // namespace es::actors::esctl
