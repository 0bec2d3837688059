#include "actors/worker/state/node_roots.h"

#include <system_error>
#include <utility>

#include "store/path_roots.h"

namespace es::actors {

namespace fs = std::filesystem;

Result<std::optional<std::vector<fs::path>>> checkpoint_roots(const NodeDirectories& node) {
  if (node.roots.empty()) return std::optional<std::vector<fs::path>>();
  std::vector<std::string> places = node.roots;
  for (const std::string& own : {node.rescue, node.run, node.head}) {
    if (own.empty()) continue;
    std::error_code code;
    fs::create_directories(own, code);
    if (fs::is_directory(own, code)) places.push_back(own);
  }
  auto resolved = store::resolve_roots(places, "--checkpoint-root");
  if (!resolved) return resolved.error();
  return std::optional(*std::move(resolved));
}

}  // namespace es::actors
