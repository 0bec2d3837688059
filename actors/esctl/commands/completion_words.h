#pragma once
// What can follow on a command line of esctl: for `esctl completion`, whose scripts ask the hidden
// command `esctl complete` at every press of the tabulator. The commands and their options are read
// from the same table as --help.
#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

namespace es::actors::esctl {

struct Candidate {
  std::string word;
  std::string description{};  // one line; may be empty
};

// Names that are known only to a head. Each function may take a moment, and returns nothing if no
// head answers.
struct NameSources {
  std::function<std::vector<std::string>()> jobs, nodes, devices, claims;
};

struct Completion {
  std::vector<Candidate> candidates{};
  bool files = false;        // names of files and directories may follow, too
  bool directories = false;  // only names of directories
};

// `words` are those behind the program's name; the last one is incomplete and may be empty. Only
// candidates that begin with it are returned, in the order of --help.
Completion complete(const CLI::App& root, std::vector<std::string> words, const NameSources& names);

// The value of an option in the words, as --NAME VALUE or --NAME=VALUE; empty if it is not there.
std::string option_value(const std::vector<std::string>& words, const std::string& option);

}  // namespace es::actors::esctl
