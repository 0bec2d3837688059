#include "actors/base/program/log_options.h"

#include <doctest/doctest.h>

using namespace es;
using namespace es::actors;

namespace {

// Parses a command line into `options` and returns the text of the refusal; empty: none.
std::string parse(const std::vector<std::string>& words, log::Options& options) {
  CLI::App app("program");
  add_log_options(app, options);
  std::vector<std::string> last_first(words.rbegin(), words.rend());
  try {
    app.parse(last_first);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_SUITE("actors/base/program/log_options") {
  TEST_CASE("without options lines from info on are written as text") {
    log::Options options;
    CHECK(parse({}, options).empty());
    CHECK(options.level == log::Level::kInfo);
    CHECK(options.format == log::Format::kText);
  }

  TEST_CASE("a child process gets the same options") {
    for (const auto level :
         {log::Level::kDebug, log::Level::kInfo, log::Level::kWarning, log::Level::kError})
      for (const auto format : {log::Format::kText, log::Format::kJson}) {
        log::Options options;
        CHECK(parse(to_arguments(log::Options{level, format}), options).empty());
        CHECK(options.level == level);
        CHECK(options.format == format);
      }
  }

  TEST_CASE("another value is refused with the option, the value and what is allowed") {
    log::Options options;
    CHECK(parse({"--log-level", "loud"}, options) ==
          "--log-level: \"loud\": allowed are debug, info, warning, error");
    CHECK(parse({"--log-format", "xml"}, options) ==
          "--log-format: \"xml\": allowed are text, json");
    CHECK(parse({"--log-level", "INFO"}, options).find("\"INFO\"") != std::string::npos);
  }
}
