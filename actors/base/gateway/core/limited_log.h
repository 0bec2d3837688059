#pragma once
// LimitedLog: a log that a peer cannot flood. It writes at most one line per second for each cause;
// the next line of the cause says how many lines were left out.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace es::actors {

class LimitedLog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit LimitedLog(std::function<void(const std::string&)> sink) : sink_(std::move(sink)) {}

  // `cause` must be one of a fixed set of texts and never come from a peer.
  void line(Time now, const std::string& cause, const std::string& detail) {
    auto [entry, is_first] = causes_.try_emplace(cause);
    if (!is_first && now - entry->second.written < std::chrono::seconds(1)) {
      ++entry->second.left_out;
      return;
    }
    std::string text = cause + ": " + detail;
    if (entry->second.left_out > 0)
      text += " (and " + std::to_string(entry->second.left_out) + " more)";
    entry->second = {.written = now, .left_out = 0};
    sink_(text);
  }

 private:
  struct Cause {
    Time written;
    std::uint64_t left_out = 0;
  };
  std::function<void(const std::string&)> sink_;
  std::map<std::string, Cause> causes_;
};

}  // namespace es::actors
