#include "actors/base/job_file/toml_bounds.h"

#include <doctest/doctest.h>

#include "actors/base/job_file/job_file.h"

namespace es::actors {
namespace {

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

void check_refused(const std::string& text, const std::string& expected) {
  const Result<JobSpec> spec = parse_job(text, "job.toml");
  REQUIRE_FALSE(spec.ok());
  CHECK(spec.error().kind == ErrorKind::kUsage);
  CHECK_MESSAGE(spec.error().message.find(expected) == 0, spec.error().message);
  CHECK(spec.error().message.size() < 500);
}

}  // namespace

TEST_SUITE("actors/base/job_file/toml_bounds") {
  // Without the bound, each of these texts would use up the stack and end the process.
  TEST_CASE("a text that is nested too deeply is refused before it is parsed") {
    for (const std::size_t levels : {17u, 1000u, 50'000u, 120'000u}) {
      CAPTURE(levels);
      const std::string deep = "job.toml: line 2: more than 16 open brackets, or names in a dotted";
      check_refused("steps = 1\n" + repeated("a.", levels) + "a = 1\n", deep);
      check_refused("steps = 1\n[" + repeated("a.", levels) + "a]\n", deep);
      check_refused("steps = 1\n[[" + repeated("a.", levels) + "a]]\n", deep);
      check_refused("steps = 1\nx = " + repeated("[", levels), deep);
      check_refused("steps = 1\nx = " + repeated("[", levels) + repeated("]", levels), deep);
      if (levels <= 50'000) check_refused("steps = 1\nx = " + repeated("{a=", levels), deep);
      if (levels <= 50'000) check_refused("steps = 1\nx = [" + repeated("[1,", levels), deep);
      if (levels <= 50'000) check_refused("steps = 1\n" + repeated("'a'.", levels) + "a=1", deep);
    }
  }

  TEST_CASE("brackets and dots in strings and comments do not count as nesting") {
    const std::string many = repeated("[{a.b.c", 1000);
    for (const std::string& text :
         {"# " + many + "\nx = 1", "x = \"" + many + "\"", "x = '" + many + "'",
          "x = \"\"\"\n" + many + "\n\"\"\"\ny = 1", "x = '''\n" + many + "\n'''",
          "x = \"\\\"" + many + "\"", "x = [" + repeated("1.5, ", 1000) + "]"}) {
      CAPTURE(text.substr(0, 60));
      CHECK(check_toml_text(text, "t").ok());
    }
  }

  TEST_CASE("brackets and dots after a string count again") {
    for (const char* start :
         {"x = \"a\\\\\"\n", "x = 'a\\'\n", "x = \"\"\"a\\\"\"\"\"\n", "x = ''\n"}) {
      CAPTURE(start);
      CHECK_FALSE(check_toml_text(start + repeated("a.", 100) + "a = 1", "t").ok());
    }
  }

  TEST_CASE("a text that is too long is refused") {
    check_refused("steps = 1 #" + std::string(kTomlBytesMax, 'x'),
                  "job.toml: more than 262144 bytes");
    CHECK(check_toml_text(std::string(kTomlBytesMax, ' '), "t").ok());
  }

  TEST_CASE("a zero byte, a control character and bytes that are no UTF-8 are refused by line") {
    const std::string good = "steps = 1\nmax_p = 2\n";
    REQUIRE(parse_job(good, "job.toml").ok());
    const std::string bad = "job.toml: line 3: a control character, or bytes that are no UTF-8";
    check_refused(good + std::string("\0hidden = 1", 11), bad);
    check_refused(good + "# \x1b[2J", bad);
    check_refused(good + "# \xff", bad);
    check_refused(good + "\x7f", bad);
  }

  TEST_CASE("a control character in a job is refused in every spelling") {
    for (const char* line :
         {"[data]\nkind = \"idx\"\npath = \"a\\u001b[2J\"", "[data]\npath = \"a\\nb\"",
          "[resources]\ntenant = \"a\\u0000b\"", "[model]\nweights = \"\\u009b\"",
          "[resources]\ndevice_types = [\"cpu\\n\"]", "[checkpoint]\ndirectory = \"a\\u202eb\""}) {
      CAPTURE(line);
      const auto spec = parse_job("steps = 1\n" + std::string(line), "job.toml");
      REQUIRE_FALSE(spec.ok());
      CHECK(spec.error().message.find("allowed is UTF-8 text without control characters") !=
            std::string::npos);
    }
  }

  TEST_CASE("the canonical text of every accepted text is accepted") {
    std::string text = "steps = 1\n[data]\npath = '" + std::string(4096, '\\') +
                       "'\n[resources]\n" + "device_types = [";
    for (int i = 0; i < 256; ++i) text += "'" + std::string(64, '\\') + "', ";
    const auto spec = parse_job(text + "]\n", "job.toml");
    REQUIRE_MESSAGE(spec.ok(), (spec.ok() ? "" : spec.error().message));
    CHECK(parse_job(to_toml(*spec), "canonical").ok());
  }
}

}  // namespace es::actors
