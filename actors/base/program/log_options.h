#pragma once
// Command line options of the log, shared by daemon and worker.
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "actors/base/log/log.h"

namespace es::actors {

// Adds --log-level and --log-format, which set `options`. Another value is refused with an error
// that names the option, the value and what is allowed.
void add_log_options(CLI::App& app, log::Options& options);

// Adds the options for the log file of a daemon: --log-file, --log-file-mib and --log-files.
void add_log_file_options(CLI::App& app, log::Options& options);

// Returns the level and the format for a child process, which has a file of its own.
std::vector<std::string> to_arguments(const log::Options& options);

}  // namespace es::actors
