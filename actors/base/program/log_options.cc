#include "actors/base/program/log_options.h"

#include <utility>

namespace es::actors {
namespace {

using log::Format;
using log::Level;

template <class Value>
using Names = std::vector<std::pair<std::string, Value>>;

const Names<Level>& level_names() {
  static const Names<Level> names = [] {
    Names<Level> made;
    for (const Level level : {Level::kDebug, Level::kInfo, Level::kWarning, Level::kError})
      made.emplace_back(log::level_name(level), level);
    return made;
  }();
  return names;
}

const Names<Format>& format_names() {
  static const Names<Format> names{{"text", Format::kText}, {"json", Format::kJson}};
  return names;
}

template <class Value>
std::string name_of(const Names<Value>& names, Value wanted) {
  for (const auto& [name, value] : names)
    if (value == wanted) return name;
  return {};
}

template <class Value>
CLI::Option* add_choice(CLI::App& app, const std::string& option, const Names<Value>& names,
                        Value& value, const std::string& description) {
  std::string allowed;
  for (const auto& [name, each] : names) allowed += (allowed.empty() ? "" : ", ") + name;
  const auto take = [&names, &value](const std::string& text) {
    for (const auto& [name, each] : names)
      if (name == text) value = each;
  };
  const auto check = [&names, allowed](const std::string& text) {
    for (const auto& [name, each] : names)
      if (name == text) return std::string();
    return "\"" + text + "\": allowed are " + allowed;
  };
  return app.add_option_function<std::string>(option, take, description + ": " + allowed)
      ->check(check)
      ->default_str(name_of(names, value));
}

}  // namespace

void add_log_options(CLI::App& app, log::Options& options) {
  add_choice(app, "--log-level", level_names(), options.level,
             "The least level of lines in the logs of this daemon and of its workers")
      ->type_name("LEVEL");
  add_choice(app, "--log-format", format_names(), options.format, "The form of these lines")
      ->type_name("FORMAT");
}

void add_log_file_options(CLI::App& app, log::Options& options) {
  app.add_option(
         "--log-file", options.file,
         "Append the log of this daemon to this file, and only its errors to standard error")
      ->type_name("FILE");
  constexpr std::uint64_t kMebi = 1 << 20;
  app.add_option_function<std::uint64_t>(
         "--log-file-mib",
         [&options](const std::uint64_t& mebibytes) { options.file_bytes_max = mebibytes * kMebi; },
         "Size in MiB at which the log file is replaced by a new one")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 20))
      ->default_str(std::to_string(options.file_bytes_max / kMebi));
  app.add_option("--log-files", options.older_files,
                 "Number of older log files that are kept beside it")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
}

std::vector<std::string> to_arguments(const log::Options& options) {
  return {"--log-level", name_of(level_names(), options.level), "--log-format",
          name_of(format_names(), options.format)};
}

}  // namespace es::actors
