#include "actors/base/log/line.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <optional>
#include <utility>

#include "proto/base/text.h"

namespace es::log {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> kLevelNames{"debug", "info", "warning", "error"};
constexpr std::size_t kLevelColumn = 7;
constexpr std::size_t kTimeLength = 24;
// What a line is about that is about nothing smaller than the program.
constexpr std::string_view kProgram = "easyscaled";
constexpr std::string_view kMessageMark = ": ";

// The value cannot contain kMessageMark, because it has no space.
void add_part(std::string& text, std::string_view key, std::string_view value) {
  if (value.empty()) return;
  if (!text.empty()) text += ' ';
  text.append(key).append(" ");
  for (const char c : escaped(value)) text += c == ' ' ? std::string("\\x20") : std::string(1, c);
}

std::string text_of(const About& about) {
  std::string text;
  add_part(text, "worker", about.worker == 0 ? "" : std::to_string(about.worker));
  add_part(text, "job", about.job);
  add_part(text, "node", about.node);
  add_part(text, "peer", about.peer);
  return text.empty() ? std::string(kProgram) : text;
}

// The time and the level in its column, with a space behind it.
std::string prefix_of(std::chrono::system_clock::time_point time, Level level) {
  std::string column(level_name(level));
  column.resize(kLevelColumn, ' ');
  return time_text(time) + " " + column + " ";
}

std::string text_line(const Line& line) {
  return prefix_of(line.time, line.level) + text_of(line.about) + std::string(kMessageMark) +
         escaped(line.message);
}

std::string json_line(const Line& line) {
  Json json;
  json["ts"] = time_text(line.time);
  json["level"] = level_name(line.level);
  json["msg"] = line.message;
  if (!line.about.job.empty()) json["job"] = line.about.job;
  if (line.about.worker != 0) json["worker"] = line.about.worker;
  if (!line.about.node.empty()) json["node"] = line.about.node;
  if (!line.about.peer.empty()) json["peer"] = line.about.peer;
  return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

std::optional<JobLine> parse_text(std::string_view line) {
  // Time and level have fixed widths, so their places show whether the line was written by
  // text_line().
  constexpr std::size_t kPrefix = kTimeLength + 1 + kLevelColumn + 1;
  if (line.size() < kPrefix || line[10] != 'T' || line[kTimeLength - 1] != 'Z') return {};
  const std::string_view name = line.substr(kTimeLength + 1, kLevelColumn);
  const auto level = parse_level(name.substr(0, name.find(' ')));
  const std::size_t mark = line.find(kMessageMark, kPrefix);
  if (!level || mark == std::string_view::npos) return {};
  return JobLine{{}, *level, std::string(line.substr(mark + kMessageMark.size()))};
}

std::optional<JobLine> parse_json(std::string_view line) {
  if (!line.starts_with("{\"ts\":")) return {};
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  const auto text = [&](const char* key) {
    const auto at = json.find(key);
    return at != json.end() && at->is_string() ? std::optional(at->get<std::string>())
                                               : std::nullopt;
  };
  const auto ts = text("ts"), name = text("level"), message = text("msg");
  const auto level = parse_level(name.value_or(""));
  if (!level || !message) return {};
  return JobLine{parse_time(ts.value_or("")), *level, *message};
}

// Returns what a person should read of one line; no value if nothing.
std::optional<std::string> complaint_of(std::string_view line) {
  auto parsed = parse_text(line);
  if (!parsed) parsed = parse_json(line);
  // A line of another form was not written by this log, for example the message of a library or of
  // a crash. It is kept.
  if (!parsed) return std::string(line);
  if (parsed->level == Level::kError) return std::move(parsed->message);
  if (parsed->level == Level::kWarning) return "warning: " + parsed->message;
  return std::nullopt;
}

// Takes `count` digits and the character `end` behind them, which may be missing at the end of the
// text. No value: there is something else.
std::optional<int> take_number(std::string_view& text, std::size_t count, char end) {
  int value = 0;
  const char* const last = text.data() + std::min(count, text.size());
  const auto [at, error] = std::from_chars(text.data(), last, value);
  if (text.size() < count || error != std::errc() || at != last || text[0] == '-') return {};
  text.remove_prefix(count);
  if (text.empty()) return value;
  if (text[0] != end) return {};
  text.remove_prefix(1);
  return value;
}

// Takes "17:31:02.123", of which the end may be missing.
std::optional<std::chrono::milliseconds> take_time_of_day(std::string_view text) {
  const auto hours = take_number(text, 2, ':'), minutes = take_number(text, 2, ':');
  if (!hours || !minutes || *hours > 23 || *minutes > 59) return {};
  std::chrono::milliseconds time = std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
  if (text.empty()) return time;
  const auto seconds = take_number(text, 2, '.');
  if (!seconds || *seconds > 59) return {};
  time += std::chrono::seconds(*seconds);
  if (text.empty()) return time;
  const auto fraction = take_number(text, 3, '\0');
  if (!fraction || !text.empty()) return {};
  return time + std::chrono::milliseconds(*fraction);
}

}  // namespace

std::string_view level_name(Level level) {
  return kLevelNames[static_cast<std::size_t>(level)];
}

std::string format_line(const Line& line, Format format) {
  return format == Format::kJson ? json_line(line) : text_line(line);
}

std::optional<Level> parse_level(std::string_view name) {
  const auto at = std::find(kLevelNames.begin(), kLevelNames.end(), name);
  if (at == kLevelNames.end()) return {};
  return static_cast<Level>(at - kLevelNames.begin());
}

std::string time_text(std::chrono::system_clock::time_point time) {
  const auto since = std::chrono::floor<std::chrono::milliseconds>(time).time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  const std::time_t whole = seconds.count();
  std::tm utc{};
  ::gmtime_r(&whole, &utc);
  char text[64];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + length, sizeof text - length, ".%03dZ",
                static_cast<int>((since - seconds).count()));
  return text;
}

std::optional<std::chrono::system_clock::time_point> parse_time(std::string_view text) {
  if (text.ends_with('Z')) text.remove_suffix(1);
  const auto year = take_number(text, 4, '-'), month = take_number(text, 2, '-');
  const auto day = take_number(text, 2, 'T');
  if (!year || !month || !day) return {};
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return {};
  const std::chrono::system_clock::time_point midnight = std::chrono::sys_days(date);
  if (text.empty()) return midnight;
  const auto time = take_time_of_day(text);
  if (!time) return {};
  return midnight + *time;
}

std::string format_job_line(std::chrono::system_clock::time_point time, Level level,
                            std::string_view message) {
  return prefix_of(time, level) + escaped(message);
}

JobLine parse_job_line(std::string_view line) {
  if (auto json = parse_json(line)) return *std::move(json);
  constexpr std::size_t kMessage = kTimeLength + 1 + kLevelColumn + 1;
  JobLine whole{.message = std::string(line)};
  if (line.size() < kMessage || line[kTimeLength] != ' ' || line[kMessage - 1] != ' ') return whole;
  const auto time = parse_time(line.substr(0, kTimeLength));
  std::string_view name = line.substr(kTimeLength + 1, kLevelColumn);
  const auto level = parse_level(name.substr(0, name.find(' ')));
  if (!time || !level) return whole;
  return {*time, *level, std::string(line.substr(kMessage))};
}

std::string complaints_of(std::string_view log) {
  std::string text;
  bool first = true;
  while (!log.empty()) {
    const std::size_t end = log.find('\n');
    const auto complaint = complaint_of(log.substr(0, end));
    log.remove_prefix(end == std::string_view::npos ? log.size() : end + 1);
    if (!complaint) continue;
    if (!std::exchange(first, false)) text += '\n';
    text += *complaint;
  }
  return text;
}

}  // namespace es::log
