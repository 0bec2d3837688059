#pragma once
// One line of a log: its parts, its two forms, and the way back from a log to its messages. These
// are pure functions; log.h writes the lines.
//
// Text: the time, the level in a column of seven characters, what the line is about, and the
// message:
//
//   2026-11-22T17:31:02.123Z info    worker 17 job tiny-3 node first: started on first/cpu-avx2:0
//   2026-11-22T17:31:02.456Z warning easyscaled: the directory cannot be written
//
// JSON: one object, whose keys are always in this order, and without the keys of parts that the
// line does not have:
//
//   {"ts":"2026-11-22T17:31:02.123Z","level":"info","msg":"started on first/cpu-avx2:0",
//    "job":"tiny-3","worker":17,"node":"first","peer":"worker/18"}    (in one line)
//
// The log of a job has a third form, without what the line is about, which is always the job:
//
//   2026-11-22T17:31:02.123Z info    worker 17 on first/cpu-avx2:0 was killed
//
// All forms are a part of the interface for operators (docs/OPERATIONS.md). The time is UTC with
// milliseconds.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace es::log {

// In ascending order. kDebug: single messages and rounds. kInfo: what an operator wants to know of
// a cluster that works. kWarning: something is wrong, and the process continues. kError: the
// process ends, or something is lost.
enum class Level { kDebug, kInfo, kWarning, kError };

enum class Format { kText, kJson };

// "debug", "info", "warning" or "error".
std::string_view level_name(Level level);

// What a line is about. Empty texts and worker 0 are left out.
struct About {
  std::string job;
  std::uint64_t worker = 0;  // incarnation
  std::string node;
  std::string peer;  // the other end of a connection, as a PeerId
};

struct Line {
  std::chrono::system_clock::time_point time;
  Level level = Level::kInfo;
  std::string_view message;
  About about;
};

// Returns the line without its end. It contains no end of line and nothing that a terminal would
// execute. In the text form such bytes become \xNN (proto/base/text.h), and so do spaces in the
// parts of `about`. The JSON form is ASCII with the escapes of JSON, and it has U+FFFD instead of
// bytes that are not UTF-8.
std::string format_line(const Line& line, Format format);

// A line of the log of a job or of a worker. Of lines without time and level, which logs of earlier
// releases and other programs have, the whole text is the message. In the text form of the log of a
// worker the message has what the line is about.
struct JobLine {
  std::optional<std::chrono::system_clock::time_point> time;
  Level level = Level::kInfo;
  std::string message;
};
// Returns the line without its end; bytes that a terminal would execute become \xNN.
std::string format_job_line(std::chrono::system_clock::time_point time, Level level,
                            std::string_view message);
JobLine parse_job_line(std::string_view line);

// The time in UTC with milliseconds, as in every line.
std::string time_text(std::chrono::system_clock::time_point time);
// Reads such a time. The fraction of a second, or the seconds with it, or the whole time of day may
// be missing, and so may the 'Z'. No value: not such a time, or not a date of the calendar.
std::optional<std::chrono::system_clock::time_point> parse_time(std::string_view text);
// No value: not the name of a level.
std::optional<Level> parse_level(std::string_view name);

// Returns what a person should read of a log that may have lines of other programs: the messages of
// its errors, its warnings with "warning: " before the message, and lines of no known form as they
// are. Lines below a warning are left out. Lines are separated by '\n', and there is none at the
// end.
std::string complaints_of(std::string_view log);

}  // namespace es::log
