#include "actors/base/log/line.h"

#include <doctest/doctest.h>

#include <string>

using namespace es::log;

namespace {

// 2026-11-22T17:31:02.123Z
constexpr std::chrono::system_clock::time_point kTime{std::chrono::milliseconds(1795368662123)};

std::string text(Level level, std::string_view message, const About& about = {}) {
  return format_line({kTime, level, message, about}, Format::kText);
}

std::string json(Level level, std::string_view message, const About& about = {}) {
  return format_line({kTime, level, message, about}, Format::kJson);
}

}  // namespace

TEST_SUITE("actors/base/log/line") {
  TEST_CASE("the text form has the time, the level, what it is about, and the message") {
    CHECK(text(Level::kInfo, "started", {.job = "tiny-3", .worker = 17}) ==
          "2026-11-22T17:31:02.123Z info    worker 17 job tiny-3: started");
    CHECK(text(Level::kWarning, "lost", {.node = "first", .peer = "worker/18"}) ==
          "2026-11-22T17:31:02.123Z warning node first peer worker/18: lost");
    CHECK(text(Level::kError, "no room") == "2026-11-22T17:31:02.123Z error   easyscaled: no room");
    CHECK(text(Level::kDebug, "") == "2026-11-22T17:31:02.123Z debug   easyscaled: ");
  }

  TEST_CASE("the JSON form has its keys in one order, and only those that have a value") {
    CHECK(json(Level::kInfo, "started",
               {.job = "tiny-3", .worker = 17, .node = "first", .peer = "head"}) ==
          R"({"ts":"2026-11-22T17:31:02.123Z","level":"info","msg":"started","job":"tiny-3",)"
          R"("worker":17,"node":"first","peer":"head"})");
    CHECK(json(Level::kError, "no room") ==
          R"({"ts":"2026-11-22T17:31:02.123Z","level":"error","msg":"no room"})");
  }

  TEST_CASE("a line of a job's log is read back") {
    const std::string line = format_job_line(kTime, Level::kWarning, "worker 2\nwas: killed");
    CHECK(line == "2026-11-22T17:31:02.123Z warning worker 2\\x0awas: killed");
    const JobLine read = parse_job_line(line);
    CHECK(read.time == kTime);
    CHECK(read.level == Level::kWarning);
    CHECK(read.message == "worker 2\\x0awas: killed");
    CHECK(parse_job_line(format_job_line(kTime, Level::kInfo, "")).message.empty());
  }

  TEST_CASE("lines of the log of a worker are read back in both forms") {
    const Line line{kTime, Level::kWarning, "slow", {.job = "j", .worker = 2}};
    CHECK(parse_job_line(format_line(line, Format::kText)).message == "worker 2 job j: slow");
    for (const Format format : {Format::kText, Format::kJson}) {
      const JobLine read = parse_job_line(format_line(line, format));
      CHECK(read.time == kTime);
      CHECK(read.level == Level::kWarning);
    }
    CHECK(parse_job_line(format_line(line, Format::kJson)).message == "slow");
  }

  TEST_CASE("a line without time and level is a message") {
    for (const std::string text :
         {"", "job is running", "2026-11-22T17:31:02.123Z", "2026-11-22T17:31:02.123Z loud    x",
          "2026-11-22T17:31:02.123Zxinfo    x", "2026-11-99T17:31:02.123Z info    x"}) {
      CAPTURE(text);
      const JobLine read = parse_job_line(text);
      CHECK_FALSE(read.time);
      CHECK(read.level == Level::kInfo);
      CHECK(read.message == text);
    }
  }

  TEST_CASE("times are read back, also if their end is missing") {
    CHECK(parse_time(time_text(kTime)) == kTime);
    const auto whole = std::chrono::floor<std::chrono::seconds>(kTime);
    CHECK(parse_time("2026-11-22T17:31:02Z") == whole);
    CHECK(parse_time("2026-11-22T17:31:02") == whole);
    CHECK(parse_time("2026-11-22T17:31") == whole - std::chrono::seconds(2));
    CHECK(time_text(parse_time("2026-11-22").value()) == "2026-11-22T00:00:00.000Z");
    for (const char* text :
         {"", "2026", "2026-11", "2026-02-30", "2026-11-22T24:00", "now", "2026-11-22T17:60",
          "2026-11-22T17", "2026-11-22T17:31:02.1234", "2026-11-22 17:31", "-026-11-22"}) {
      CAPTURE(text);
      CHECK_FALSE(parse_time(text));
    }
  }

  TEST_CASE("milliseconds have three digits, and a time before 1970 is a time") {
    const auto at = [](std::int64_t ms) {
      const std::chrono::system_clock::time_point time{std::chrono::milliseconds(ms)};
      return format_line({time, Level::kInfo, "x", {}}, Format::kText).substr(0, 24);
    };
    CHECK(at(0) == "1970-01-01T00:00:00.000Z");
    CHECK(at(7) == "1970-01-01T00:00:00.007Z");
    CHECK(at(-1) == "1969-12-31T23:59:59.999Z");
  }

  TEST_CASE("no message ends a line or reaches a terminal as a command") {
    const std::string hostile = "a\nb\r\x1b[2J\x7f \"quoted\" back\\slash \xff \xe2\x80\xae end";
    CHECK(text(Level::kInfo, hostile) ==
          "2026-11-22T17:31:02.123Z info    easyscaled: a\\x0ab\\x0d\\x1b[2J\\x7f \"quoted\" "
          "back\\slash \\xff \\xe2\\x80\\xae end");
    const std::string line = json(Level::kInfo, hostile);
    CHECK(line.find(R"("msg":"a\nb\r\u001b[2J)") != std::string::npos);
    CHECK(line.find(R"(\"quoted\" back\\slash )") != std::string::npos);
    CHECK(line.find(R"(\ufffd \u202e end")") != std::string::npos);
    for (const char c : line) CHECK((c >= ' ' && c < '\x7f'));
  }

  TEST_CASE("a strange name cannot pass for the end of what a line is about") {
    const About about{.node = "a: error b\n"};
    const std::string line = text(Level::kError, "real", about);
    CHECK(line == "2026-11-22T17:31:02.123Z error   node a:\\x20error\\x20b\\x0a: real");
    CHECK(complaints_of(line) == "real");
  }

  TEST_CASE("of a log a person reads errors, warnings, and what other programs wrote") {
    for (const auto form : {text, json}) {
      const About about{.job = "tiny-3", .worker = 17, .node = "first"};
      const std::string log = form(Level::kInfo, "started", about) + "\n" +
                              form(Level::kWarning, "slow: disk", about) + "\n" +
                              "terminate called\n" + form(Level::kDebug, "round 2", {}) + "\n" +
                              form(Level::kError, "the device is lost: \"x\"", about) + "\n";
      CHECK(complaints_of(log) ==
            "warning: slow: disk\nterminate called\nthe device is lost: \"x\"");
    }
  }

  TEST_CASE("lines that are almost of the log's form are kept as they are") {
    for (const std::string& line :
         {std::string("2026-11-22T17:31:02.123Z error"),
          std::string("2026-11-22T17:31:02.123Z loud    easyscaled: x"),
          std::string("2026-11-22T17:31:02.123Z info    no mark"), std::string("{\"ts\":1}"),
          std::string("{\"ts\":\"x\",\"level\":\"loud\",\"msg\":\"y\"}"),
          std::string("{\"ts\":\"x\",\"level\":\"info\""), std::string("")})
      CHECK(complaints_of(line) == line);
    CHECK(complaints_of("a\n\nb") == "a\n\nb");
  }
}
