#include "actors/node/shell/worker_logs.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

namespace es::actors {
namespace {

// Returns N of "worker-N.log"; no value: another file.
std::optional<Incarnation> worker_of_log(std::string_view name) {
  constexpr std::string_view kBegin = "worker-", kEnd = ".log";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return {};
  name.remove_prefix(kBegin.size());
  name.remove_suffix(std::min(kEnd.size(), name.size()));
  Incarnation worker;
  const auto [at, error] = std::from_chars(name.data(), name.data() + name.size(), worker.value);
  if (error != std::errc() || at != name.data() + name.size()) return {};
  return worker;
}

}  // namespace

void remove_old_worker_logs(const std::filesystem::path& run_dir,
                            const std::vector<Incarnation>& running, std::size_t kept) {
  std::map<Incarnation, std::filesystem::path> ended;
  std::error_code code;
  for (std::filesystem::directory_iterator at(run_dir, code), end; !code && at != end;
       at.increment(code))
    if (const auto worker = worker_of_log(at->path().filename().native()))
      if (std::find(running.begin(), running.end(), *worker) == running.end())
        ended.emplace(*worker, at->path());
  for (auto at = ended.begin(); ended.size() > kept; at = ended.erase(at))
    std::filesystem::remove(at->second, code);
}

}  // namespace es::actors
