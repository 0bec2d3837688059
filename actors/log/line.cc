#include "actors/log/line.h"

#include <nlohmann/json.hpp>

#include <array>
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

std::string text_line(const Line& line) {
  std::string level(level_name(line.level));
  level.resize(kLevelColumn, ' ');
  return time_text(line.time) + " " + level + " " + text_of(line.about) +
         std::string(kMessageMark) + escaped(line.message);
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

struct Complaint {
  std::string_view level;
  std::string message;
};

bool is_level(std::string_view word) {
  return std::find(kLevelNames.begin(), kLevelNames.end(), word) != kLevelNames.end();
}

std::optional<Complaint> parse_text(std::string_view line) {
  // Time and level have fixed widths, so their places show whether the line was written by
  // text_line().
  constexpr std::size_t kPrefix = kTimeLength + 1 + kLevelColumn + 1;
  if (line.size() < kPrefix || line[10] != 'T' || line[kTimeLength - 1] != 'Z') return {};
  std::string_view level = line.substr(kTimeLength + 1, kLevelColumn);
  level = level.substr(0, level.find(' '));
  const std::size_t mark = line.find(kMessageMark, kPrefix);
  if (!is_level(level) || mark == std::string_view::npos) return {};
  return Complaint{level, std::string(line.substr(mark + kMessageMark.size()))};
}

std::optional<Complaint> parse_json(std::string_view line) {
  if (!line.starts_with("{\"ts\":")) return {};
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("level") || !json["level"].is_string() ||
      !json.contains("msg") || !json["msg"].is_string())
    return {};
  const auto level = std::find(kLevelNames.begin(), kLevelNames.end(), json["level"]);
  if (level == kLevelNames.end()) return {};
  return Complaint{*level, json["msg"].get<std::string>()};
}

// Returns what a person should read of one line; no value if nothing.
std::optional<std::string> complaint_of(std::string_view line) {
  auto parsed = parse_text(line);
  if (!parsed) parsed = parse_json(line);
  // A line of another form was not written by this log, for example the message of a library or of
  // a crash. It is kept.
  if (!parsed) return std::string(line);
  if (parsed->level == level_name(Level::kError)) return std::move(parsed->message);
  if (parsed->level == level_name(Level::kWarning)) return "warning: " + parsed->message;
  return std::nullopt;
}

}  // namespace

std::string_view level_name(Level level) {
  return kLevelNames[static_cast<std::size_t>(level)];
}

std::string format_line(const Line& line, Format format) {
  return format == Format::kJson ? json_line(line) : text_line(line);
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
