#include "actors/node/shell/oom_kills.h"

#include <charconv>
#include <fstream>
#include <iterator>

namespace es::actors {
namespace {

constexpr std::string_view kCounter = "oom_kill";

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Calls `use` for each line.
template <class Use>
void for_lines(std::string_view text, const Use& use) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    use(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

}  // namespace

std::optional<std::uint64_t> counter_of(std::string_view text, std::string_view name) {
  std::optional<std::uint64_t> found;
  for_lines(text, [&](std::string_view line) {
    if (!line.starts_with(name) || line.substr(name.size(), 1) != " ") return;
    const std::string_view digits = line.substr(name.size() + 1);
    std::uint64_t value = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (end.ec == std::errc()) found = value;
  });
  return found;
}

// A line is NUMBER:CONTROLLERS:PATH; version 2 has the number 0 and no controllers.
std::vector<std::string> counter_files(std::string_view cgroups) {
  std::vector<std::string> files;
  for_lines(cgroups, [&](std::string_view line) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string_view::npos) return;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (controllers.empty()) files.push_back("/sys/fs/cgroup" + path + "/memory.events");
    if (controllers == "memory")
      files.push_back("/sys/fs/cgroup/memory" + path + "/memory.oom_control");
  });
  return files;
}

std::optional<std::uint64_t> oom_kills() {
  for (const std::string& file : counter_files(content_of("/proc/self/cgroup")))
    if (const auto count = counter_of(content_of(file), kCounter)) return count;
  return counter_of(content_of("/proc/vmstat"), kCounter);
}

}  // namespace es::actors
