#include "actors/head/intra_job/shell/job_log_end.h"

#include <fstream>
#include <string_view>

#include "actors/base/log/tail.h"

namespace es::actors {
namespace {

constexpr std::string_view kEnded = "job ended: ";

// Returns the end of the file, with the whole of its last line. Most lines are short, and a head
// that starts looks at the logs of all its past jobs.
std::string end_of(const std::filesystem::path& file) {
  std::size_t bytes = 4096;
  std::string tail = log::tail_of(file, bytes);
  // Only the end of a line that is longer still, or a file of just this size.
  while (tail.size() == bytes) tail = log::tail_of(file, bytes *= 8);
  return tail;
}

bool is_complete(std::string_view tail) {
  if (tail.empty() || tail.back() != '\n') return false;
  tail.remove_suffix(1);
  const std::string_view last = tail.substr(tail.rfind('\n') + 1);
  return log::parse_job_line(last).message.rfind(kEnded, 0) == 0;
}

}  // namespace

JobLogEnd job_log_end(JobState state, const std::string& error) {
  std::string text = std::string(kEnded) + state_name(state);
  if (!error.empty()) text += ": " + error;
  return {std::move(text), state == JobState::kFailed ? log::Level::kError : log::Level::kInfo};
}

void complete_job_log(const std::filesystem::path& file, const JobLogEnd& end,
                      std::chrono::system_clock::time_point now) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return;
  const std::string tail = end_of(file);
  if (is_complete(tail)) return;
  std::ofstream out(file, std::ios::app);
  if (!tail.empty() && tail.back() != '\n') out << '\n';
  out << log::format_job_line(now, end.level, end.text) << '\n';
}

}  // namespace es::actors
